"""One explicit loop for every model, on Lightning Fabric: one device or many, stopped and taken up at will.

Everything that an epoch does follows from (seed, epoch) and the weights before it, so a run that was
killed and resumed ends where the unbroken one does.
"""

import gc
import json
import math
import time
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from beno.batches.augmentation import Plan
from beno.datasets.dataset import Dataset
from beno.datasets.scales import Scales
from beno.learned import checkpoints as checkpoint
from beno.learned import shipped
from beno.learned.checkpoints import Header
from beno.learned.operator import BEST
from beno.models import MODELS, make_config, make_model, require_model
from beno.nn.device import choose_device, multiplies_in_half, worked_on_together
from beno.support.errors import BenoError
from beno.support.files import LOCK, clear_left_behind, require_folder, require_own_folder, whole_file_or_none
from beno.support.locks import Lock
from beno.training.captured import CapturedStep
from beno.training.config import TrainingConfig, difference, fixed

STATE, LOG, BOARD = "state.safetensors", "log.jsonl", "tensorboard"
VALIDATION_BATCH = 100
LOST_AT_MOST = (
    60.0  # seconds, and an epoch, where a run is killed; or as many epochs as it is told to go between states
)
TINY = 1e-12
OPTIMIZER_STATE = ("step", "exp_avg", "exp_avg_sq")  # of Adam, for every parameter


@dataclass(frozen=True)
class EpochRecord:
    """What is logged of one epoch. Mean squares are in units of the scaled solution."""

    epoch: int  # counted from 1
    train_loss: float
    validation_loss: float
    validation_relative_l2: float
    learning_rate: float
    seconds: float  # of training in all, over all pieces of the run

    @property
    def losses(self) -> str:
        training = f"train {self.train_loss:.4f}"
        if math.isnan(self.validation_loss):  # an epoch without a look at the validation samples
            return training
        return f"{training}  validation {self.validation_loss:.4f} (relative L2 {self.validation_relative_l2:.3f})"


@dataclass(frozen=True)
class Outcome:
    epochs: int
    finished: bool
    best_validation_loss: float
    seconds: float


