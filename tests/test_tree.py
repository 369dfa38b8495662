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


def lines_of(path):
    return path.read_text().splitlines()


def name_of(path):
    return str(path.relative_to(ROOT))


def test_packages_alone_stand_at_the_top():
    assert {path.name for path in PACKAGE.glob("*.py")} == {"__init__.py", "__main__.py", "version.py"}


@pytest.mark.parametrize("folder", sorted({path.parent for path in TESTS.rglob("test_*.py")}), ids=name_of)
def test_each_folder_of_tests_has_a_package(folder):
    assert (PACKAGE / folder.relative_to(TESTS)).is_dir() or folder.name == "docs"


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
