"""Layers that hold several sets of weights side by side, so that all branches of a model run at once.

A tensor for b branches over n rows has the shape (b n, channels), branch after branch.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional


class BranchLinear(nn.Module):
    """One linear map a branch. Several inputs act as if concatenated, without the copy."""

    def __init__(self, branches: int, inputs: int | tuple[int, ...], outputs: int, bias: bool = True) -> None:
        super().__init__()
        self.branches = branches
        sizes = inputs if isinstance(inputs, tuple) else (inputs,)
        fan_in = sum(sizes)
        bound = fan_in**-0.5
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(branches, size, outputs).uniform_(-bound, bound)) for size in sizes
        )
        self.bias = nn.Parameter(torch.empty(branches, 1, outputs).uniform_(-bound, bound)) if bias else None

    def forward(self, *parts: Float[Tensor, "bn _"]) -> Float[Tensor, "bn out"]:
        total = self.bias
        for part, weight in zip(parts, self.weights, strict=True):
            rows = part.view(self.branches, -1, part.shape[-1])
            total = torch.bmm(rows, weight) if total is None else torch.baddbmm(total, rows, weight)
        assert total is not None
        return total.view(-1, total.shape[-1])


class BranchLayerNorm(nn.Module):
    def __init__(self, branches: int, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(branches, 1, channels))
        self.shift = nn.Parameter(torch.zeros(branches, 1, channels))

    def forward(self, x: Float[Tensor, "bn c"]) -> Float[Tensor, "bn c"]:
        branches, _, channels = self.gain.shape
        normal = functional.layer_norm(x, (channels,)).view(branches, -1, channels)
        return torch.addcmul(self.shift, normal, self.gain).view(-1, channels)


class BranchMLP(nn.Module):
    """Linear maps with SiLU between them; optionally a layer norm at the end."""

    def __init__(
        self,
        branches: int,
        inputs: int | tuple[int, ...],
        hidden: int,
        outputs: int,
        layers: int,
        layer_norm: bool = False,
    ) -> None:
        super().__init__()
        first_outputs = hidden if layers > 1 else outputs
        self.first = BranchLinear(branches, inputs, first_outputs)
        widths = [hidden] * (layers - 1) + [outputs]
        self.rest = nn.ModuleList(
            BranchLinear(branches, before, after) for before, after in zip(widths[:-1], widths[1:], strict=True)
        )
        self.norm = BranchLayerNorm(branches, outputs) if layer_norm else None

    def forward(self, *parts: Float[Tensor, "bn _"]) -> Float[Tensor, "bn out"]:
        return self.after_first(self.first(*parts))

    def after_first(self, x: Float[Tensor, "bn hidden"]) -> Float[Tensor, "bn out"]:
        """The rest of the network, for those who compute the first map's output in a cheaper way."""
        for layer in self.rest:
            x = layer(functional.silu(x))
        return x if self.norm is None else self.norm(x)
