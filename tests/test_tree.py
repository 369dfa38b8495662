"""The shape of the tree: packages alone at the top, tests that mirror them, and nothing long or untyped without a
reason beside it."""

import ast

import pytest

from tests.places import ROOT

PACKAGE, TESTS = ROOT / "src" / "beno", ROOT / "tests"
LONGEST_FILE, LONGEST_FUNCTION = 400, 60
MOST_ANY = 20
MODULES = sorted(PACKAGE.rglob("*.py"))
SOURCES = [*MODULES, *sorted(TESTS.rglob("*.py"))]

# Modules without a test file of their own, and where they are tested.
ALONGSIDE = {
    "cli/data.py": "cli/test_cli.py",
    "cli/options.py": "cli/test_outputs.py",
    "cli/progress.py": "cli/test_cli.py",
    "cli/reproduce.py": "paper/test_reproduce.py",
    "cli/solve.py": "cli/test_cli.py",
    "cli/train.py": "cli/test_cli.py",
    "evaluation/drawing.py": "evaluation/test_plotting.py",
    "evaluation/metrics.py": "evaluation/test_evaluation.py",
    "nn/autograd.py": "nn/test_segments.py",
    "nn/device.py": "learned/test_operator.py",
    "nn/triton/activation.py": "nn/triton/test_graph.py",
    "nn/triton/rows.py": "nn/triton/test_graph.py",
    "nn/triton/view.py": "nn/triton/test_pair_network.py",
    "paper/budget.py": "paper/test_queue.py",
    "paper/curves.py": "paper/test_figures.py",
    "paper/data.py": "paper/test_queue.py",
    "paper/json_files.py": "paper/test_cells.py",
    "paper/reported.py": "paper/test_tables.py",
    "paper/trained.py": "paper/test_cells.py",
    "paper/trainings.py": "paper/test_queue.py",
    "solvers/device/kernels_at_hand.py": "solvers/device/test_kernels.py",
    "solvers/device/memory.py": "solvers/device/test_capacitance.py",
    "support/errors.py": "cli/test_cli.py",
    "support/interruptions.py": "support/test_files.py",
    "training/records.py": "training/test_run.py",
}
# Tests of what several modules do together.
TOGETHER = {
    *("cli/test_cli.py", "cli/test_outputs.py", "paper/test_reproduce.py", "paper/test_results.py"),
    *("solvers/test_orders.py", "solvers/test_reference_values.py", "docs/test_docs.py"),
    *("datasets/test_old_files.py", "learned/test_old_files.py", "test_reprs.py", "test_tree.py"),
}


def lines_of(path):
    return path.read_text().splitlines()


def name_of(path):
    return str(path.relative_to(ROOT))


def test_packages_alone_stand_at_the_top():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "version.py"}


@pytest.mark.parametrize("folder", sorted({path.parent for path in TESTS.rglob("test_*.py")}), ids=name_of)
def test_each_folder_of_tests_has_a_package(folder):
    assert (PACKAGE / folder.relative_to(TESTS)).is_dir() or folder.name == "docs"


def test_tests_mirror_the_package():
    tested = {str(path.relative_to(TESTS)) for path in TESTS.rglob("test_*.py")}
    modules = [path.relative_to(PACKAGE) for path in MODULES if not path.name.startswith("__")]
    expected = {str(path): str(path.with_name(f"test_{path.name}")) for path in modules if len(path.parts) > 1}
    without = {module for module, test in expected.items() if test not in tested}
    assert without <= set(ALONGSIDE)
    assert set(ALONGSIDE.values()) <= tested
    assert tested - set(expected.values()) == TOGETHER


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_long_file_says_why(path):
    lines = lines_of(path)
    assert len(lines) <= LONGEST_FILE or any(f"Longer than {LONGEST_FILE} lines: " in line for line in lines)


@pytest.mark.parametrize("path", SOURCES, ids=name_of)
def test_a_long_function_says_why(path):
    lines = lines_of(path)
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef) and node.end_lineno - node.lineno >= LONGEST_FUNCTION:
            above = lines[: min([node.lineno, *(one.lineno for one in node.decorator_list)]) - 1]
            assert f"Longer than {LONGEST_FUNCTION} lines: " in above[-1], f"{node.name} in {name_of(path)}"


def test_any_is_rare_and_says_why():
    """A comment on its line says what has no better type."""
    places = [
        (f"{name_of(path)}:{number}", lines_of(path)[number - 1])
        for path in MODULES
        for number in sorted(
            {node.lineno for node in ast.walk(ast.parse(path.read_text())) if getattr(node, "id", None) == "Any"}
        )
    ]
    assert 0 < len(places) < MOST_ANY
    assert not [place for place, line in places if "#" not in line]
