"""The figures that the paper reports (Wang et al., ICLR 2024, Tables 2 to 10), to stand beside ours."""

import json
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Any

from beno.datasets.dataset import Metadata

COLUMNS = {4: "4-Corners", 3: "3-Corners", 2: "2-Corners", 1: "1-Corner", 0: "No-Corner"}
TRAINED_ON = {4: "train_4_corners", "mixed": "train_mixed", 0: "train_no_corner"}


@dataclass(frozen=True)
class PaperFigure:
    table: str
    relative_l2: float
    relative_l2_deviation: float
    mae: float  # in the units of u; the paper prints thousandths
    mae_deviation: float


@cache
def tables() -> dict[str, Any]:
    return json.loads((resources.files("beno.paper") / "reported.json").read_text())


def number_of(table: str) -> int | None:
    """Under which the paper has it; its first table is that of capabilities."""
    names = list(tables())
    return 2 + names.index(table) if table in names else None


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


def figure_for(model: str, trained: Metadata, tested: Metadata) -> PaperFigure | None:
    table = table_for(trained, tested)
    column = COLUMNS.get(tested.corners) if isinstance(tested.corners, int) else None
    cell = tables().get(table or "", {}).get(model, {}).get(column or "")
    if not cell:
        return None
    return PaperFigure(str(table), cell["rel_l2"], cell["rel_l2_std"], cell["mae_e3"] / 1000, cell["mae_e3_std"] / 1000)
