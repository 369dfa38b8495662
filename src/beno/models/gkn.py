"""GKN, the graph kernel network (Li et al., 2020): ``v <- relu(W v + mean over a ball of kappa(x, y) v(y))``.

From the paper and its code: the kernel's network sees both places and what is given at them, has two hidden layers and
makes a matrix for every edge; it is the same in all six steps, so it is evaluated once. Balls have a radius of 0.1;
width 64, the kernel's 1024. Here the nodes of the boundary stand in the graph too, told apart by their features.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.batch import Batch, Cohort
from beno.dataset import Metadata
from beno.errors import BenoError
from beno.models.nodes import node_columns, node_features, settings_for
from beno.nn.segments import from_senders, to_edges, to_nodes
from beno.sample import Sample
from beno.scaling import Scales
from beno.variety import Variety


@dataclass(frozen=True)
class GKNConfig:
    width: int = 64
    kernel_width: int = 1024
    depth: int = 6
    radius: float = 0.1
    coefficient: bool = False
    kinds: bool = False

    def __post_init__(self) -> None:
        for name in ("width", "kernel_width", "depth"):
            if getattr(self, name) < 1:
                raise BenoError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if not self.radius > 0:
            raise BenoError(f"radius is {self.radius}; it must be positive")

    @staticmethod
    def settings_for(data: Metadata) -> dict[str, Any]:
        return settings_for(data)


class GKN(nn.Module):
    def __init__(self, config: GKNConfig | None = None) -> None:
        super().__init__()
        self.config = config = config or GKNConfig()
        width, columns = config.width, node_columns(config.coefficient, config.kinds)
        self.lift = nn.Linear(columns, width)
        # The kernel's first layer, in two parts: what an edge's receiver and what its sender gives.
        self.from_receiver = nn.Linear(columns, config.kernel_width)
        self.from_sender = nn.Linear(columns, config.kernel_width, bias=False)
        self.kernel = nn.Sequential(
            nn.ReLU(), nn.Linear(config.kernel_width, config.kernel_width), nn.ReLU(),
            nn.Linear(config.kernel_width, width * width),
        )  # fmt: skip
        self.root = nn.Linear(width, width)
        self.project = nn.Linear(width, 1)

    @staticmethod
    def cohort(
        samples: Iterable[Sample],
        scales: Scales,
        config: GKNConfig,
        device: torch.device | str = "cpu",
        variety: Variety | None = None,
    ) -> Cohort:
        return Cohort.of(samples, scales, device=device, variety=variety, boundary_nodes=True, radius=config.radius)

    def forward(self, batch: Batch) -> Float[Tensor, " n"]:
        return self.branches(batch)[0]

    def branches(self, batch: Batch) -> Float[Tensor, "1 n"]:
        wiring, width = batch.wiring, self.config.width
        features = node_features(batch, self.config.coefficient, self.config.kinds)
        hidden = to_edges(self.from_receiver(features), self.from_sender(features), wiring)
        kernel = self.kernel(hidden).view(-1, width, width)
        messages = Messages(kernel)
        degree = (wiring.start[1:] - wiring.start[:-1]).clamp(min=1)[:, None]
        nodes = self.lift(features)
        for _ in range(self.config.depth):
            sent = messages(from_senders(nodes, wiring).to(kernel.dtype))
            nodes = functional.relu(self.root(nodes) + to_nodes(sent, wiring) / degree)
        return self.project(nodes).float().T


class Messages:
    """A matrix for every edge, times what is sent along it, step after step.

    The matrices are most of what is in memory. So their gradient is made once, of all steps together: by the backward
    pass of the first step, which comes last.
    """

    def __init__(self, kernel: Float[Tensor, "e c c"]) -> None:
        self._kernel, self._is_first = kernel, True
        self._received: list[tuple[Tensor, Tensor]] = []  # gradients at the receivers, and what was sent

    def __call__(self, sent: Float[Tensor, "e c"]) -> Float[Tensor, "e c"]:
        is_first, self._is_first = self._is_first, False
        return _Message.apply(self._kernel, sent, self._received, is_first)


class _Message(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, kernel: Tensor, sent: Tensor, received: list[tuple[Tensor, Tensor]], is_first: bool
    ) -> Tensor:
        ctx.save_for_backward(kernel, sent)
        ctx.received, ctx.is_first = received, is_first
        return torch.bmm(kernel, sent[:, :, None])[:, :, 0]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        kernel, sent = ctx.saved_tensors
        ctx.received.append((gradients[0], sent))
        to_sent = torch.bmm(gradients[0][:, None, :], kernel)[:, 0]
        if not ctx.is_first:
            return None, to_sent, None, None
        at_receivers, all_sent = (torch.stack(each, dim=1) for each in zip(*ctx.received, strict=True))
        ctx.received.clear()
        return torch.bmm(at_receivers.transpose(1, 2), all_sent), to_sent, None, None
