"""One step of the optimizer: on one device or many, in one piece or several, or captured as a CUDA graph."""

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from lightning_fabric import Fabric
from torch import Tensor, nn

from beno.batches.augmentation import Selection
from beno.batches.base import Batch, Batches, Feed
from beno.models.base import Model
from beno.nn.device import multiplies_in_half
from beno.support.errors import BenoError
from beno.training.captured import CapturedStep
from beno.training.config import TrainingConfig
from beno.training.losses import LOSS_NAMED

OPTIMIZER_STATE = ("step", "exp_avg", "exp_avg_sq")  # of Adam, for every parameter

Loss = Callable[[Tensor, Batch], Tensor]


class Steps:
    """The network, its optimizer, and how a selection of samples changes them."""

    def __init__(self, network: Model, batches: Batches[Batch], config: TrainingConfig, fabric: Fabric) -> None:
        self.network, self.batches, self.config, self.fabric = network, batches, config, fabric
        self._loss: Loss = LOSS_NAMED[config.loss]
        on_gpu = fabric.device.type == "cuda"
        self._rate = torch.tensor(config.learning_rate, device=fabric.device)
        optimizer_class = torch.optim.AdamW if config.decoupled_decay else torch.optim.Adam
        optimizer = optimizer_class(
            network.to(fabric.device).parameters(),
            lr=self._rate,
            weight_decay=config.weight_decay,
            fused=on_gpu,
            capturable=on_gpu,
        )
        self._wrapped, self.optimizer = fabric.setup(network, optimizer)
        self._captured: CapturedStep | None = None

    def capture(self) -> None:
        """On one GPU, if it is asked for: after this no weight may be replaced, only changed in place."""
        if self.config.captured and self.fabric.device.type == "cuda" and self.fabric.world_size == 1:
            samples = self.config.batch_size
            feed = self.batches.feed(self.batches.smallest(samples), samples)
            self._captured = CapturedStep(self._update_at_once, self.optimizer, self._rate, feed, samples)

    def change_to(self, batches: Batches[Batch]) -> None:
        """Go on with other samples. A captured step is bound to those that it was captured with, and is made anew."""
        self.batches = batches
        if self._captured is not None:
            self._captured = None  # first: what it holds is as large as what the new one needs
            self.capture()

    def __call__(self, selection: Selection, rate: float) -> Tensor:
        """The loss of a batch, before the step."""
        self._rate.fill_(rate)
        mine, weight = self._share(selection)
        # The mean over the whole batch, of which this process has a share: the backward pass of
        # several processes averages, so each one's sum is counted as often as there are.
        relative = self.config.loss == "relative"
        count = len(selection) if relative else int(self.batches.point_counts[selection.rows].sum())
        scale = np.zeros(self.config.batch_size if self._captured else len(mine))
        scale[: len(mine)] = weight * self.fabric.world_size / count
        scales = torch.as_tensor(scale, dtype=torch.float32).to(self.fabric.device, non_blocking=True)
        if self._captured is not None:
            feed = self.batches.feed(mine, self.config.batch_size)
            if self._captured.fits(feed):
                return self._captured(feed, scales)
        at_once = self.batches.worked_on_together(len(mine))
        pieces = [slice(first, first + at_once) for first in range(0, len(mine), at_once)]
        return self._update([(self.batches.feed(mine.take(piece)), scales[piece]) for piece in pieces])

    def _share(self, selection: Selection) -> tuple[Selection, float]:
        """This process's part of a batch; one that would have none works on any sample, for nothing."""
        mine = selection.take(slice(self.fabric.global_rank, None, self.fabric.world_size))
        return (mine, 1.0) if len(mine) else (selection.take(slice(1)), 0.0)

    def _update_at_once(self, feed: Feed, scale: Float[Tensor, " s"]) -> Tensor:
        return self._update([(feed, scale)])

    def _update(self, pieces: list[tuple[Feed, Float[Tensor, " _"]]]) -> Tensor:
        """One step of the optimizer, whose loss is returned, on a batch in one piece or several."""
        self.optimizer.zero_grad(set_to_none=True)
        total = torch.zeros((), device=self.fabric.device)
        for number, (feed, scale) in enumerate(pieces, start=1):
            batch = self.batches.open(feed)
            with self.fabric.no_backward_sync(self._wrapped, enabled=number < len(pieces)):
                with self.autocast():
                    predicted = self._wrapped(batch)
                loss = (scale * self._loss(predicted, batch)).sum()
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

    def state(self) -> dict[str, Tensor]:
        tensors = {f"model.{name}": tensor for name, tensor in self.network.state_dict().items()}
        for name, parameter in self.network.named_parameters():
            for key, tensor in self.optimizer.state[parameter].items():
                tensors[f"optimizer.{key}.{name}"] = tensor
        return tensors

    def load_state(self, tensors: dict[str, Tensor], where: str) -> None:
        wanted = {f"model.{name}" for name in self.network.state_dict()}
        for name, _ in self.network.named_parameters():
            wanted |= {f"optimizer.{key}.{name}" for key in OPTIMIZER_STATE}
        if not wanted <= tensors.keys():
            raise BenoError(f"{where} is no state of a run: {min(wanted - tensors.keys())} is missing")
        self.network.load_state_dict(
            {n.removeprefix("model."): t for n, t in tensors.items() if n.startswith("model.")}
        )
        for name, parameter in self.network.named_parameters():
            self.optimizer.state[parameter] = {
                key: tensors[f"optimizer.{key}.{name}"].to(parameter.device) for key in OPTIMIZER_STATE
            }

    def let_go(self) -> None:
        """Forget the wrapped model, which holds the group of processes."""
        del self._wrapped
