"""The cells of tables, one JSON file each: figures, and all that is needed to find them again."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from beno.evaluation.metrics import METRICS, Measured
from beno.paper.budget import Budget
from beno.paper.curves import Curves
from beno.paper.json_files import REMEDY, Checked, Damaged, FileFormat, Stored
from beno.paper.tables import Row, Table, testing_seed
from beno.paper.trained import Machine, Trained, trained_from_version_1
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.support.provenance import provenance
from beno.training.config import difference, fixed


@dataclass(frozen=True)
class Cell:
    """How an operator did on some test samples."""

    samples: int
    figures: Mapping[str, Measured]  # by metric; those that were not known when it was made are not there
    trained: Trained
    predicted: tuple[str, ...] = ()  # its answers to the first samples, for figures: one text each
    tested_on: Machine | None = None  # if another one than it was trained on, or as well

    @classmethod
    def read(cls, stored: Checked) -> "Cell":
        measured = stored.part("figures")
        figures = {
            name: Measured(of_metric.amount("mean"), of_metric.amount("deviation"))
            for name in METRICS
            if name in measured.values
            for of_metric in (measured.part(name),)
        }
        if not figures:
            raise Damaged("figures is not what it should be")
        device = Machine.read(stored.part("device")) if "device" in stored.values else None
        trained = Trained.read(stored.part("trained"))
        return cls(stored.count("samples"), figures, trained, stored.texts("predicted"), device)

    @property
    def predictions(self) -> list[Float[np.ndarray, " _"]]:
        """Its answers to the first test samples."""
        try:
            predicted = [np.array(values.split(), dtype=float) for values in self.predicted]
        except ValueError as error:
            raise Damaged(f"predicted: {error}") from error
        if not all(np.isfinite(values).all() for values in predicted):
            raise Damaged("predicted: a value is not finite")
        return predicted

    @property
    def lacks_metrics(self) -> bool:
        return not METRICS.keys() <= self.figures.keys()


def as_text(predicted: Sequence[Float[np.ndarray, " _"]]) -> tuple[str, ...]:
    """Predictions as a cell keeps them, with digits enough to tell errors of a hundredth of a percent."""
    return tuple(" ".join(f"{value:.6g}" for value in values) for values in predicted)


def cell_from_version_1(stored: Stored) -> Stored:
    """A cell of the first version, as the second has it: each figure with its deviation, and plainer names."""
    cell, figures = dict(stored), stored.get("figures")
    if isinstance(figures, dict):
        names = [name for name in figures if f"{name}_deviation" in figures]
        cell["figures"] = {
            name: {"mean": figures[name], "deviation": figures[f"{name}_deviation"]} for name in names
        }
        cell["samples"] = figures.get("samples")
    for name in ("trained_on", "tested_on"):
        data = stored.get(name)
        if isinstance(data, dict):
            cell[name] = {"with_fault" if key == "spoilt" else key: value for key, value in data.items()}
    return cell | {"trained": trained_from_version_1(stored.get("trained"))}


CELL = FileFormat("beno-cell", [cell_from_version_1])


@dataclass(frozen=True)
class Cells:
    """A folder of cells, one folder a table."""

    folder: Path
    budget: Budget = field(default_factory=Budget)

    @property
    def smoke(self) -> bool:
        return self.budget.smoke

    @property
    def curves(self) -> Curves:
        return Curves(self.folder / "curves", self.smoke)

    def path(self, table: Table, row: Row, column: str) -> Path:
        return self.folder / table.name / f"{_plain(row.label)}--{_plain(column)}.json"

    def of_row(self, table: Table, row: Row) -> dict[str, Cell]:
        """The cells of a row that there are, by column."""
        cells = {column: self.read(table, row, column) for column in table.columns}
        return {column: cell for column, cell in cells.items() if cell is not None}

    def read(self, table: Table, row: Row, column: str) -> Cell | None:
        """None if there is none yet."""
        path = self.path(table, row, column)
        if not path.exists():
            return None
        stored = CELL.read(path, self.smoke)
        here = {"table": table.name, "row": row.label, "column": column}
        if here != {name: stored.get(name) for name in here}:
            raise BenoError(f"{path} is the cell of another place: {', '.join(str(stored.get(name)) for name in here)}")
        try:
            cell = Cell.read(Checked(stored))
            other = self._difference(cell, Checked(stored), table, row, column)
        except Damaged as error:
            raise BenoError(f"{path} is damaged: {error}; {REMEDY}") from error
        if other:
            raise BenoError(f"{path} is of another row, or of the row as it was: {other}: use another folder")
        return cell
