"""Fills tables: trains what is missing, saves each cell as soon as it is known, and goes on there the next time.

A training is worked on by one process at a time, which holds a lock on its folder; several processes on one
folder share the work.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beno.datasets.dataset import Dataset
from beno.evaluation.evaluation import evaluate
from beno.evaluation.metrics import METRICS
from beno.learned.averaged import AveragedOperator
from beno.learned.operator import BEST
from beno.paper.budget import Budget
from beno.paper.cells import Cell, Cells, as_text
from beno.paper.tables import Row, Table
from beno.paper.trained import Trained
from beno.paper.trainings import Say, Trainings
from beno.support.errors import BenoError
from beno.support.files import require_folder
from beno.support.locks import Lock


@dataclass(frozen=True)
class Standing:
    """How far the tables are filled, and what there is to do."""

    cells: int
    missing: int
    rows: int = 0  # that lack cells
    to_go_on: int = 0  # cells of trainings that have paused
    early: int = 0  # cells that count as missing, but have figures of a training that has not paused yet
    held: int = 0  # rows that another process is at
    failed: tuple[str, ...] = ()  # what went wrong, row by row


def _say_nothing(line: str) -> None:
    pass


class Queue:
    """Tables to be filled, with a folder of trainings and one of results."""

    def __init__(self, folder: Path, results: Path, budget: Budget, device: str = "auto") -> None:
        self.folder, self.budget = folder, budget
        self.cells = Cells(results, budget)
        self.trainings = Trainings(folder, self.cells, device)
        _ = self.device_name  # a device that is not there is refused before anything is done

    @property
    def device_name(self) -> str:
        return self.trainings.device_name

    def fill(self, tables: Sequence[Table], time_limit: float, say: Say = _say_nothing) -> Standing:
        """A row that cannot be filled is reported, and the next one is taken."""
        for place in (self.cells.folder, self.folder):
            require_folder(place)
        self.standing(tables)  # a file that is no cell is refused before anything is done
        deadline, held, failed = time.monotonic() + time_limit, 0, []
        for table, row in [(one, row) for one in tables for row in one.rows]:
            if not self._missing(table, row):
                continue
            if time.monotonic() >= deadline:
                break
            try:
                with Lock(self.folder / f"{self.trainings.name_of(row.training)}.lock") as lock:
                    if lock.take():
                        self._fill_row(table, row, deadline, say)
                    else:
                        held += 1
            except (BenoError, OSError, RuntimeError) as error:  # PyTorch's are of the last kind
                failed.append(f"{table.name}, {row.label}: {str(error).strip().splitlines()[0]}")
                say(failed[-1])
        return replace(self.standing(tables), held=held, failed=tuple(failed))

    def standing(self, tables: Sequence[Table]) -> Standing:
        rows = [(table, row) for table in tables for row in table.rows]
        every = sum(len(table.columns) for table, _ in rows)
        final = [(table, self._final(table, row)) for table, row in rows]
        filled = [cell for _, of_row in final for cell in of_row.values()]
        return Standing(
            cells=every,
            missing=every - len(filled),
            rows=sum(len(of_row) < len(table.columns) for table, of_row in final),
            to_go_on=sum(cell.trained.unfinished for cell in filled),
            early=sum(len(self.cells.of_row(table, row)) for table, row in rows) - len(filled),
        )

    def _final(self, table: Table, row: Row) -> dict[str, Cell]:
        """The cells, by column, of a training that has ended or paused, with all that can be had."""
        cells = self.cells.of_row(table, row)
        newest = self.trainings.newest(row.training) if cells else None
        ships = newest is None and self.trainings.ships(row.training)

        def is_final(column: str, cell: Cell) -> bool:
            if cell.trained.unfinished and not self._had_paused(cell.trained, newest):
                return False
            # What an older version did not keep can be had if the cell's weights are at hand.
            is_whole = len(cell.predicted) >= _kept(table, row, column) and not cell.lacks_metrics
            return is_whole or not (ships or newest == cell.trained.best_epoch)

        return {column: cell for column, cell in cells.items() if is_final(column, cell)}

    def _missing(self, table: Table, row: Row) -> list[str]:
        known = self._final(table, row)
        return [column for column in table.columns if column not in known]

    def _had_paused(self, trained: Trained, newest: int | None) -> bool:
        """Whether a cell is of a training that had paused and has not gone on since, for another table.

        If it has, its newest weights are of a later epoch; weights of an earlier one are of a run in another folder.
        """
        budget, of_cpu = self.budget, trained.device.gpu is None
        seconds = 0.0 if of_cpu and self.device_name == "cuda" else trained.device_seconds  # a GPU's are worth more
        most_epochs = min(budget.pause_after_epochs, budget.epochs)
        had_paused = seconds >= budget.pause_after_seconds or trained.epochs >= most_epochs
        return had_paused and (newest is None or newest <= trained.best_epoch)

    def _fill_row(self, table: Table, row: Row, deadline: float, say: Say) -> None:
        missing = self._missing(table, row)
        if not missing:  # another process has just been at it
            return
        trained = self.trainings.train(row.training, deadline, say)
        if trained is not None:
            self._test(table, row, self._not_ahead(table, row, missing, trained, say), trained, say)

    def _not_ahead(self, table: Table, row: Row, columns: list[str], trained: Trained, say: Say) -> list[str]:
        """The columns but for those whose cells are of a training in another folder that is ahead of this one."""
        cells = self.cells.of_row(table, row)
        ahead = {c: cells[c].trained.epochs for c in columns if c in cells and trained.is_behind(cells[c].trained)}
        if ahead:
            say(
                f"{table.name}, {row.label}: {trained.epochs} epochs so far; {len(ahead)} cells are of another run,"
                f" with {max(ahead.values())}, and stay"
            )
        return [column for column in columns if column not in ahead]

    def _test(self, table: Table, row: Row, columns: list[str], trained: Trained, say: Say) -> None:
        operator = self.trainings.operator_of(row.training)
        if operator is None:
            folder = self.trainings.folder_of(row.training)
            raise BenoError(f"{folder} is done, but has no {BEST}: remove it, or bring that back")
        operator = AveragedOperator.of(operator) if row.averaged else operator
        for column in columns:
            with Dataset(self.trainings.data.of_test(table, column)) as dataset:
                evaluation = evaluate(operator, dataset, "all")
                first = [dataset[index].problem for index in range(_kept(table, row, column))]
                predicted = as_text(operator.predict(first)) if first else ()
            figures = evaluation.figures
            self.cells.write(table, row, column, Cell(evaluation.samples, figures, trained, predicted))
            name, metric = next(iter(METRICS.items()))
            say(f"{table.name}, {row.label}, {column}: {metric.title} {metric.printed(figures[name])} {metric.unit}")


def _kept(table: Table, row: Row, column: str) -> int:
    """How many predictions a cell keeps."""
    return 0 if row.averaged else table.keeps.get(column, 0)
