"""The cells of tables, one JSON file each: a figure, and all that is needed to find it again."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from beno.errors import BenoError
from beno.experiments.tables import Row, Table, Training
from beno.files import whole_file_or_none
from beno.provenance import provenance

FORMAT, VERSION = "beno-cell", 1
CURVES, CURVE_FORMAT, CURVE_VERSION = "curves", "beno-curve", 1
CURVE = ("epoch", "train_loss", "validation_relative_l2")

FIGURES = ("samples", "relative_l2", "relative_l2_deviation", "mae", "mae_deviation")
NUMBERS = ("epochs", "best_epoch", "seconds", "device_seconds", "parameters", "seed")
TRAINED = {"model", "device", *NUMBERS}
PREDICTED = "predicted"

Cell = dict[str, Any]


@dataclass(frozen=True)
class Cells:
    folder: Path
    smoke: bool = False

    def path(self, table: Table, row: Row, column: str) -> Path:
        return self.folder / table.name / f"{_plain(row.label)}--{_plain(column)}.json"

    def read(self, table: Table, row: Row, column: str) -> Cell | None:
        """None if there is none yet."""
        path = self.path(table, row, column)
        if not path.exists():
            return None
        stored = self._stored(path, FORMAT, VERSION)
        here = {"table": table.name, "row": row.label, "column": column}
        if here != {name: stored.get(name) for name in here}:
            raise BenoError(f"{path} is the cell of another place: {', '.join(str(stored.get(name)) for name in here)}")
        for name in _damaged(stored):
            raise BenoError(f"{path} is damaged: {name} is not what it should be")
        return stored

    def write(self, table: Table, row: Row, column: str, facts: dict[str, Any]) -> None:
        path = self.path(table, row, column)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenoError(f"cannot write {path}: {error.strerror}") from error
        cell = {"format": FORMAT, "version": VERSION, "smoke": self.smoke, "table": table.name}
        cell |= {"row": row.label, "column": column} | facts | provenance()
        with whole_file_or_none(path) as unfinished:
            unfinished.write_text(json.dumps(cell, indent=1, default=str) + "\n")

    def curve_path(self, training: Training) -> Path:
        return self.folder / CURVES / f"{training.name}.json"

    def write_curve(self, training: Training, records: list[dict[str, Any]], trained: dict[str, Any]) -> None:
        """How a training went, epoch by epoch, as far as it was looked at; not if nothing is known of it."""
        path = self.curve_path(training)
        looked = [record for record in records if record.get(CURVE[-1]) is not None]
        if not looked:
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenoError(f"cannot write {path}: {error.strerror}") from error
        curve: dict[str, Any] = {"format": CURVE_FORMAT, "version": CURVE_VERSION, "smoke": self.smoke}
        curve |= {"trained": trained, CURVE[0]: [record[CURVE[0]] for record in looked]}
        curve |= {name: [float(f"{record[name]:.4g}") for record in looked] for name in CURVE[1:]}
        with whole_file_or_none(path) as unfinished:
            unfinished.write_text(json.dumps(curve) + "\n")

    def curve(self, training: Training) -> dict[str, list[float]] | None:
        """None if none was kept."""
        path = self.curve_path(training)
        if not path.exists():
            return None
        stored = self._stored(path, CURVE_FORMAT, CURVE_VERSION)
        lists: dict[str, Any] = {name: stored.get(name) for name in CURVE}
        whole = all(isinstance(one, list) and one and all(map(_is_number, one)) for one in lists.values())
        if not whole or len({len(one) for one in lists.values()}) != 1:
            raise BenoError(f"{path} is damaged: {', '.join(CURVE)} are not lists of numbers of one length")
        return {name: [float(value) for value in one] for name, one in lists.items()}

    def _stored(self, path: Path, form: str, version: int) -> dict[str, Any]:
        """What a file holds, if it is of the kind, the version and the size of run that it is to be."""
        try:
            stored = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise BenoError(f"{path} cannot be read: {error}") from error
        if not isinstance(stored, dict) or stored.get("format") != form:
            raise BenoError(f"{path} is no {form}")
        if stored.get("version") != version:
            raise BenoError(f"{path} has version {stored.get('version')}; this beno has {version}: use another folder")
        if stored.get("smoke") != self.smoke:
            raise BenoError(f"{path} was {'' if stored.get('smoke') else 'not '}made with --smoke: use another folder")
        return stored

    def of_row(self, table: Table, row: Row) -> dict[str, Cell]:
        """Those of a row that there are, by column."""
        cells = {column: self.read(table, row, column) for column in table.columns}
        return {column: cell for column, cell in cells.items() if cell is not None}


def _damaged(cell: Cell) -> Iterator[str]:
    """What is missing of what a page or a queue asks of a cell, or is of another kind."""
    for place, names in (("figures", FIGURES), ("trained", NUMBERS)):
        facts = cell.get(place)
        for name in names:
            value = facts.get(name) if isinstance(facts, dict) else None
            if not isinstance(value, int | float) or not math.isfinite(value):
                yield f"{place}.{name}"
    for name, kind in (("model", str), ("device", dict)):
        if not isinstance(cell.get("trained"), dict) or not isinstance(cell["trained"].get(name), kind):
            yield f"trained.{name}"
    predicted = cell.get(PREDICTED, [])
    if not isinstance(predicted, list) or not all(isinstance(values, str) for values in predicted):
        yield PREDICTED


def as_text(predicted: list[Float[np.ndarray, " _"]]) -> list[str]:
    """Predictions as a cell keeps them: a line a sample, with digits enough to tell errors of a hundredth percent."""
    return [" ".join(f"{value:.6g}" for value in values) for values in predicted]


def predictions_of(cell: Cell) -> list[Float[np.ndarray, " _"]]:
    """Those that a cell keeps, of its first test samples, for figures."""
    try:
        predicted = [np.array(values.split(), dtype=float) for values in cell.get(PREDICTED, [])]
        if not all(np.isfinite(values).all() for values in predicted):
            raise ValueError("a value is not finite")
    except ValueError as error:
        raise BenoError(f"{cell['table']}, {cell['row']}, {cell['column']} is damaged: {PREDICTED}: {error}") from error
    return predicted


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and math.isfinite(value)


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)
