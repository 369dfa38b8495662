"""Fills tables: trains what is missing, saves each cell as soon as it is known, and goes on there the next time.

A training is worked on by one process at a time, which holds a lock on its folder; several processes on one
folder share the work.
"""

import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from beno.datasets.dataset import Block, Dataset, Metadata, write
from beno.datasets.making import make
from beno.datasets.published import with_published_fault
from beno.evaluation.evaluation import evaluate
from beno.learned import checkpoints as checkpoint
from beno.learned import shipped
from beno.learned.averaged import AveragedOperator
from beno.learned.operator import BEST, LearnedOperator
from beno.nn.device import choose_device
from beno.paper.budget import Effort
from beno.paper.cells import PREDICTED, REMEDY, Cell, Cells, as_text, damaged_training, is_younger
from beno.paper.sharing import Share
from beno.paper.tables import TABLES, TRAINING_SEED, Row, Table, Training, testing_seed
from beno.paper.turn import Turn
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.support.files import require_folder, whole_file_or_none
from beno.support.locks import Lock
from beno.support.provenance import provenance
from beno.training.config import TrainingConfig, difference, fixed
from beno.training.loop import STATE, EpochRecord, Outcome, Run, make_fabric, outcome_so_far, read_log

DONE, SHARE = "done.json", "share.json"
SECONDS_BETWEEN_LINES = 60.0  # that tell how a training goes


@dataclass(frozen=True)
class Standing:
    """What is left to do."""

    cells: int
    missing: int
    rows: int = 0  # that lack any
    to_go_on: int = 0  # cells of trainings that have had what they get for now
    young: int = 0  # of those that are missing, such as have figures of a training that has had less
    held: int = 0  # rows that another process is at
    failed: tuple[str, ...] = ()  # what went wrong, row by row