class Run:
    """A training run in a folder: its state, its best weights, and its log."""

    def __init__(
        self,
        folder: Path,
        dataset: Dataset,
        model: str = "beno",
        settings: dict[str, Any] | None = None,
        config: TrainingConfig | None = None,
        fabric: Fabric | None = None,
        resume: bool = False,
    ) -> None:
        self.folder, self.config = folder, config or TrainingConfig()
        self.fabric = fabric or make_fabric("cpu")
        torch.set_float32_matmul_precision("highest" if self.config.precision == "32-true" else "high")
        train_indices, validation_indices = dataset.indices("train"), dataset.indices("validation")
        if not len(train_indices) or not len(validation_indices):
            raise BenoError(
                f"{dataset.path} has {len(train_indices)} samples to train on and {len(validation_indices)}"
                " to validate with; both are needed (10 samples or more have them)"
            )
        require_model(model)
        wanted = {**MODELS[model][1].settings_for(dataset.metadata), **(settings or {})}
        model_config = make_config(model, wanted)
        start, origin = None, None
        if resume and (folder / STATE).exists():
            origin = self._started_from()
        elif self.config.start is not None:
            start = shipped.load(self.config.start)
            origin = start.header
        if origin is not None:
            _require_fit(origin, {"model": model, **wanted}, getattr(type(model_config), "COMES_LAST", frozenset()))
            model_config = make_config(model, {**origin.config, **wanted})
        self._lock = Lock(folder / LOCK)
        self._in_the_first_process(lambda: self._claim(resume))
        # Weights that go on keep their scales; for problems of another kind they are a start, and no more.
        going_on = origin is not None and (start is None or start.was_trained_on_such(dataset.metadata))
        scales = origin.scales if origin and going_on else Scales.fit(dataset[int(i)] for i in train_indices)
        self.header = Header(model, asdict(model_config), scales, dataset.metadata, asdict(self.config))
        device = self.fabric.device
        training = (dataset[int(index)] for index in train_indices)
        validation = (dataset[int(index)] for index in validation_indices)
        network_class = MODELS[model][0]
        self.train_set = network_class.cohort(training, scales, model_config, device, self.config.variety)
        self.validation_set = network_class.cohort(validation, scales, model_config, device)
        self._validation_points = int(self.validation_set.point_counts.sum())
        torch.manual_seed(self.config.seed)
        self.network: nn.Module = make_model(model, model_config)
        if start is not None:
            _take_weights(self.network, start.model)
        on_gpu = device.type == "cuda"
        self._rate = torch.tensor(self.config.learning_rate, device=device)
        optimizer_class = torch.optim.AdamW if self.config.decoupled_decay else torch.optim.Adam
        optimizer = optimizer_class(
            self.network.to(device).parameters(),
            lr=self._rate,
            weight_decay=self.config.weight_decay,
            fused=on_gpu,
            capturable=on_gpu,
        )
        self.model, self.optimizer = self.fabric.setup(self.network, optimizer)
        self.epoch, self.best, self.seconds = 0, float("inf"), 0.0
        if resume and (folder / STATE).exists():
            self._load_state()
        self._captured: CapturedStep | None = None
        if self.config.captured and on_gpu and self.fabric.world_size == 1:
            samples = self.config.batch_size
            feed = self.train_set.feed(self.train_set.smallest(samples), samples)
            self._captured = CapturedStep(self._update_at_once, self.optimizer, self._rate, feed, samples)
        self._board: Any = None
        self._in_the_first_process(self._open_logs)

    def __enter__(self) -> "Run":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if kind is None:
            self.close()
        self._lock.release()  # after an error without waiting for the other processes: they may have ended

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
            record = EpochRecord(
                self.epoch, train_loss, validation_loss, relative_l2, self.config.rate(self.epoch - 1), self.seconds
            )
            if not math.isfinite(train_loss):
                raise BenoError(f"the training loss is {train_loss} in epoch {self.epoch}; a smaller rate may help")
            if self.fabric.is_global_zero:
                # In this order: killed between the two, the epoch is done again and writes the same.
                if improved:
                    checkpoint.save(self.folder / BEST, self._header(validation_loss), self.network.state_dict())
                self._log(record)
                is_time = time.monotonic() - saved >= LOST_AT_MOST
                if over or last or is_time or self.epoch % self.config.checkpoint_every == 0:
                    self._save_state()
                    saved = time.monotonic()
            on_epoch(record)
            if over:
                break
        if self._board is not None:
            self._board.close()
        return Outcome(self.epoch, self.epoch >= self.config.epochs, self.best, self.seconds)

    def close(self) -> None:
        """Leave the folder to other runs, and part from the other processes once all are done.

        One that just leaves can take the others down. Nothing may hold their group any more: its threads end with it,
        and would abort an interpreter that ends before.
        """
        if torch.distributed.is_available() and torch.distributed.is_initialized():
            self.fabric.barrier()
            del self.model
            torch.distributed.destroy_process_group()
            gc.collect()
        self._lock.release()

    def _train_epoch(self) -> float:
        self.network.train()
        config, fabric = self.config, self.fabric
        rng = np.random.default_rng([config.seed, self.epoch])
        plan = self.train_set.plan(rng.permutation(len(self.train_set)), rng)
        steps = math.ceil(len(plan) / config.batch_size)
        total = torch.zeros((), device=fabric.device)
        for step in range(steps):
            self._rate.fill_(config.rate(self.epoch, self.epoch * steps + step))
            total += self._step(plan.take(slice(step * config.batch_size, (step + 1) * config.batch_size)))
        return float(cast(Tensor, fabric.all_reduce(total, reduce_op="mean"))) / steps

    def _step(self, plan: Plan) -> Tensor:
        mine, weight = self._share(plan)
        # The mean over the whole batch, of which this process has a share: the backward pass of
        # several processes averages, so each one's sum is counted as often as there are.
        relative = self.config.loss == "relative"
        count = len(plan) if relative else int(self.train_set.point_counts[plan.rows].sum())
        scale = np.zeros(self.config.batch_size if self._captured else len(mine))
        scale[: len(mine)] = weight * self.fabric.world_size / count
        scales = torch.as_tensor(scale, dtype=torch.float32).to(self.fabric.device, non_blocking=True)
        if self._captured is not None:
            feed = self.train_set.feed(mine, self.config.batch_size)
            if self._captured.fits(feed):
                return self._captured(feed, scales)
        at_once = min(len(mine), worked_on_together(self.train_set, self.fabric.device))
        pieces = [slice(first, first + at_once) for first in range(0, len(mine), at_once)]
        return self._update([(self.train_set.feed(mine.take(piece)), scales[piece]) for piece in pieces])

    def _update_at_once(self, feed: Any, scale: Float[Tensor, " s"]) -> Tensor:
        return self._update([(feed, scale)])

    def _update(self, pieces: list[tuple[Any, Float[Tensor, " _"]]]) -> Tensor:
        """One step of the optimizer, whose loss is returned, on a batch in one piece or several."""
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.fabric.device)
        for number, (feed, scale) in enumerate(pieces, start=1):
            batch = self.train_set.open(feed)
            with self.fabric.no_backward_sync(self.model, enabled=number < len(pieces)):
                with self.autocast():
                    predicted = self.model(batch)
                relative = self.config.loss == "relative"
                errors = relative_l2_by_sample(predicted, batch) if relative else squared_errors(predicted, batch)
                loss = (scale * errors).sum()
                self.fabric.backward(loss)
            total += loss.detach()
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip, foreach=True)
        self.optimizer.step()
        return total

    def autocast(self) -> torch.autocast:
        """Ours, not Fabric's: that one would round the coordinates of a batch to half precision as well."""
        half = self.config.precision == "bf16-mixed" and multiplies_in_half(self.fabric.device)
        return torch.autocast(self.fabric.device.type, torch.bfloat16, enabled=half)

    def _share(self, plan: Plan) -> tuple[Plan, float]:
        """This process's part of a batch; one that would have none works on any sample, for nothing."""
        mine = plan.take(slice(self.fabric.global_rank, None, self.fabric.world_size))
        return (mine, 1.0) if len(mine) else (plan.take(slice(1)), 0.0)

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """The loss and the mean relative L2, every process on the whole set."""
        self.network.eval()
        squares, relative = 0.0, 0.0
        at_once = min(VALIDATION_BATCH, worked_on_together(self.validation_set, self.fabric.device))
        for start in range(0, len(self.validation_set), at_once):
            batch = self.validation_set.batch(range(start, min(start + at_once, len(self.validation_set))))
            with self.autocast():
                predicted = self.network(batch)
            squares += float(squared_errors(predicted, batch).sum())
            relative += float(relative_l2_by_sample(predicted, batch).sum())
        relative /= len(self.validation_set)
        return (relative if self.config.loss == "relative" else squares / self._validation_points), relative

    def _header(self, validation_loss: float) -> Header:
        return replace(self.header, epoch=self.epoch, validation_loss=validation_loss)

    def _in_the_first_process(self, action: Callable[[], None]) -> None:
        """What it refuses, all of them refuse, so that none of them waits for it."""
        refused = ""
        if self.fabric.is_global_zero:
            try:
                action()
            except (BenoError, OSError) as error:
                self._lock.release()
                refused = (
                    str(error) if isinstance(error, BenoError) else f"cannot write {self.folder}: {error.strerror}"
                )
        refused = self.fabric.broadcast(refused)
        if refused:
            raise BenoError(refused)

    def _claim(self, resume: bool) -> None:
        """Hold the folder until the run is closed: of two at once, each would undo what the other one writes."""
        state, log = self.folder / STATE, self.folder / LOG
        if resume and not (state.exists() or log.exists()):  # killed in its first epoch, it has a log
            raise BenoError(f"{self.folder} has no run to resume: {STATE} is missing")
        require_folder(self.folder)
        self._lock.require(f"another run is training in {self.folder}")
        if not resume and state.exists():
            raise BenoError(f"{self.folder} holds a run already; --resume goes on with it, another folder starts anew")
        for place in (state, log, self.folder / BEST):
            if place.is_symlink():
                raise BenoError(f"cannot write {place}: it is a link, where a run keeps a file of its own")
        require_own_folder(self.folder / BOARD)
        clear_left_behind(self.folder)
        log.touch()

    def _started_from(self) -> Header | None:
        """Of a run that goes on: its own state, if it once started from trained weights. Those are not needed again."""
        header = checkpoint.load_header(self.folder / STATE)
        start = header.training.get("start")
        if start is None and self.config.start is not None:
            raise BenoError(f"{self.folder} was begun with random weights, not with those of {self.config.start}")
        self.config = replace(self.config, start=start)
        return header if start is not None else None

    def _save_state(self) -> None:
        tensors = {f"model.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, tensor in self.optimizer.state[parameter].items():
                tensors[f"optimizer.{key}.{name}"] = tensor
        tensors["seconds"] = torch.tensor(self.seconds, dtype=torch.float64)
        checkpoint.save(self.folder / STATE, self._header(self.best), tensors)

    def _load_state(self) -> None:
        header, tensors = checkpoint.load(self.folder / STATE)
        for what, stored, given in (
            ("model", header.model, self.header.model),
            ("settings", header.config, self.header.config),
            ("data", header.data, self.header.data),
            ("training", fixed(header.training), fixed(self.header.training)),
        ):
            if stored != given:
                raise BenoError(f"{self.folder} was begun with another {what}: {difference(stored, given)}")
        wanted = {"seconds", *(f"model.{name}" for name in self.network.state_dict())}
        for name, _ in self.network.named_parameters():
            wanted |= {f"optimizer.{key}.{name}" for key in OPTIMIZER_STATE}
        if not wanted <= tensors.keys():
            missing = min(wanted - tensors.keys())
            raise BenoError(f"{self.folder / STATE} is no state of a run: {missing} is missing")
        self.network.load_state_dict(
            {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
        )
        for name, parameter in self.network.named_parameters():
            self.optimizer.state[parameter] = {
                key: tensors[f"optimizer.{key}.{name}"].to(parameter.device) for key in OPTIMIZER_STATE
            }
        self.epoch, self.best = header.epoch, header.validation_loss
        self.seconds = float(tensors["seconds"])

    def _open_logs(self) -> None:
        """Drop what was logged after the state that the run goes on from."""
        from torch.utils.tensorboard import SummaryWriter

        kept = [record for record in read_log(self.folder) if record["epoch"] <= self.epoch]
        with whole_file_or_none(self.folder / LOG) as unfinished:
            unfinished.write_text("".join(json.dumps(record) + "\n" for record in kept))
        self._board = SummaryWriter(str(self.folder / BOARD), purge_step=self.epoch + 1)

    def _log(self, record: EpochRecord) -> None:
        with open(self.folder / LOG, "a") as log:
            known = {name: None if math.isnan(value) else value for name, value in asdict(record).items()}
            log.write(json.dumps(known) + "\n")
        for name, value in known.items():
            if name != "epoch" and value is not None:
                self._board.add_scalar(name, value, record.epoch)

    def _agree(self, over: bool) -> bool:
        """All processes stop together: when the first one's time is up."""
        return bool(self.fabric.broadcast(over))


def squared_errors(predicted: Float[Tensor, "*n"], batch: Any) -> Float[Tensor, " s"]:
    """Summed over each sample's points."""
    return batch.by_sample((predicted.float() - batch.u).square())


def relative_l2_by_sample(predicted: Float[Tensor, "*n"], batch: Any) -> Float[Tensor, " s"]:
    """Safe to take the slope of where a padded sample has no points at all."""
    return (squared_errors(predicted, batch) / (batch.by_sample(batch.u.square()) + TINY) + TINY).sqrt()


def read_log(folder: Path) -> list[dict[str, Any]]:
    """What is logged of each epoch; a run that was killed may have left half a line at the end."""
    log = folder / LOG
    try:
        lines = log.read_text().splitlines() if log.exists() else []
        records = [json.loads(line) for line in lines if line.endswith("}")]
    except (OSError, ValueError) as error:
        raise BenoError(f"{log} is damaged: {error}") from error
    if not all(isinstance(record, dict) and "epoch" in record for record in records):
        raise BenoError(f"{log} is damaged: a line has no epoch")
    return records


def outcome_so_far(folder: Path, epochs: int) -> Outcome:
    """Of a run that is to have so many epochs, as it stands in its folder."""
    header, tensors = checkpoint.load(folder / STATE)
    if "seconds" not in tensors:
        raise BenoError(f"{folder / STATE} is no state of a run: seconds is missing")
    return Outcome(header.epoch, header.epoch >= epochs, header.validation_loss, float(tensors["seconds"]))


def make_fabric(device: str = "auto") -> Fabric:
    """One device, or as many processes as torchrun has started."""
    import os

    world = int(os.environ.get("WORLD_SIZE", "1"))
    nodes = world // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = Fabric(
        accelerator=choose_device(device),
        devices=world // nodes,
        num_nodes=nodes,
        strategy="ddp" if world > 1 else "auto",
    )
    fabric.launch()
    return fabric


def _require_fit(origin: Header, wanted: dict[str, Any], may_be_new: Collection[str]) -> None:
    """Weights to start from must be those of the model that is asked for, but for inputs that they need not know."""
    known = {"model": origin.model, **origin.config}
    for name, value in wanted.items():
        is_new = name in may_be_new and value and not known.get(name)
        if known.get(name) != value and not is_new:
            raise BenoError(f"the weights to start from have {name} {known.get(name)}, where {value} is needed")


@torch.no_grad()
def _take_weights(network: nn.Module, start: nn.Module) -> None:
    """Inputs that the start does not know come last, and count for nothing at first."""
    theirs = start.state_dict()
    for name, ours in network.state_dict().items():
        ours.zero_()
        ours[tuple(slice(size) for size in theirs[name].shape)] = theirs[name]
