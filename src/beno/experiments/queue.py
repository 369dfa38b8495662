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

from beno.dataset import Dataset, Metadata, whole_file_or_none
from beno.errors import BenoError
from beno.evaluation import evaluate
from beno.experiments.tables import TEST_SEED, TRAINING_SEED, Row, Table, Training
from beno.making import make
from beno.operator import BEST, LearnedOperator
from beno.provenance import provenance
from beno.random_problems import Family
from beno.training import PRESETS, STATE, Run, TrainingConfig, make_fabric

FORMAT, VERSION = "beno-cell", 1

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
        parts = preset.parts if training.parts is None else training.parts
        config = replace(preset, epochs=self.epochs, seed=training.seed, parts=parts, checkpoint_every=10)
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
        self.folder, self.results, self.effort, self.device = folder, results, effort, device
        for place in (folder, results):
            try:
                place.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise BenoError(f"cannot write {place}: {error.strerror}") from error

    def fill(self, tables: list[Table], time_limit: float, say: Callable[[str], None] = lambda line: None) -> Standing:
        deadline, held = time.monotonic() + time_limit, 0
        for table in tables:
            for row in table.rows:
                missing = [column for column in table.columns if self.cell(table, row, column) is None]
                if not missing:
                    continue
                if time.monotonic() >= deadline:
                    return self.standing(tables, held)
                with _lock(self.folder / f"{row.training.name}.lock") as mine:
                    if not mine:
                        held += 1
                        continue
                    facts = self._train(row.training, deadline, say)
                    if facts is None:
                        return self.standing(tables, held)
                    self._test(table, row, missing, facts, say)
        return self.standing(tables, held)

    def standing(self, tables: list[Table], held: int = 0) -> Standing:
        cells = [self.cell(table, row, column) for table in tables for row in table.rows for column in table.columns]
        return Standing(len(cells), cells.count(None), held)

    def cell(self, table: Table, row: Row, column: str) -> dict[str, Any] | None:
        path = self._cell_path(table, row, column)
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
        if stored.get("smoke") != self.effort.smoke:
            raise BenoError(f"{path} was {'' if stored.get('smoke') else 'not '}made with --smoke: use another folder")
        return stored

    def _cell_path(self, table: Table, row: Row, column: str) -> Path:
        def plain(text: str) -> str:
            return "".join(letter if letter.isalnum() else "-" for letter in text)

        return self.results / table.name / f"{plain(row.label)}--{plain(column)}.json"

    def _train(self, training: Training, deadline: float, say: Callable[[str], None]) -> dict[str, Any] | None:
        """What is known of a training that has ended; None if the time was over before it had."""
        folder = self.folder / training.name
        data = self._dataset(self.effort.family(training.family), TRAINING_SEED, self.effort.samples)
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
        }
        with whole_file_or_none(done) as unfinished:
            unfinished.write_text(json.dumps(facts, indent=1))
        return facts

    def _test(
        self, table: Table, row: Row, columns: list[str], facts: dict[str, Any], say: Callable[[str], None]
    ) -> None:
        operator = LearnedOperator.load(self.folder / row.training.name / BEST, self._device())
        for column in columns:
            family = self.effort.family(table.columns[column])
            seed = TEST_SEED + int(family.corners)
            with Dataset(self._dataset(family, seed, self.effort.test_samples)) as dataset:
                figures = evaluate(operator, dataset, "all").summary()
            cell = {"format": FORMAT, "version": VERSION, "smoke": self.effort.smoke, "table": table.name}
            cell |= {"row": row.label, "column": column, "figures": figures, "trained": facts}
            cell |= {"trained_on": asdict(row.training.family), "tested_on": asdict(family) | {"seed": seed}}
            path = self._cell_path(table, row, column)
            path.parent.mkdir(parents=True, exist_ok=True)
            with whole_file_or_none(path) as unfinished:
                unfinished.write_text(json.dumps(cell | provenance(), indent=1, default=str) + "\n")
            say(f"{table.name}, {row.label}, {column}: {figures['relative_l2']:.4f}")

    def _dataset(self, family: Family, seed: int, samples: int) -> Path:
        name = f"{family.equation}-{family.boundary}-{family.corners}-{family.resolution}-{seed}.h5"
        path = self.folder / "data" / name
        path.parent.mkdir(exist_ok=True)
        with _lock(path.with_suffix(".lock"), wait=True):
            if not path.exists():
                make(family, seed, samples, path)
        with Dataset(path) as dataset:
            expected = Metadata.of_family(family, seed, samples)
            if replace(dataset.metadata, beno_version="") != replace(expected, beno_version=""):
                raise BenoError(f"{path} holds {dataset.metadata}, where {expected} is needed: use another folder")
        return path

    def _device(self) -> str:
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
