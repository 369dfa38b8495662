"""The cells of tables, one JSON file each: a figure, and all that is needed to find it again."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from beno.paper.budget import Effort
from beno.paper.tables import Row, Table, Training, testing_seed
from beno.support.errors import BenoError
from beno.support.files import require_folder, whole_file_or_none
from beno.support.provenance import provenance
from beno.training.config import difference, fixed

FORMAT, VERSION = "beno-cell", 1
CURVES, CURVE_FORMAT, CURVE_VERSION = "curves", "beno-curve", 1
CURVE = ("epoch", "train_loss", "validation_relative_l2")

FIGURES = ("samples", "relative_l2", "relative_l2_deviation", "mae", "mae_deviation")
NUMBERS = ("epochs", "best_epoch", "seconds", "device_seconds", "parameters", "seed")
PREDICTED, AVERAGED = "predicted", "averaged"
REMEDY = "remove it, and it is made again"
LARGEST = 1e300

Cell = dict[str, Any]


@dataclass(frozen=True)
class Cells:
    folder: Path
    effort: Effort = field(default_factory=Effort)

    @property
    def smoke(self) -> bool:
        return self.effort.smoke

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
            raise BenoError(f"{path} is damaged: {name} is not what it should be; {REMEDY}")
        if other := self._other(stored, table, row, column):
            raise BenoError(f"{path} is of another row, or of the row as it was: {other}: use another folder")
        return stored

    def write(self, table: Table, row: Row, column: str, facts: dict[str, Any]) -> None:
        path = self.path(table, row, column)
        cell = {"format": FORMAT, "version": VERSION, "smoke": self.smoke, "table": table.name}
        cell |= {"row": row.label, "column": column} | self.data_of(table, row, column) | facts | provenance()
        cell |= {AVERAGED: True} if row.averaged else {}
        for name in _damaged(cell):
            raise BenoError(f"{path} is not written: {name} is not what it should be")
        if other := self._other(cell, table, row, column):
            raise BenoError(f"{path} is not written: {other}")
        require_folder(path.parent)
        with whole_file_or_none(path) as unfinished:
            unfinished.write_text(json.dumps(cell, indent=1, default=str) + "\n")

    def data_of(self, table: Table, row: Row, column: str) -> dict[str, dict[str, Any]]:
        """That its operator was trained and tested on, as a file has it."""
        trained_on, tested_on = (self.effort.family(one) for one in (row.training.family, table.columns[column]))
        data = {
            "trained_on": asdict(trained_on) | {"spoilt": row.training.spoilt},
            "tested_on": asdict(tested_on) | {"seed": testing_seed(tested_on), "spoilt": column in table.spoilt},
        }
        return json.loads(json.dumps(data))

    def _other(self, cell: Cell, table: Table, row: Row, column: str) -> str:
        """What it says that a cell of the row would not."""
        training, trained = row.training, cell["trained"]
        asked = {"model": training.model, "seed": training.seed, "settings": self.effort.settings(training)}
        asked |= {"training": fixed(asdict(self.effort.config(training))), AVERAGED: row.averaged}
        asked |= {"samples": self.effort.test_samples, **self.data_of(table, row, column)}
        found = {name: trained[name] for name in ("model", "seed", "settings")}
        found |= {"training": fixed(trained["training"]), AVERAGED: cell.get(AVERAGED, False)}
        found |= {"samples": cell["figures"]["samples"]}
        found |= {name: cell.get(name) for name in ("trained_on", "tested_on")}
        return difference(found, asked)

    def curve_path(self, training: Training) -> Path:
        return self.folder / CURVES / f"{training.name}.json"

    def write_curve(self, training: Training, records: list[dict[str, Any]], trained: dict[str, Any]) -> None:
        """How a training went, epoch by epoch, as far as it was looked at; not if nothing is known of it, nor in the
        place of one that came further."""
        path = self.curve_path(training)
        looked = [record for record in records if record.get(CURVE[-1]) is not None]
        if not looked or (path.exists() and is_younger(trained, self._stored_curve(path)["trained"])):
            return
        require_folder(path.parent)
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
        stored = self._stored_curve(path)
        return {name: [float(value) for value in stored[name]] for name in CURVE}

    def trained_of_curve(self, training: Training) -> dict[str, Any]:
        """Of which run a curve is that is kept."""
        return self._stored_curve(self.curve_path(training))["trained"]

    def _stored_curve(self, path: Path) -> dict[str, Any]:
        stored = self._stored(path, CURVE_FORMAT, CURVE_VERSION)
        lists: dict[str, Any] = {name: stored.get(name) for name in CURVE}
        whole = all(isinstance(one, list) and one and all(map(_is_number, one)) for one in lists.values())
        if not whole or len({len(one) for one in lists.values()}) != 1:
            raise BenoError(f"{path} is damaged: {', '.join(CURVE)} are not lists of numbers of one length; {REMEDY}")
        for name in damaged_training(stored.get("trained")):
            raise BenoError(f"{path} is damaged: {name} is not what it should be; {REMEDY}")
        return stored

    def _stored(self, path: Path, form: str, version: int) -> dict[str, Any]:
        """What a file holds, if it is of the kind, the version and the size of run that it is to be."""
        try:
            stored = json.loads(path.read_text())
        except OSError as error:
            raise BenoError(f"{path} cannot be read: {error.strerror}") from error
        except ValueError as error:
            raise BenoError(f"{path} cannot be read: {error}; {REMEDY}") from error
        if not isinstance(stored, dict) or stored.get("format") != form:
            raise BenoError(f"{path} is no {form}")
        if stored.get("version") != version:
            raise BenoError(
                f"{path} has version {stored.get('version')!r}; this beno has {version}: use another folder"
            )
        if stored.get("smoke") != self.smoke:
            raise BenoError(f"{path} was {'' if stored.get('smoke') else 'not '}made with --smoke: use another folder")
        return stored

    def of_row(self, table: Table, row: Row) -> dict[str, Cell]:
        """Those of a row that there are, by column."""
        cells = {column: self.read(table, row, column) for column in table.columns}
        return {column: cell for column, cell in cells.items() if cell is not None}


def is_same_run(trained: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two trainings are one: no two take the same time to the last digit."""
    return all(trained[name] == other[name] for name in NUMBERS)


