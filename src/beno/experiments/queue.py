"""Fills tables: trains what is missing, saves each cell as soon as it is known, and goes on there the next time.

A training is worked on by one process at a time, which holds a lock on its folder; several processes on one
folder share the work.
"""

import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from beno.dataset import Block, Dataset, Metadata, whole_file_or_none, write
from beno.errors import BenoError
from beno.evaluation import evaluate
from beno.experiments.cells import Cells
from beno.experiments.tables import TEST_SEED, TRAINING_SEED, Row, Table, Training
from beno.making import make
from beno.operator import BEST, LearnedOperator
from beno.provenance import provenance
from beno.published import with_published_fault
from beno.random_problems import Family
from beno.training import PRESETS, STATE, Run, TrainingConfig, make_fabric

# Sizes at which every part of every table runs in a few seconds on a CPU.
SMALL: dict[str, dict[str, Any]] = {
    "beno": {"width": 8, "steps": 2},
    "harmonic": {"width": 8, "layers": 1, "heads": 2, "pair_width": 8, "rank": 2},
    "gkn": {"width": 4, "kernel_width": 8, "depth": 2, "radius": 0.2},
    "fno": {"width": 4, "layers": 2, "modes": 3, "projection": 8},
    "gnn-pde": {"width": 8, "layers": 2, "terms": 3},
    "mp-pde": {"width": 8, "steps": 2},
}


