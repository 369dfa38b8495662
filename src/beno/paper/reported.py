"""The figures that the paper reports (Wang et al., ICLR 2024, Tables 2 to 10), to stand beside ours."""

import json
from functools import cache
from importlib import resources

from beno.datasets.metadata import Metadata
from beno.evaluation.metrics import Measured

COLUMNS = {4: "4-Corners", 3: "3-Corners", 2: "2-Corners", 1: "1-Corner", 0: "No-Corner"}
TRAINED_ON = {4: "train_4_corners", "mixed": "train_mixed", 0: "train_no_corner"}
# What the file calls those of our measures that the paper has, and the unit in which it prints them.
METRICS_OF_THE_PAPER = {"relative_l2": ("rel_l2", 1.0), "mae": ("mae_e3", 1e-3)}


@cache
def tables() -> dict[str, dict[str, dict[str, dict[str, float]]]]:
    """The numbers as the paper prints them, by table, row and column."""
    return json.loads((resources.files("beno.paper") / "reported.json").read_text())


def number_of(table: str) -> int | None:
    """The number that the paper has for a table; its Table 1 is that of capabilities."""
    names = list(tables())
    return 2 + names.index(table) if table in names else None


def figures_of(table: str, row: str | None, column: str | None) -> dict[str, Measured]:
    """What the paper reports in one place of one table, by metric and in our units; nothing where it has no figure."""
    reported = tables().get(table, {}).get(row or "", {}).get(column or "")
    if not reported:
        return {}
    return {
        metric: Measured(reported[name] * unit, reported[f"{name}_std"] * unit)
        for metric, (name, unit) in METRICS_OF_THE_PAPER.items()
    }


def figures_for(model: str, trained: Metadata, tested: Metadata) -> dict[str, Measured]:
    """What the paper reports of a model that was trained and tested on such data, by metric."""
    column = COLUMNS.get(tested.corners) if isinstance(tested.corners, int) else None
    return figures_of(table_for(trained, tested) or "", model, column)


def table_for(trained: Metadata, tested: Metadata) -> str | None:
    """The paper's table for a model trained and tested on such data, if it has one."""
    base = TRAINED_ON.get(trained.corners)
    if base is None or trained.equation != tested.equation or trained.resolution != 32:
        return None
    if trained.equation == "darcy":
        return "darcy_train_4_corners" if trained.corners == 4 and tested.boundary == "dirichlet" else None
    if tested.resolution == 64:
        return "resolution_64" if trained.corners == 4 and tested.boundary == "zero" else None
    if tested.resolution != 32:
        return None
    if tested.boundary == "zero":
        return "zero_boundary" if trained.corners == 4 else None
    if trained.boundary == tested.boundary == "neumann":
        return f"neumann_{base}" if trained.corners != 0 else None
    return base if trained.boundary == tested.boundary == "dirichlet" else None