def is_younger(trained: dict[str, Any], other: dict[str, Any]) -> bool:
    """A training that is to go on, and has not come as far yet as another of its kind."""
    return bool(trained.get("stopped")) and trained["epochs"] < other["epochs"]


def damaged_training(trained: Any) -> Iterator[str]:
    """What is missing of what is to be known of a training, or is of another kind."""
    facts: dict[str, Any] = trained if isinstance(trained, dict) else {}
    right = {name: _is_number(facts.get(name)) and facts[name] >= 0 for name in NUMBERS}
    right |= {"model": isinstance(facts.get("model"), str), "device": _is_described(facts.get("device"))}
    right |= {"stopped": isinstance(facts.get("stopped", False), bool)}
    right |= {name: isinstance(facts.get(name), dict) for name in ("settings", "training")}
    yield from (f"trained.{name}" for name, is_right in right.items() if not is_right)
    if right["epochs"] and right["best_epoch"] and facts["best_epoch"] > facts["epochs"]:
        yield "trained.best_epoch"


def _damaged(cell: Cell) -> Iterator[str]:
    """What is missing of what a page or a queue asks of a cell, or is of another kind."""
    yield from damaged_training(cell.get("trained"))
    figures: dict[str, Any] = cell["figures"] if isinstance(cell.get("figures"), dict) else {}
    yield from (f"figures.{name}" for name in FIGURES if not (_is_number(figures.get(name)) and figures[name] >= 0))
    yield from (name for name in ("trained_on", "tested_on") if not isinstance(cell.get(name), dict))
    if "device" in cell and not _is_described(cell["device"]):
        yield "device"
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
    """One that a page can print: no truth value, nor a whole number beyond all floating-point ones."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < LARGEST


def _is_described(device: Any) -> bool:
    return isinstance(device, dict) and all(isinstance(device.get(name), str | None) for name in ("gpu", "cpu"))


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)
