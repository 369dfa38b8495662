"""The cells of tables, one JSON file each: figures, and all that is needed to find them again."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from beno.evaluation.metrics import METRICS, Measured
from beno.paper.budget import Budget
from beno.paper.curves import Curves
from beno.paper.json_files import REMEDY, Checked, Damaged, FileFormat, Stored
from beno.paper.tables import Row, Table, testing_seed
from beno.paper.trained import Machine, Trained, origin, trained_from_version_1
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.training.config import difference, fixed


@dataclass(frozen=True)
class Cell:
    """How an operator did on some test samples."""

    samples: int
    figures: Mapping[str, Measured]  # by metric; those that were not known when it was made are not there
    trained: Trained
    predicted: tuple[str, ...] = ()  # the operator's answers to the first samples, which figures show
    device: Machine | None = None  # it was tested on; older cells do not say

    @classmethod
    def read(cls, stored: Checked) -> "Cell":
        measured = stored.part("figures")
        parts = {name: measured.part(name) for name in METRICS if name in measured.values}
        if not parts:
            raise Damaged("figures is not what it should be")
        return cls(
            samples=stored.count("samples"),
            figures={name: Measured(part.amount("mean"), part.amount("deviation")) for name, part in parts.items()},
            trained=Trained.read(stored.part("trained")),
            predicted=stored.texts("predicted"),
            device=Machine.read(stored.part("device")) if "device" in stored.values else None,
        )

    @property
    def lacks_metrics(self) -> bool:
        return not METRICS.keys() <= self.figures.keys()

    @property
    def tested_on(self) -> Machine:
        return self.device or self.trained.device

    @property
    def predictions(self) -> list[Float[np.ndarray, " _"]]:
        try:
            predicted = [np.array(values.split(), dtype=float) for values in self.predicted]
        except ValueError as error:
            raise Damaged(f"predicted: {error}") from error
        if not all(np.isfinite(values).all() for values in predicted):
            raise Damaged("predicted: a value is not finite")
        return predicted


def as_text(predicted: Sequence[Float[np.ndarray, " _"]]) -> tuple[str, ...]:
    """Predictions as a cell keeps them, with digits enough to tell errors of a hundredth of a percent."""
    return tuple(" ".join(f"{value:.6g}" for value in values) for values in predicted)


def cell_from_version_1(stored: Stored) -> Stored:
    """A cell as version 2 has it: each figure with its deviation, and plainer names."""
    cell, figures = dict(stored), stored.get("figures")
    if isinstance(figures, dict):
        cell["samples"] = figures.get("samples")
        cell["figures"] = {
            name: {"mean": value, "deviation": figures.get(f"{name}_deviation")}
            for name, value in figures.items()
            if name != "samples" and not name.endswith("_deviation")
        }
    for name in ("trained_on", "tested_on"):
        data = stored.get(name)
        if isinstance(data, dict):
            cell[name] = {"with_fault" if key == "spoilt" else key: value for key, value in data.items()}
    return cell | {"trained": trained_from_version_1(stored.get("trained"))}


CELL = FileFormat("beno-cell", (cell_from_version_1,))


@dataclass(frozen=True)
class Cells:
    """A folder of cells, with a folder for each table and one for curves."""

    folder: Path
    budget: Budget = field(default_factory=Budget)

    @property
    def curves(self) -> Curves:
        return Curves(self.folder / "curves", self.budget.smoke)

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
        stored = CELL.read(path, self.budget.smoke)
        here = {"table": table.name, "row": row.label, "column": column}
        if here != {name: stored.get(name) for name in here}:
            raise BenoError(f"{path} is the cell of another place: {', '.join(str(stored.get(name)) for name in here)}")
        try:
            cell, other = self._checked(stored, table, row, column)
        except Damaged as error:
            raise BenoError(f"{path} is damaged: {error}; {REMEDY}") from error
        if other:
            raise BenoError(f"{path} is of another row, or of the row as it was: {other}: use another folder")
        return cell

    def write(self, table: Table, row: Row, column: str, cell: Cell) -> None:
        path = self.path(table, row, column)
        content: Stored = {"table": table.name, "row": row.label, "column": column, "averaged": row.averaged}
        content |= {"samples": cell.samples, "figures": {name: asdict(one) for name, one in cell.figures.items()}}
        content |= {"trained": cell.trained.to_store(), **self.data_of(table, row, column)}
        content |= {"predicted": list(cell.predicted)} if cell.predicted else {}
        content |= origin()
        try:
            _, other = self._checked(content, table, row, column)
        except Damaged as error:
            raise BenoError(f"{path} is not written: {error}") from error
        if other:
            raise BenoError(f"{path} is not written: {other}")
        CELL.write(path, self.budget.smoke, content, indent=1)

    def data_of(self, table: Table, row: Row, column: str) -> Stored:
        """What the operator of a cell was trained and tested on, as a file has it."""
        trained_on, tested_on = (self.budget.family(one) for one in (row.training.family, table.columns[column]))
        data = {
            "trained_on": asdict(trained_on) | {"with_fault": row.training.with_fault},
            "tested_on": asdict(tested_on)
            | {"with_fault": column in table.with_fault}
            | {"seed": testing_seed(tested_on)},
        }
        return dict(json.loads(json.dumps(data)))

    def _checked(self, content: Stored, table: Table, row: Row, column: str) -> tuple[Cell, str]:
        """The cell, and in what it differs from the cells of its row; settings that it does not know were defaults."""
        stored = Checked(content)
        cell, training = Cell.read(stored), row.training
        trained, usual = cell.trained, json.loads(json.dumps(asdict(Family())))
        found = {
            "model": trained.model,
            "seed": trained.seed,
            "settings": dict(trained.settings),
            "training": fixed(dict(trained.training)),
            "averaged": stored.flag("averaged"),
            "samples": cell.samples,
            **{name: usual | stored.object(name) for name in ("trained_on", "tested_on")},
        }
        asked = {
            "model": training.model,
            "seed": training.seed,
            "settings": self.budget.settings(training),
            "training": fixed(asdict(self.budget.config(training))),
            "averaged": row.averaged,
            "samples": self.budget.test_samples,
            **self.data_of(table, row, column),
        }
        return cell, difference(found, asked)


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)
