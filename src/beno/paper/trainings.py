"""The trainings of tables, a folder each: begun, gone on with, paused, and known to be done."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

from beno.datasets.dataset import Dataset
from beno.learned import checkpoints, shipped
from beno.learned.operator import BEST, LearnedOperator
from beno.nn.device import choose_device
from beno.paper.budget import Budget
from beno.paper.cells import Cells
from beno.paper.data import DataFolder, data_difference, metadata_of
from beno.paper.json_files import REMEDY, Checked, Damaged, read_object
from beno.paper.sharing import Share
from beno.paper.tables import TABLES, TRAINING_SEED, Training
from beno.paper.trained import Machine, Trained, origin, trained_from_version_1
from beno.support.errors import BenoError
from beno.support.files import whole_file_or_none
from beno.training.config import difference, fixed
from beno.training.records import EpochRecord, Outcome
from beno.training.run_folder import STATE, outcome_so_far, read_log

DONE, SHARE = "done.json", "share.json"
SECONDS_BETWEEN_LINES = 60.0  # that tell how a training goes

Say = Callable[[str], None]


class Trainings:
    """The trainings behind the rows of tables, each in a folder of its own."""

    def __init__(self, folder: Path, cells: Cells, device: str) -> None:
        self.folder, self.cells, self.budget = folder, cells, cells.budget
        self.device = device
        self.data = DataFolder(folder / "data", cells.budget)

    @property
    def device_name(self) -> str:
        return choose_device(self.device)

    def name_of(self, training: Training) -> str:
        return "smoke-" * self.budget.smoke + training.name

    def folder_of(self, training: Training) -> Path:
        return self.folder / self.name_of(training)

    def newest(self, training: Training) -> int | None:
        """The epoch of its best weights, if they are at hand."""
        try:
            return checkpoints.load_header(self.folder_of(training) / BEST).epoch
        except BenoError:  # which whoever needs the weights will hear of
            return None

    def ships(self, training: Training) -> bool:
        return training.ships_as is not None and not self.budget.smoke

    def operator_of(self, training: Training) -> LearnedOperator | None:
        """The operator with the best weights that are at hand: of the training's folder, or those that ship."""
        best = self.folder_of(training) / BEST
        if best.exists():
            self._require_own(training, best)
            return LearnedOperator.load(best, self.device_name)
        return shipped.load(str(training.ships_as), self.device_name) if self.ships(training) else None

    def train(self, training: Training, deadline: float, say: Say) -> Trained | None:
        """What is known of a training that has ended, or is to be tested as it stands; None if neither."""
        folder = self.folder_of(training)
        if (folder / DONE).exists():
            trained = self._read_done(training)
            if not self.cells.curves.path(training).exists():
                self.cells.curves.write(training, read_log(folder), trained)
            return trained
        if known := self.known_of_what_ships(training):
            return known
        share = Share(folder / SHARE, self.folder / "at_work" / self.device_name, self.device_name)
        outcome = self._go_on(training, share, deadline, say)
        unfinished = not outcome.finished and not self.budget.is_spent(training, share.seconds, self.device_name)
        has_paused = self.budget.has_paused(training, share.seconds, outcome.epochs, self.device_name)
        if unfinished and not has_paused and not self.budget.test_unfinished:
            return None
        trained = self._described(training, outcome, share.seconds, unfinished or self._is_cut_short(training))
        self.cells.curves.write(training, read_log(folder), trained)
        if not trained.unfinished:
            with whole_file_or_none(folder / DONE) as part:
                part.write_text(json.dumps(trained.to_store(), indent=1))
        return trained

    def known_of_what_ships(self, training: Training) -> Trained | None:
        """What cells say of a training whose weights are those of the package: it need not be done again."""
        operator = None if self.folder_of(training).exists() else self.operator_of(training)
        if operator is None:
            return None
        rows = [(table, row) for table in TABLES.values() for row in table.rows if row.training == training]
        for trained in (cell.trained for table, row in rows for cell in self.cells.of_row(table, row).values()):
            is_it = trained.model == training.model and trained.best_epoch == operator.header.epoch
            if is_it and not trained.unfinished and trained.epochs <= self.budget.epochs:
                return trained
        return None

    def _go_on(self, training: Training, share: Share, deadline: float, say: Say) -> Outcome:
        """Train from where it was, until it has ended or pauses, or the time is over."""
        folder, config, device = self.folder_of(training), self.budget.config(training), self.device_name
        resume = (folder / STATE).exists()
        if resume:
            self._require_can_go_on(training)
        before = outcome_so_far(folder, config.epochs) if resume and (folder / BEST).exists() else None
        if before is not None and self.budget.has_paused(training, share.seconds, before.epochs, device):
            outcome = before
        else:
            from beno.training.fabric import make_fabric  # a second to import, and needed only here
            from beno.training.run import Run

            settings = self.budget.settings(training)
            with Dataset(self.data.of_training(training)) as dataset:
                run = Run(folder, dataset, training.model, settings, config, make_fabric(self.device), resume)
            say_how_it_goes = _now_and_then(say)

            def on_epoch(record: EpochRecord) -> None:
                share.count_until(record.seconds)
                say_how_it_goes(f"{training.name}: epoch {record.epoch} of {config.epochs}, {record.losses}")

            with run, share.working(run.seconds):
                remaining = max(0.0, deadline - time.monotonic())
                outcome = run.train(
                    on_epoch,
                    remaining,
                    lambda: self.budget.has_paused(training, share.seconds, run.epoch, device),
                )
        best = outcome.best_validation_loss
        say(f"{training.name}: {outcome.epochs} epochs, {outcome.seconds:.0f} s, best {best:.4g}")
        return outcome

    def _described(self, training: Training, outcome: Outcome, device_seconds: float, unfinished: bool) -> Trained:
        """What its cells are to say of it."""
        best = LearnedOperator.load(self.folder_of(training) / BEST)
        return Trained(
            model=training.model,
            settings=self.budget.settings(training),
            training=asdict(self.budget.config(training)),
            epochs=max(outcome.epochs, best.header.epoch),  # killed, it keeps weights newer than its state
            best_epoch=best.header.epoch,
            seconds=outcome.seconds,
            device_seconds=device_seconds,
            parameters=sum(parameter.numel() for parameter in best.model.parameters()),
            seed=training.seed,
            device=Machine.this(),
            commit=str(origin()["commit"]),
            unfinished=unfinished,
        )

    def _is_cut_short(self, training: Training) -> bool:
        """Whether it is told of fewer epochs than the tables have; told of more, it goes on."""
        return not self.budget.smoke and self.budget.config(training).epochs < Budget().config(training).epochs

    def _require_can_go_on(self, training: Training) -> None:
        folder, config = self.folder_of(training), self.budget.config(training)
        self._require_own(training, folder / STATE)
        begun = checkpoints.load_header(folder / STATE).training.get("epochs")
        if begun != config.epochs and not config.first_restart:  # its rate would be another
            raise BenoError(f"{folder} was begun as a run of {begun} epochs, not {config.epochs}: use another folder")

    def _require_own(self, training: Training, path: Path) -> None:
        """Refuse a file of another training in this one's folder, which would be tested under the wrong name."""
        header = checkpoints.load_header(path)
        family = self.budget.family(training.family)
        data = metadata_of(family, TRAINING_SEED, self.budget.samples, training.with_fault)
        asked = {"model": training.model, "seed": training.seed, **self.budget.settings(training)}
        found = {**header.config, "model": header.model, "seed": header.training.get("seed")}
        other = difference({name: found.get(name) for name in asked}, asked) or data_difference(header.data, data)
        if other:
            raise BenoError(f"{path} is of another training: {other}: use another folder")

    def _read_done(self, training: Training) -> Trained:
        path, config = self.folder_of(training) / DONE, self.budget.config(training)
        try:
            stored = {"trained": trained_from_version_1(read_object(path))}
            trained = Trained.read(Checked(stored).part("trained"))
        except Damaged as error:
            raise BenoError(f"{path} is damaged: {error}; {REMEDY}") from error
        found: dict[str, object] = {"model": trained.model, "settings": dict(trained.settings)}
        found |= {"epochs": trained.training.get("epochs"), **fixed(dict(trained.training))}
        asked: dict[str, object] = {"model": training.model, "settings": self.budget.settings(training)}
        asked |= {"epochs": config.epochs, **fixed(asdict(config))}
        if found != asked:
            raise BenoError(f"{path.parent} was trained with {difference(found, asked)}: use another folder")
        return trained


def _now_and_then(say: Say) -> Say:
    """Leaves out lines that come too soon after the one before."""
    last = time.monotonic()

    def say_if_it_is_time(line: str) -> None:
        nonlocal last
        if time.monotonic() - last >= SECONDS_BETWEEN_LINES:
            last = time.monotonic()
            say(line)

    return say_if_it_is_time