@dataclass(frozen=True)
class Effort:
    """The same for every model, so that they stand on equal terms."""

    samples: int = 1000
    test_samples: int = 100
    epochs: int = 1000
    seconds: float = 300.0  # of the whole device, whichever ends first
    side_by_side: int = 1  # trainings on one device, each of which has its share of it
    smoke: bool = False

    @classmethod
    def least(cls) -> "Effort":
        return cls(samples=12, test_samples=2, epochs=1, smoke=True)

    @property
    def own_seconds(self) -> float:
        """For one training beside others."""
        return self.seconds * self.side_by_side

    def family(self, family: Family) -> Family:
        return replace(family, resolution=family.resolution // 4) if self.smoke else family

    def settings(self, training: Training) -> dict[str, Any]:
        return {**(SMALL[training.model] if self.smoke else {}), **training.settings}

    def config(self, training: Training) -> TrainingConfig:
        preset = PRESETS["harmonic" if training.model == "harmonic" else "fast"]
        config = replace(preset, epochs=self.epochs, seed=training.seed, checkpoint_every=10, **training.changes)
        if self.smoke:
            config = replace(config, batch_size=4, precision="32-true", symmetries=False, parts=min(config.parts, 1))
        return config


@dataclass(frozen=True)
class Standing:
    """What is left to do."""

    cells: int
    missing: int
    held: int  # trainings that another process is at


class Queue:
    def __init__(self, folder: Path, results: Path, effort: Effort, device: str = "auto") -> None:
        self.folder, self.effort, self.device = folder, effort, device
        self.cells = Cells(results, effort.smoke)
        for place in (folder, results):
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BenoError(f"cannot write {place}: {error.strerror}") from error

    def fill(self, tables: list[Table], time_limit: float, say: Callable[[str], None] = lambda line: None) -> Standing:
        deadline, held = time.monotonic() + time_limit, 0
        for table in tables:
            for row in table.rows:
                known = self.cells.of_row(table, row)
                missing = [column for column in table.columns if column not in known]
                if not missing:
                    continue
                if time.monotonic() >= deadline:
                    return self.standing(tables, held)
                with _lock(self.folder / f"{row.training.name}.lock") as mine:
                    if not mine:
                        held += 1
                        continue
                    trained = self._train(row.training, deadline, say)
                    if trained is None:
                        return self.standing(tables, held)
                    self._test(table, row, missing, trained, say)
        return self.standing(tables, held)

    def standing(self, tables: list[Table], held: int = 0) -> Standing:
        every = sum(len(table.rows) * len(table.columns) for table in tables)
        filled = sum(len(self.cells.of_row(table, row)) for table in tables for row in table.rows)
        return Standing(every, every - filled, held)

    def _train(self, training: Training, deadline: float, say: Callable[[str], None]) -> dict[str, Any] | None:
        """What is known of a training that has ended; None if the time was over before it had."""
        folder = self.folder / training.name
        family = self.effort.family(training.family)
        data = self._dataset(family, TRAINING_SEED, self.effort.samples, training.spoilt)
        done = folder / "done.json"
        if done.exists():
            return json.loads(done.read_text())
        with Dataset(data) as dataset:
            run = Run(
                folder, dataset, training.model, self.effort.settings(training), self.effort.config(training),
                make_fabric(self.device), resume=(folder / STATE).exists(),
            )  # fmt: skip
        own_limit = float("inf") if training.whole else self.effort.own_seconds - run.seconds
        outcome = run.train(time_limit=max(0.0, min(own_limit, deadline - time.monotonic())))
        best = outcome.best_validation_loss
        say(f"{training.name}: {outcome.epochs} epochs, {outcome.seconds:.0f} s, best {best:.4g}")
        if not outcome.finished and (training.whole or outcome.seconds < self.effort.own_seconds):
            return None
        facts = {
            "model": training.model,
            "settings": self.effort.settings(training),
            "training": asdict(run.config),
            "epochs": outcome.epochs,
            "best_epoch": LearnedOperator.load(folder / BEST).header.epoch,
            "seconds": outcome.seconds,
            "side_by_side": self.effort.side_by_side,
            "parameters": sum(parameter.numel() for parameter in run.network.parameters()),
            "seed": training.seed,
            "device": provenance()["device"],
        }
        with whole_file_or_none(done) as unfinished:
            unfinished.write_text(json.dumps(facts, indent=1))
        return facts

    def _test(
        self, table: Table, row: Row, columns: list[str], trained: dict[str, Any], say: Callable[[str], None]
    ) -> None:
        operator = LearnedOperator.load(self.folder / row.training.name / BEST, self.device_name)
        for column in columns:
            family = self.effort.family(table.columns[column])
            seed = TEST_SEED + int(family.corners)
            spoilt = column in table.spoilt
            with Dataset(self._dataset(family, seed, self.effort.test_samples, spoilt)) as dataset:
                figures = evaluate(operator, dataset, "all").summary()
            facts = {"figures": figures, "trained": trained, "trained_on": asdict(row.training.family)}
            self.cells.write(
                table, row, column, facts | {"tested_on": asdict(family) | {"seed": seed, "spoilt": spoilt}}
            )
            say(f"{table.name}, {row.label}, {column}: {figures['relative_l2']:.4f}")

    def _dataset(self, family: Family, seed: int, samples: int, spoilt: bool = False) -> Path:
        name = f"{family.equation}-{family.boundary}-{family.corners}-{family.resolution}-{seed}"
        path = self.folder / "data" / f"{name}{'-spoilt' * spoilt}.h5"
        path.parent.mkdir(exist_ok=True)
        expected = Metadata.of_family(family, seed, samples)
        if spoilt:
            right, expected = self._dataset(family, seed, samples), replace(expected, origin="spoilt")
        with _lock(path.with_suffix(".lock"), wait=True):
            if not path.exists() and spoilt:
                with Dataset(right) as dataset:
                    blocks = (Block.pack([with_published_fault(dataset[index])]) for index in range(samples))
                    write(path, expected, blocks)
            elif not path.exists():
                make(family, seed, samples, path)
        with Dataset(path) as dataset:
            if replace(dataset.metadata, beno_version="") != replace(expected, beno_version=""):
                raise BenoError(f"{path} holds {dataset.metadata}, where {expected} is needed: use another folder")
        return path

    @property
    def device_name(self) -> str:
        from beno.device import choose_device

        return choose_device(self.device)


@contextmanager
def _lock(path: Path, wait: bool = False) -> Iterator[bool]:
    """Whether the lock is ours; it ends with the process, however that ends."""
    with open(path, "w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True