class Queue:
    def __init__(self, folder: Path, results: Path, effort: Effort, device: str = "auto") -> None:
        self.folder, self.effort, self.device = folder, effort, device
        choose_device(device)  # one that is not there is refused before anything is done
        self.cells = Cells(results, effort)

    def fill(self, tables: list[Table], time_limit: float, say: Callable[[str], None] = lambda line: None) -> Standing:
        """A row that cannot be filled is reported, and the next one is taken."""
        for place in (self.cells.folder, self.folder):
            require_folder(place)
        self.standing(tables)  # cells that are none are refused before anything is done
        deadline, held, failed = time.monotonic() + time_limit, 0, []
        for table, row in [(one, row) for one in tables for row in one.rows]:
            known = self._final(table, row)
            missing = [column for column in table.columns if column not in known]
            if not missing:
                continue
            if time.monotonic() >= deadline:
                break
            try:
                with Lock(self.folder / f"{self._name(row.training)}.lock") as lock:
                    if not lock.take():
                        held += 1
                        continue
                    trained = self._train(row.training, deadline, say)
                    if trained is not None:
                        self._test(table, row, self._without_older(table, row, missing, trained, say), trained, say)
            except (BenoError, OSError, RuntimeError) as error:  # PyTorch's are of the last kind
                failed.append(f"{table.name}, {row.label}: {str(error).strip().splitlines()[0]}")
                say(failed[-1])
        return replace(self.standing(tables), held=held, failed=tuple(failed))

    def standing(self, tables: list[Table]) -> Standing:
        rows = [(table, row) for table in tables for row in table.rows]
        every = sum(len(table.columns) for table, _ in rows)
        final = [(table, self._final(table, row)) for table, row in rows]
        filled = [cell for _, of_row in final for cell in of_row.values()]
        lacking = sum(len(of_row) < len(table.columns) for table, of_row in final)
        any_figures = sum(len(self.cells.of_row(table, row)) for table, row in rows)
        return Standing(every, every - len(filled), lacking, sum(map(_is_stopped, filled)), any_figures - len(filled))

    def _final(self, table: Table, row: Row) -> dict[str, Cell]:
        """Cells of a training that has ended, or has had what it gets for now, by column."""
        cells = self.cells.of_row(table, row)
        newest = self._newest(row.training) if cells else None
        ships = newest is None and self._ships(row.training)

        def is_final(column: str, cell: Cell) -> bool:
            best = cell["trained"]["best_epoch"]
            if _is_stopped(cell) and not self._is_enough_for_now(cell["trained"], newest):
                return False
            # What an older version did not keep can be had if the cell's weights are at hand.
            return len(cell.get(PREDICTED, [])) >= _kept(table, row, column) or not (ships or newest == best)

        return {column: cell for column, cell in cells.items() if is_final(column, cell)}

    def _without_older(
        self, table: Table, row: Row, columns: list[str], trained: dict[str, Any], say: Callable[[str], None]
    ) -> list[str]:
        """Not those whose cells are of a training in another folder that has come further than this one yet."""
        cells = self.cells.of_row(table, row)
        older = {
            c: cells[c]["trained"]["epochs"] for c in columns if c in cells and is_younger(trained, cells[c]["trained"])
        }
        if older:
            say(
                f"{table.name}, {row.label}: {trained['epochs']} epochs so far; {len(older)} cells are of another run,"
                f" with {max(older.values())}, and stay"
            )
        return [column for column in columns if column not in older]

    def _newest(self, training: Training) -> int | None:
        """The epoch of its best weights, if they are at hand."""
        try:
            return checkpoint.load_header(self.folder_of(training) / BEST).epoch
        except BenoError:  # which whoever needs the weights will hear of
            return None

    def _is_enough_for_now(self, trained: dict[str, Any], newest: int | None) -> bool:
        """Unless the training has gone on since, for another table, and has better weights by now. (Those of an earlier
        epoch are of another run, in another folder.)"""
        effort, of_cpu = self.effort, not trained["device"].get("gpu")
        seconds = 0.0 if of_cpu and self.device_name == "cuda" else trained["device_seconds"]  # a GPU's are worth more
        enough = seconds >= effort.for_now or trained["epochs"] >= min(effort.epochs_for_now, effort.epochs)
        return enough and (newest is None or newest <= trained["best_epoch"])

    def folder_of(self, training: Training) -> Path:
        return self.folder / self._name(training)

    def operator_of(self, training: Training) -> LearnedOperator | None:
        """With the best weights at hand: of the training's folder, or those that ship."""
        best = self.folder_of(training) / BEST
        if best.exists():
            self._require_own(training, best)
            return LearnedOperator.load(best, self.device_name)
        return shipped.load(str(training.ships_as), self.device_name) if self._ships(training) else None

    def _ships(self, training: Training) -> bool:
        return training.ships_as is not None and not self.effort.smoke

    def _require_own(self, training: Training, path: Path) -> None:
        """A file of another training, put into this one's folder, would be tested under its name."""
        header = checkpoint.load_header(path)
        family, origin = self.effort.family(training.family), "spoilt" if training.spoilt else "generated"
        data = Metadata.of_family(family, TRAINING_SEED, self.effort.samples)
        data = replace(data, origin=origin, beno_version=header.data.beno_version)
        asked = {"model": training.model, "seed": training.seed, **self.effort.settings(training)}
        found = {**header.config, "model": header.model, "seed": header.training.get("seed")}
        found = {name: found.get(name) for name in asked}
        if found != asked or header.data != data:
            other = difference(found, asked) or difference(header.data, data)
            raise BenoError(f"{path} is of another training: {other}: use another folder")

    def _name(self, training: Training) -> str:
        return "smoke-" * self.effort.smoke + training.name

    def _train(self, training: Training, deadline: float, say: Callable[[str], None]) -> dict[str, Any] | None:
        """What is known of a training that has ended, or is to be tested as it stands; None if neither."""
        folder = self.folder_of(training)
        if (folder / DONE).exists():
            facts = _read_done(
                folder / DONE, training.model, self.effort.settings(training), self.effort.config(training)
            )
            if not self.cells.curve_path(training).exists():
                self.cells.write_curve(training, read_log(folder), facts)
            return facts
        known = self._known_of_what_ships(training)
        if known is not None:
            return known
        share = Share(folder / SHARE, self.folder / "at_work" / self.device_name, self.device_name)
        turn = Turn(training, self.effort, share, self.device_name)
        outcome = self._go_on(training, turn, deadline, say)
        stopped = not outcome.finished and not turn.is_had()
        if stopped and not turn.makes_room(outcome.epochs) and not self.effort.test_unfinished:
            return None
        cut_short = not self.effort.smoke and self.effort.config(training).epochs < Effort().config(training).epochs
        facts = self._facts(training, outcome, share.seconds, stopped or cut_short)
        self.cells.write_curve(training, read_log(folder), facts)
        if not facts["stopped"]:
            with whole_file_or_none(folder / DONE) as unfinished:
                unfinished.write_text(json.dumps(facts, indent=1))
        return facts

    def _go_on(self, training: Training, turn: Turn, deadline: float, say: Callable[[str], None]) -> Outcome:
        """From where it was, until it has ended or makes room, or the time is over."""
        folder, config = self.folder_of(training), self.effort.config(training)
        resume = (folder / STATE).exists()
        if resume:
            self._require_own(training, folder / STATE)
            begun = checkpoint.load_header(folder / STATE).training.get("epochs")
            if begun != config.epochs and not config.first_restart:  # its rate would be another
                raise BenoError(
                    f"{folder} was begun as a run of {begun} epochs, not {config.epochs}: use another folder"
                )
        before = outcome_so_far(folder, config.epochs) if resume and (folder / BEST).exists() else None
        if before is not None and turn.makes_room(before.epochs):
            outcome = before
        else:
            data = self._dataset(
                self.effort.family(training.family), TRAINING_SEED, self.effort.samples, training.spoilt
            )
            settings = self.effort.settings(training)
            with Dataset(data) as dataset:
                run = Run(folder, dataset, training.model, settings, config, make_fabric(self.device), resume)
            say_how_it_goes = _now_and_then(say)

            def on_epoch(record: EpochRecord) -> None:
                turn.share.count_until(record.seconds)
                say_how_it_goes(f"{training.name}: epoch {record.epoch} of {config.epochs}, {record.losses}")

            with run, turn.share.working(run.seconds):
                left = max(0.0, deadline - time.monotonic())
                outcome = run.train(on_epoch, left, lambda: turn.makes_room(run.epoch))
        say(
            f"{training.name}: {outcome.epochs} epochs, {outcome.seconds:.0f} s,"
            f" best {outcome.best_validation_loss:.4g}"
        )
        return outcome

    def _facts(self, training: Training, outcome: Outcome, device_seconds: float, stopped: bool) -> dict[str, Any]:
        """What its cells say of it."""
        best = LearnedOperator.load(self.folder_of(training) / BEST)
        return {
            "model": training.model,
            "settings": self.effort.settings(training),
            "training": asdict(self.effort.config(training)),
            "epochs": max(outcome.epochs, best.header.epoch),  # killed, it keeps weights newer than its state
            "best_epoch": best.header.epoch,
            "seconds": outcome.seconds,
            "device_seconds": device_seconds,
            "parameters": sum(parameter.numel() for parameter in best.model.parameters()),
            "seed": training.seed,
            "stopped": stopped,
            **{name: value for name, value in provenance().items() if name in ("commit", "device")},
        }

    def _known_of_what_ships(self, training: Training) -> dict[str, Any] | None:
        """What the cells say of it, if its weights are those of the package: then they need not be trained again."""
        operator = None if self.folder_of(training).exists() else self.operator_of(training)
        rows = [(table, row) for table in TABLES.values() for row in table.rows if row.training == training]
        cells = [cell for table, row in rows for cell in self.cells.of_row(table, row).values()] if operator else []
        for cell in cells:
            trained = cell["trained"]
            same = operator and (trained["model"], trained["best_epoch"]) == (training.model, operator.header.epoch)
            if same and not _is_stopped(cell) and trained["epochs"] <= self.effort.epochs:
                return trained
        return None

    def _test(
        self, table: Table, row: Row, columns: list[str], trained: dict[str, Any], say: Callable[[str], None]
    ) -> None:
        operator = self.operator_of(row.training)
        if operator is None:
            raise BenoError(f"{self.folder_of(row.training)} is done, but has no {BEST}: remove it, or bring that back")
        operator = AveragedOperator.of(operator) if row.averaged else operator
        for column in columns:
            family, spoilt = self.effort.family(table.columns[column]), column in table.spoilt
            with Dataset(self._dataset(family, testing_seed(family), self.effort.test_samples, spoilt)) as dataset:
                figures = evaluate(operator, dataset, "all").summary()
                first = [dataset[index] for index in range(_kept(table, row, column))]
                predicted = operator.predict(first) if first else []
            facts: dict[str, Any] = {"figures": figures, "trained": trained}
            if predicted:
                facts[PREDICTED] = as_text(predicted)
            self.cells.write(table, row, column, facts)
            say(f"{table.name}, {row.label}, {column}: {figures['relative_l2']:.4f}")

    def _dataset(self, family: Family, seed: int, samples: int, spoilt: bool = False) -> Path:
        path = self.folder / "data" / f"{family.name}-{seed}{'-spoilt' * spoilt}.h5"
        expected = Metadata.of_family(family, seed, samples)
        if spoilt:
            right, expected = self._dataset(family, seed, samples), replace(expected, origin="spoilt")
        require_folder(path.parent)
        with Lock(path.with_suffix(".lock")) as lock:
            lock.take(wait=True)
            if not path.exists() and spoilt:
                with Dataset(right) as dataset:
                    blocks = (Block.pack([with_published_fault(dataset[index])]) for index in range(samples))
                    write(path, expected, blocks)
            elif not path.exists():
                make(family, seed, samples, path)
        try:
            with Dataset(path) as dataset:
                found = replace(dataset.metadata, beno_version=expected.beno_version)
        except BenoError as error:
            raise BenoError(f"{error}; if it is damaged, {REMEDY}") from error
        if found != expected:
            raise BenoError(f"{path} holds other data: {difference(found, expected)}: use another folder")
        return path

    @property
    def device_name(self) -> str:
        return choose_device(self.device)


