"""One explicit loop for every model, on Lightning Fabric: one device or many, stopped and taken up at will.

Everything that an epoch does follows from (seed, epoch) and the weights before it, so a run that was
killed and resumed ends where the unbroken one does.
"""

import json
import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from beno import checkpoint
from beno.batch import Batch, Cohort
from beno.captured import CapturedStep
from beno.checkpoint import Header
from beno.dataset import Dataset, Metadata
from beno.device import choose_device
from beno.errors import BenoError
from beno.models import make_config, make_model
from beno.operator import BEST
from beno.scaling import Scales
from beno.symmetry import SYMMETRIES, transformed

STATE, LOG = "state.safetensors", "log.jsonl"
VALIDATION_BATCH = 100
PRECISIONS = ("32-true", "bf16-mixed")


@dataclass(frozen=True)
class TrainingConfig:
    """The paper's way to train; `PRESETS` has the other."""

    epochs: int = 1000
    batch_size: int = 1
    learning_rate: float = 5e-5
    weight_decay: float = 5e-4
    first_restart: int = 16  # epochs until the learning rate's first warm restart; each further span is
    restart_factor: int = 2  # this many times longer
    warm_up: int = 0  # steps over which the rate rises from zero at the start
    clip: float | None = None  # largest norm of a gradient
    precision: str = "32-true"
    seed: int = 0
    checkpoint_every: int = 1  # epochs
    decoupled_decay: bool = False  # decay the weights themselves (AdamW) instead of adding to the gradient
    symmetries: bool = False  # show every sample in a random one of the square's symmetries, with a random sign
    captured: bool = False  # on a GPU, replay each step as one CUDA graph over padded batches

    def __post_init__(self) -> None:
        for name in ("epochs", "batch_size", "learning_rate", "first_restart", "restart_factor", "checkpoint_every"):
            if not getattr(self, name) > 0:
                raise BenoError(f"{name.replace('_', ' ')} is {getattr(self, name)}; it must be positive")
        if self.precision not in PRECISIONS:
            raise BenoError(f"there is no precision {self.precision!r}; there is {', '.join(PRECISIONS)}")

    def rate(self, epoch: int, step: int = 10**9) -> float:
        """Cosine annealing with warm restarts (Loshchilov & Hutter 2016), by epoch."""
        span, since = self.first_restart, epoch
        while since >= span:
            since -= span
            span *= self.restart_factor
        cosine = self.learning_rate * (1 + math.cos(math.pi * since / span)) / 2
        return cosine * min(1.0, (step + 1) / (self.warm_up + 1))


PRESETS = {
    "paper": TrainingConfig(),
    "fast": TrainingConfig(
        batch_size=16,
        learning_rate=1e-3,
        weight_decay=0.0,
        warm_up=200,
        clip=1.0,
        precision="bf16-mixed",
        captured=True,
    ),
}


