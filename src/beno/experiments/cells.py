"""The cells of tables, one JSON file each: a figure, and all that is needed to find it again."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from beno.errors import BenoError
from beno.experiments.tables import Row, Table
from beno.files import whole_file_or_none
from beno.provenance import provenance

FORMAT, VERSION = "beno-cell", 1

TRAINED = {"model", "epochs", "best_epoch", "seconds", "device_seconds", "parameters", "seed", "device"}

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
        try:
            stored = json.loads(path.read_text())
        except (OSError, ValueError) as error:
            raise BenoError(f"{path} cannot be read: {error}") from error
        if not isinstance(stored, dict) or stored.get("format") != FORMAT:
            raise BenoError(f"{path} is no {FORMAT}")
        if stored.get("version") != VERSION:
            raise BenoError(f"{path} has version {stored.get('version')}; this beno has {VERSION}: use another folder")
        if stored.get("smoke") != self.smoke:
            raise BenoError(f"{path} was {'' if stored.get('smoke') else 'not '}made with --smoke: use another folder")
        trained = stored.get("trained")
        if "figures" not in stored or not isinstance(trained, dict) or not trained.keys() >= TRAINED:
            raise BenoError(f"{path} is damaged: it has no figures, or does not say where they come from")
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

    def of_row(self, table: Table, row: Row) -> dict[str, Cell]:
        """Those of a row that there are, by column."""
        cells = {column: self.read(table, row, column) for column in table.columns}
        return {column: cell for column, cell in cells.items() if cell is not None}


def _plain(text: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in text)