def _now_and_then(say: Callable[[str], None]) -> Callable[[str], None]:
    """Leaves out lines that come too soon after the one before."""
    last = time.monotonic()

    def say_if_it_is_time(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(line)

    return say_if_it_is_time


def _kept(table: Table, row: Row, column: str) -> int:
    """Of how many samples a cell keeps the predictions."""
    return 0 if row.averaged else table.keeps.get(column, 0)


def _is_stopped(cell: Cell) -> bool:
    """Whether its training is to go on."""
    return bool(cell["trained"].get("stopped", False))


def _read_done(path: Path, model: str, settings: dict[str, Any], config: TrainingConfig) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text())
    except OSError as error:
        raise BenoError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BenoError(f"{path} cannot be read: {error}; {REMEDY}") from error
    for name in damaged_training(facts):
        raise BenoError(f"{path} is damaged: {name} is not what it should be; {REMEDY}")
    stored = {"model": facts["model"], "settings": facts["settings"]}
    stored |= {"epochs": facts["training"].get("epochs"), **fixed(facts["training"])}
    asked = {"model": model, "settings": settings, "epochs": config.epochs, **fixed(asdict(config))}
    if stored != asked:
        raise BenoError(f"{path.parent} was trained with {difference(stored, asked)}: use another folder")
    return facts
