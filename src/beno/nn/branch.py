"""Layers that hold several sets of weights side by side, so that all branches of a model run at once.

A tensor for b branches over n rows has the shape (b n, channels), branch after branch. Between layers
it holds what stands before the activation; a layer that is told to activates what it reads.
"""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.nn.segments import Wiring, fused_kernels, to_edges

# For x of unit variance SiLU(x) has mean square 0.355; weights of this gain restore unit variance,
# without which the signal dies out in a network as deep as this and without residuals.
SILU_GAIN = 0.355**-0.5

# What a first layer adds that lives on nodes while its rows are edges: at receiver, at sender, wiring.
FromNodes = tuple[Tensor, Tensor, Wiring]


class BranchLinear(nn.Module):
    """One linear map a branch. Several inputs act as if concatenated, without the copy."""

    def __init__(
        self,
        branches: int,
        inputs: int | tuple[int, ...],
        outputs: int,
        bias: bool = True,
        gain: float = 1.0,
        fan_in: int | None = None,
    ) -> None:
        """``fan_in`` counts the inputs that are added up, where other layers contribute to the sum."""
        super().__init__()
        self.branches = branches
        sizes = inputs if isinstance(inputs, tuple) else (inputs,)
        bound = gain * (3 / (fan_in or sum(sizes))) ** 0.5
        self.weights = nn.ParameterList(
            nn.Parameter(torch.empty(branches, size, outputs).uniform_(-bound, bound)) for size in sizes
        )
        self.bias = nn.Parameter(torch.zeros(branches, 1, outputs)) if bias else None

    def forward(
        self, *parts: Float[Tensor, "bn _"], activate: bool = False, from_nodes: FromNodes | None = None
    ) -> Float[Tensor, "bn out"]:
        if self._can_fuse(parts):
            return self._fused(parts, activate, from_nodes)
        total: Tensor | None = self.bias
        for part, weight in zip(parts, self.weights, strict=True):
            rows = functional.silu(part) if activate else part
            rows = rows.view(self.branches, -1, part.shape[-1])
            if rows.is_cuda:  # tensor cores run at speed with a multiple of eight columns
                missing = -rows.shape[-1] % 8
                rows, weight = _widened(rows, missing), _lengthened(weight, missing)
            total = torch.bmm(rows, weight) if total is None else torch.baddbmm(total, rows, weight)
        assert total is not None
        total = total.view(-1, total.shape[-1])
        return total if from_nodes is None else total + to_edges(*from_nodes)

    def _can_fuse(self, parts: tuple[Tensor, ...]) -> bool:
        if not (parts[0].is_cuda and torch.is_autocast_enabled("cuda") and len(parts) <= 2):
            return False
        fused = fused_kernels()
        if fused is None:
            return False
        return all(fused.fits(max(weight.shape[1], fused.LEAST), weight.shape[2]) for weight in self.weights)

    def _fused(
        self, parts: tuple[Tensor, ...], activate: bool, from_nodes: FromNodes | None
    ) -> Float[Tensor, "bn out"]:
        fused = fused_kernels()
        assert fused is not None
        products: list[Tensor | None] = []
        for part, weight in zip(parts, self.weights, strict=True):
            missing = max(0, fused.LEAST - part.shape[-1])
            products += [_widened(part, missing), _lengthened(weight, missing)]
        products += [None, None] if len(parts) == 1 else []
        at_receiver, at_sender, wiring = from_nodes or (None, None, None)
        return fused.FusedLinear.apply(
            *products, self.bias, at_receiver, at_sender, wiring, activate, torch.get_autocast_dtype("cuda")
        )


class BranchLayerNorm(nn.Module):
    """A layer norm with weights of its own for each branch."""

    def __init__(self, branches: int, channels: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.ones(branches, 1, channels))
        self.shift = nn.Parameter(torch.zeros(branches, 1, channels))

    def forward(self, x: Float[Tensor, "bn c"], residual: Float[Tensor, "bn c"] | None = None) -> Float[Tensor, "bn c"]:
        """The norm of x, added to ``residual`` if there is one."""
        branches, _, channels = self.gain.shape
        fused = fused_kernels() if x.is_cuda else None
        if fused is not None and fused.fits(channels):
            return fused.FusedNorm.apply(x, self.gain, self.shift, residual)
        rows = x.view(branches, -1, channels)
        scaled = zip(rows, self.gain[:, 0], self.shift[:, 0], strict=True)
        normal = torch.cat([functional.layer_norm(one, (channels,), gain, shift) for one, gain, shift in scaled])
        return normal if residual is None else residual + normal


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
        fan_in: int | None = None,
        last_gain: float = SILU_GAIN,
    ) -> None:
        super().__init__()
        first_outputs = hidden if layers > 1 else outputs
        self.first = BranchLinear(branches, inputs, first_outputs, fan_in=fan_in)
        widths = [hidden] * (layers - 1) + [outputs]
        gains = [SILU_GAIN] * (layers - 2) + [last_gain]
        self.rest = nn.ModuleList(
            BranchLinear(branches, before, after, gain=gain)
            for before, after, gain in zip(widths[:-1], widths[1:], gains, strict=layers > 1)
        )
        self.norm = BranchLayerNorm(branches, outputs) if layer_norm else None

    def forward(
        self,
        *parts: Float[Tensor, "bn _"],
        from_nodes: FromNodes | None = None,
        residual: Float[Tensor, "bn out"] | None = None,
    ) -> Float[Tensor, "bn out"]:
        return self.after_first(self.first(*parts, from_nodes=from_nodes), residual)

    def after_first(
        self, x: Float[Tensor, "bn hidden"], residual: Float[Tensor, "bn out"] | None = None
    ) -> Float[Tensor, "bn out"]:
        """The rest of the network, where the caller has more to add to the first map's output."""
        for layer in self.rest:
            x = layer(x, activate=True)
        if self.norm is not None:
            return self.norm(x, residual)
        return x if residual is None else residual + x


def _widened(rows: Float[Tensor, "*n k"], columns: int) -> Float[Tensor, "*n wider"]:
    """With columns of zeros."""
    return functional.pad(rows, (0, columns)) if columns else rows


def _lengthened(weight: Float[Tensor, "b k out"], rows: int) -> Float[Tensor, "b longer out"]:
    """With rows for columns of zeros."""
    return functional.pad(weight, (0, 0, 0, rows)) if rows else weight
