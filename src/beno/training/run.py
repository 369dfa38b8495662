"""One explicit loop for every model, on Lightning Fabric: one device or many, stopped and taken up at will.

Everything that an epoch does follows from (seed, epoch) and the weights before it, so a run that was
killed and resumed ends where the unbroken one does.
"""

import gc
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import cast

import joblib
import numpy as np
import torch
from lightning_fabric import Fabric
from torch import Tensor

from beno.batches.base import Batch, Batches
from beno.datasets.dataset import Dataset
from beno.datasets.stream import Stream
from beno.learned.checkpoints import Header
from beno.problems.solution import Solution
from beno.support.errors import BenoError
from beno.training.beginning import Beginning, take_weights
from beno.training.config import TrainingConfig
from beno.training.fabric import make_fabric
from beno.training.fresh import FreshBatches
from beno.training.losses import relative_errors, squared_errors
from beno.training.records import EpochRecord, Outcome
from beno.training.run_folder import RunFolder
from beno.training.steps import Steps

VALIDATION_BATCH = 100
# Where a run is killed it loses so many seconds, and an epoch; or as many epochs as it is told to go between states.
LOST_AT_MOST = 60.0


class Run:
    """A training run in a folder."""

    def __init__(
        self,
        folder: Path,
        dataset: Dataset,
        model: str = "beno",
        settings: Mapping[str, object] | None = None,
        config: TrainingConfig | None = None,
        fabric: Fabric | None = None,
        resume: bool = False,
    ) -> None:
        self.folder, self.fabric = RunFolder(folder), fabric or make_fabric("cpu")
        config = config or TrainingConfig()
        torch.set_float32_matmul_precision("highest" if config.precision == "32-true" else "high")
        _require_samples(dataset)
        beginning = Beginning.of(self.folder, dataset.metadata, model, settings or {}, config, resume)
        self._in_the_first_process(lambda: self.folder.claim(resume))
        self.header, self.config = beginning.header(dataset), beginning.config
        self.epoch, self.best, self.seconds = 0, float("inf"), 0.0
        state: dict[str, Tensor] | None = None
        if resume and self.folder.state.exists():
            begun, state, self.seconds = self.folder.load_state(self.header)
            self.epoch, self.best = begun.epoch, begun.validation_loss
        self._prepare(dataset)
        torch.manual_seed(self.config.seed)
        self.network = self.header.build()
        if beginning.start is not None:
            take_weights(self.network, beginning.start.model)
        self.steps = Steps(self.network, self.train_set, self.config, self.fabric)
        if state is not None:
            self.steps.load_state(state, str(self.folder.state))
        self.steps.capture()
        self._in_the_first_process(lambda: self.folder.open_logs(self.epoch))

    def _prepare(self, dataset: Dataset) -> None:
        """All samples as the model is fed with them, on the device; of a stream those of the epoch that is next."""
        network, config, device = self.header.model_class, self.header.model_config, self.fabric.device
        scales, augmentation = self.header.scales, self.config.augmentation

        def prepare(solutions: list[Solution]) -> Batches[Batch]:
            return network.batches(solutions, scales, config, device, augmentation)

        self.fresh: FreshBatches | None = None
        self._train_set_of = self.epoch  # the epoch whose samples it has; of a dataset all epochs have the same
        if self.config.stream:
            samples = len(dataset.indices("train"))
            stream = Stream.like(dataset.metadata, self.config.seed, samples, str(device))
            # On a GPU the cores have nothing else to do.
            workers = joblib.cpu_count() // self.fabric.world_size if device.type == "cuda" else 1
            self.fresh = FreshBatches(stream, prepare, max(1, workers))
            self.train_set = self.fresh.of_epoch(self.epoch)
        else:
            self.train_set = prepare([dataset[int(index)] for index in dataset.indices("train")])
        validation = [dataset[int(index)] for index in dataset.indices("validation")]
        self.validation_set = network.batches(validation, scales, config, device)
        self._validation_points = int(self.validation_set.point_counts.sum())

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        if self.fresh is not None:
            self.fresh.close()
        self.folder.release()  # after an error without waiting for the other processes: they may have ended

    def train(
        self,
        on_epoch: Callable[[EpochRecord], None] = lambda record: None,
        time_limit: float = float("inf"),
        is_enough: Callable[[], bool] = lambda: False,
    ) -> Outcome:
        """Go on to the last epoch, or until ``time_limit`` seconds have passed or it is enough, and an epoch is
        complete."""
        started, before = time.monotonic(), self.seconds
        saved = started
        while self.epoch < self.config.epochs:
            train_loss = self._train_epoch()
            self.epoch += 1
            last = self.epoch == self.config.epochs
            over = self._agree(time.monotonic() - started >= time_limit or is_enough())
            looked = last or over or self.epoch % self.config.validate_every == 0
            validation_loss, relative_l2 = self.validate() if looked else (math.nan, math.nan)
            self.seconds = before + time.monotonic() - started
            improved = validation_loss < self.best  # false where it is not a number
            self.best = validation_loss if improved else self.best
            rate = self.config.rate(self.epoch - 1)
            record = EpochRecord(self.epoch, train_loss, validation_loss, relative_l2, rate, self.seconds)
            if not math.isfinite(train_loss):
                raise BenoError(f"the training loss is {train_loss} in epoch {self.epoch}; a smaller rate may help")
            if self.fabric.is_global_zero:
                # In this order: killed between the two, the epoch is done again and writes the same.
                if improved:
                    self.folder.save_best(self._header(validation_loss), self.network.state_dict())
                self.folder.write_log(record)
                is_time = time.monotonic() - saved >= LOST_AT_MOST
                if over or last or is_time or self.epoch % self.config.checkpoint_every == 0:
                    self._save_state()
                    saved = time.monotonic()
            on_epoch(record)
            if over:
                break
        self.folder.close_logs()
        return Outcome(self.epoch, self.epoch >= self.config.epochs, self.best, self.seconds)

    def close(self) -> None:
        """Leave the folder to other runs, and part from the other processes once all are done.

        One that just leaves can take the others down. Nothing may hold their group any more: its threads end with it,
        and would abort an interpreter that ends before.
        """
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self.fabric.barrier()
            self.steps.let_go()
            torch.distributed.destroy_process_group()
            gc.collect()
        self.folder.release()

    def _take_fresh_samples(self, fresh: FreshBatches) -> None:
        """Those of this epoch; the next ones are prepared meanwhile, but not while a step is captured."""
        if self._train_set_of != self.epoch:
            self.train_set, self._train_set_of = fresh.of_epoch(self.epoch), self.epoch
            self.steps.change_to(self.train_set)
        fresh.look_ahead(self.epoch + 1, self.config.epochs)

    def _train_epoch(self) -> float:
        self.network.train()
        if self.fresh is not None:
            self._take_fresh_samples(self.fresh)
        config = self.config
        rng = np.random.default_rng([config.seed, self.epoch])
        selection = self.train_set.select(rng.permutation(len(self.train_set)), rng)
        steps = math.ceil(len(selection) / config.batch_size)
        total = torch.zeros((), device=self.fabric.device)
        for step in range(steps):
            rate = config.rate(self.epoch, self.epoch * steps + step)
            total += self.steps(selection.take(slice(step * config.batch_size, (step + 1) * config.batch_size)), rate)
        return float(cast(Tensor, self.fabric.all_reduce(total, reduce_op="mean"))) / steps

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """The loss and the mean relative L2, every process on the whole set."""
        self.network.eval()
        squares, relative = 0.0, 0.0
        at_once = self.validation_set.worked_on_together(VALIDATION_BATCH)
        for start in range(0, len(self.validation_set), at_once):
            batch = self.validation_set.batch(range(start, min(start + at_once, len(self.validation_set))))
            with self.steps.autocast():
                predicted = self.network(batch)
            squares += float(squared_errors(predicted, batch).sum())
            relative += float(relative_errors(predicted, batch).sum())
        relative /= len(self.validation_set)
        return (relative if self.config.loss == "relative" else squares / self._validation_points), relative

    def _save_state(self) -> None:
        self.folder.save_state(self._header(self.best), self.steps.state(), self.seconds)

    def _header(self, validation_loss: float) -> Header:
        return replace(self.header, epoch=self.epoch, validation_loss=validation_loss)

    def _in_the_first_process(self, action: Callable[[], None]) -> None:
        """Act in the first process alone. What it refuses all processes refuse, so that none waits for it."""
        refused, folder = "", self.folder
        if self.fabric.is_global_zero:
            try:
                action()
            except (BenoError, OSError) as error:
                folder.release()
                refused = (
                    f"cannot write {self.folder.path}: {error.strerror}" if isinstance(error, OSError) else str(error)
                )
        refused = self.fabric.broadcast(refused)
        if refused:
            raise BenoError(refused)

    def _agree(self, over: bool) -> bool:
        """All processes stop together: when the first one's time is up."""
        return bool(self.fabric.broadcast(over))


def _require_samples(dataset: Dataset) -> None:
    training, validation = (len(dataset.indices(split)) for split in ("train", "validation"))
    if not training or not validation:
        raise BenoError(
            f"{dataset.path} has {training} samples to train on and {validation}"
            " to validate with; both are needed (10 samples or more have them)"
        )