@dataclass(frozen=True)
class EpochRecord:
    """What is logged of one epoch. Losses are mean squares in units of the scaled solution."""

    epoch: int  # counted from 1
    train_loss: float
    validation_loss: float
    validation_relative_l2: float
    learning_rate: float
    seconds: float  # of training in all, over all pieces of the run


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
        self.fabric = fabric or make_fabric(self.config.precision, "cpu")
        self._claim(resume)
        torch.set_float32_matmul_precision("highest" if self.config.precision == "32-true" else "high")
        train_indices, validation_indices = dataset.indices("train"), dataset.indices("validation")
        if not len(train_indices) or not len(validation_indices):
            raise BenoError(
                f"{dataset.path} has {len(train_indices)} samples to train on and {len(validation_indices)}"
                " to validate with; both are needed (10 samples or more have them)"
            )
        model_config = make_config(model, {**problem_settings(dataset.metadata), **(settings or {})})
        scales = Scales.fit(dataset[int(index)] for index in train_indices)
        self.header = Header(model, asdict(model_config), scales, dataset.metadata, asdict(self.config))
        device = self.fabric.device
        self._views = SYMMETRIES if self.config.symmetries else 1
        training = (
            transformed(dataset[int(index)], symmetry) for index in train_indices for symmetry in range(self._views)
        )
        validation = (dataset[int(index)] for index in validation_indices)
        self.train_set = Cohort.of(training, scales, model_config.nearest, device)
        self.validation_set = Cohort.of(validation, scales, model_config.nearest, device)
        torch.manual_seed(self.config.seed)
        self.network: nn.Module = make_model(model, model_config)
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
        if resume:
            self._load_state()
        self._captured: CapturedStep | None = None
        if self.config.captured and on_gpu and self.fabric.world_size == 1:
            size = self.train_set.common_size(self.config.batch_size)
            self._captured = CapturedStep(self._update, self.optimizer, self._rate, self.train_set, size)
        self._open_logs()

    def train(
        self, on_epoch: Callable[[EpochRecord], None] = lambda record: None, time_limit: float = float("inf")
    ) -> Outcome:
        """Go on to the last epoch, or until ``time_limit`` seconds have passed and an epoch is complete."""
        started, before = time.monotonic(), self.seconds
        while self.epoch < self.config.epochs:
            train_loss = self._train_epoch()
            validation_loss, relative_l2 = self.validate()
            self.epoch += 1
            self.seconds = before + time.monotonic() - started
            over = self._agree(time.monotonic() - started >= time_limit)
            improved = validation_loss < self.best
            self.best = min(self.best, validation_loss)
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
                if over or self.epoch == self.config.epochs or self.epoch % self.config.checkpoint_every == 0:
                    self._save_state()
            on_epoch(record)
            if over:
                break
        if self._board is not None:
            self._board.close()
        return Outcome(self.epoch, self.epoch >= self.config.epochs, self.best, self.seconds)

    def _train_epoch(self) -> float:
        self.model.train()
        config, fabric = self.config, self.fabric
        order, signs = self._order()
        steps = math.ceil(len(order) / config.batch_size)
        total = torch.zeros((), device=fabric.device)
        for step in range(steps):
            here = slice(step * config.batch_size, (step + 1) * config.batch_size)
            self._rate.fill_(config.rate(self.epoch, self.epoch * steps + step))
            total += self._step(order[here], signs[here])
        return float(cast(Tensor, fabric.all_reduce(total, reduce_op="mean"))) / steps

    def _order(self) -> tuple[np.ndarray, np.ndarray]:
        """The samples of this epoch, each in one of its views, and the sign that each is shown with."""
        rng = np.random.default_rng([self.config.seed, self.epoch])
        samples = rng.permutation(len(self.train_set) // self._views)
        if self._views == 1:
            return samples, np.ones(len(samples))
        views = rng.integers(self._views, size=len(samples))
        return samples * self._views + views, rng.choice([-1.0, 1.0], size=len(samples))

    def _step(self, chosen: np.ndarray, signs: np.ndarray) -> Tensor:
        mine, weight = self._share(chosen)
        sign = torch.as_tensor(self._share(signs)[0], dtype=torch.float32)
        # The mean over the whole batch's points, of which this process has a share: the backward
        # pass of several processes averages, so each one's sum is counted as often as there are.
        scale = weight * self.fabric.world_size / int(self.train_set.point_counts[chosen].sum())
        if self._captured is not None:
            batch = self.train_set.padded_batch(mine, self._captured.size)
            if batch is not None:
                return self._captured(self._signed(batch, sign), scale)
        batch = self._signed(self.train_set.batch(mine), sign)
        return self._update(batch, torch.tensor(scale, device=self.fabric.device))

    def _signed(self, batch: Batch, sign: Tensor) -> Batch:
        """The equation is linear: with f and g, u changes its sign."""
        if self._views == 1:
            return batch
        sign = torch.nn.functional.pad(sign, (0, len(batch) - len(sign)), value=1.0).to(batch.g.device)
        at_points = sign[batch.sample]
        return replace(batch, source=batch.source * at_points, u=batch.u * at_points, g=batch.g * sign[:, None])

    def _update(self, batch: Batch, scale: Tensor) -> Tensor:
        """One step of the optimizer, whose loss is returned."""
        loss = scale * squared_error(self.model(batch), batch)
        self.optimizer.zero_grad(set_to_none=True)
        self.fabric.backward(loss)
        if self.config.clip is not None:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.config.clip, foreach=True)
        self.optimizer.step()
        return loss.detach()

    def _share(self, chosen: np.ndarray) -> tuple[np.ndarray, float]:
        """This process's part of a batch; one that would have none works on any sample, for nothing."""
        mine = chosen[self.fabric.global_rank :: self.fabric.world_size]
        return (mine, 1.0) if len(mine) else (chosen[:1], 0.0)

    @torch.no_grad()
    def validate(self) -> tuple[float, float]:
        """Mean squared error and mean relative L2, every process on the whole set."""
        self.model.eval()
        squares, relative = 0.0, 0.0
        for start in range(0, len(self.validation_set), VALIDATION_BATCH):
            batch = self.validation_set.batch(range(start, min(start + VALIDATION_BATCH, len(self.validation_set))))
            with self.fabric.autocast():
                predicted = self.network(batch)
            squares += float(squared_error(predicted, batch))
            relative += float(relative_l2_by_sample(predicted, batch).sum())
        return squares / int(self.validation_set.point_counts.sum()), relative / len(self.validation_set)

    def _header(self, validation_loss: float) -> Header:
        return replace(self.header, epoch=self.epoch, validation_loss=validation_loss)

    def _claim(self, resume: bool) -> None:
        state = self.folder / STATE
        if resume and not state.exists():
            raise BenoError(f"{self.folder} has no run to resume: {STATE} is missing")
        if not resume and state.exists():
            raise BenoError(f"{self.folder} holds a run already; --resume goes on with it, another folder starts anew")
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise BenoError(f"cannot write {self.folder}: {error.strerror}") from error

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
            ("training", _fixed(header.training), _fixed(self.header.training)),
        ):
            if stored != given:
                raise BenoError(f"{self.folder} was begun with another {what}: {stored}, where {given} is given now")
        self.network.load_state_dict(
            {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
        )
        for name, parameter in self.network.named_parameters():
            self.optimizer.state[parameter] = {
                key: tensors[f"optimizer.{key}.{name}"].to(parameter.device)
                for key in ("step", "exp_avg", "exp_avg_sq")
            }
        self.epoch, self.best = header.epoch, header.validation_loss
        self.seconds = float(tensors["seconds"])

    def _open_logs(self) -> None:
        """Drop what was logged after the state that the run goes on from."""
        self._board: Any = None
        if not self.fabric.is_global_zero:
            return
        from torch.utils.tensorboard import SummaryWriter

        log = self.folder / LOG
        lines = log.read_text().splitlines() if log.exists() else []
        kept = [line for line in lines if line.endswith("}") and json.loads(line)["epoch"] <= self.epoch]
        log.write_text("".join(line + "\n" for line in kept))
        self._board = SummaryWriter(str(self.folder / "tensorboard"), purge_step=self.epoch + 1)

    def _log(self, record: EpochRecord) -> None:
        with open(self.folder / LOG, "a") as log:
            log.write(json.dumps(asdict(record)) + "\n")
        for name, value in asdict(record).items():
            if name != "epoch":
                self._board.add_scalar(name, value, record.epoch)

    def _agree(self, over: bool) -> bool:
        """All processes stop together: when the first one's time is up."""
        return bool(self.fabric.broadcast(over))


def squared_error(predicted: Float[Tensor, " n"], batch: Batch) -> Float[Tensor, ""]:
    error = predicted.float() - batch.u
    if batch.real_point is not None:
        error = error * batch.real_point
    return error.square().sum()


def relative_l2_by_sample(predicted: Float[Tensor, " n"], batch: Batch) -> Float[Tensor, " s"]:
    def norm(values: Tensor) -> Tensor:
        squares = torch.zeros(len(batch), dtype=values.dtype, device=values.device)
        return squares.scatter_add(0, batch.sample, values.square()).sqrt()

    return norm(predicted.float() - batch.u) / norm(batch.u)


def problem_settings(metadata: Metadata) -> dict[str, Any]:
    """What a model must be told of the problems that it is to learn."""
    return {"coefficient": metadata.equation == "darcy", "kinds": metadata.boundary == "mixed"}


def make_fabric(precision: str, device: str = "auto") -> Fabric:
    """One device, or as many processes as torchrun has started."""
    import logging
    import os

    logging.getLogger("lightning_fabric").setLevel(logging.WARNING)  # it announces each precision
    world = int(os.environ.get("WORLD_SIZE", "1"))
    nodes = world // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    fabric = Fabric(
        accelerator=choose_device(device),
        devices=world // nodes,
        num_nodes=nodes,
        precision=precision,  # type: ignore[arg-type]
        strategy="ddp" if world > 1 else "auto",
    )
    fabric.launch()
    return fabric


def close_fabric(fabric: Fabric) -> None:
    """Part from the other processes once all are done; one that just leaves can take the others down."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        fabric.barrier()
        torch.distributed.destroy_process_group()


def _fixed(training: dict[str, Any]) -> dict[str, Any]:
    """What may not change in the middle of a run."""
    return {name: value for name, value in training.items() if name not in ("epochs", "checkpoint_every")}
