"""The paper's first table: what each method can do. The paper's marks, and what holds for the models here.

`tests/paper/test_capabilities.py` has a test for every one of ours. They say what a model accepts and answers to;
how well it answers is what the other tables are for.
"""

# What is asked, and how it is tested here.
CAPABILITIES = {
    "new data": (
        "PDE-agnostic prediction on new initial conditions",
        "another f changes the answer, for either equation, and another coefficient",
    ),
    "new grid": ("Train/test space grid independence", "the same weights answer on a grid twice as fine"),
    "new places": ("Evaluation at unobserved spatial locations", "it answers between the points of the grid"),
    "any shape": ("Free-form spatial domain for boundary shape", "a domain with a hole is taken and seen"),
    "boundary values": ("Inhomogeneous boundary condition value", "another g changes the answer"),
}

PAPER = {
    "gkn": {"new data", "new grid", "new places"},
    "fno": {"new data", "new places"},
    "gnn-pde": {"new data", "new grid", "any shape"},
    "mp-pde": {"new data"},
    "beno": set(CAPABILITIES),
}

# Given boundary nodes with their values, as the paper's appendix asks, every model takes any shape and any g, on any
# grid; and any answer can be read off between its points.
OURS = {model: set(CAPABILITIES) for model in ("gkn", "fno", "gnn-pde", "mp-pde", "beno", "harmonic")}


def pages() -> dict[str, str]:
    """By the names of the files."""
    return {"capabilities.md": as_markdown(), "capabilities.tex": as_latex()}


def as_markdown() -> str:
    """The capability table as a page."""
    lines = [
        "# What each method can do",
        "",
        "The paper's first table. Each cell has the paper's mark and then that of the model here, which a test backs",
        "(`tests/paper/test_capabilities.py`). It says what a model takes and answers to, not how well.",
        "",
        "By that measure the paper's crosses are not borne out. With boundary nodes that carry values, which its own",
        "appendix gives to the baselines, each takes any shape and any g; none has weights that depend on the grid;",
        "and between its points any answer can be interpolated. To take another grid or shape is not to be right on",
        "it: how far each is off there is what sets them apart: [4-Corners](train_4_corners.md), [whole",
        "squares](train_no_corner.md), [64²](resolution_64.md).",
        "",
        "| | " + " | ".join(asked for asked, _ in CAPABILITIES.values()) + " |",
        "| --- " * (len(CAPABILITIES) + 1) + "|",
    ]
    for model, can in OURS.items():
        lines.append(f"| {model} | " + " | ".join(_marks(model, can)) + " |")
    lines += ["| *tested by* | " + " | ".join(tested for _, tested in CAPABILITIES.values()) + " |", ""]
    return "\n".join(lines)


def as_latex() -> str:
    """The capability table for a paper."""
    lines = [
        "% needs the packages booktabs and amssymb; the paper's mark, and that of the model here",
        rf"\begin{{tabular}}{{l*{{{len(CAPABILITIES)}}}{{p{{2.4cm}}}}}}",
        r"\toprule",
        " & ".join(["", *(asked for asked, _ in CAPABILITIES.values())]) + r" \\",
        r"\midrule",
    ]
    for model, can in OURS.items():
        marks = " & ".join([model, *_marks(model, can)]) + r" \\"
        lines.append(marks.replace("✓", r"$\checkmark$").replace("✗", r"$\times$"))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _marks(model: str, can: set[str]) -> list[str]:
    """The paper's, then ours."""
    return [f"{_mark(PAPER.get(model), name)} / {_mark(can, name)}" for name in CAPABILITIES]


def _mark(can: set[str] | None, name: str) -> str:
    if can is None:
        return "-"
    return "✓" if name in can else "✗"
