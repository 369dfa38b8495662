"""A linear model on one domain as a matrix: like a factorisation, made once for any number of right-hand sides."""

from dataclasses import fields
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from beno.batches.panels import PanelBatch, PanelInputs, acting_walls
from beno.geometry.grid import Domain
from beno.models.base import LinearModel
from beno.nn.box_potential import BoxPotential
from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report
from beno.problems.values import Rows, is_tensor
from beno.problems.walls import Kind
from beno.solvers.base import Prepared
from beno.solvers.box import box_of
from beno.solvers.device.adjoint import SelfAdjoint
from beno.solvers.device.box import sine_box
from beno.solvers.direct import Direct
from beno.solvers.potential import ReadOff, SourcePotential
from beno.support.errors import BenoError

Potentials = tuple[Tensor, Tensor, Tensor]  # v at the points, v at the panels, and its outward slope there


class AssembledOperator(Prepared):
    """``u = v + W (g - trace of v)``, with W held in single precision where the operator is.

    f and g may be arrays or tensors of any device; gradients of u in them are the matrix's own.
    """

    balance_tolerance = 1e-4  # relative to the flows involved, which may come in single precision

    def __init__(self, model: LinearModel, operator: Elliptic, half_precision: bool = False) -> None:
        self.operator, self.report = operator, Report(model.name)
        walls, device = acting_walls(operator.walls), next(model.parameters()).device
        self.dtype = torch.float32 if device.type == "cuda" else torch.float64
        batch = PanelBatch.of_one(PanelInputs.of_operator(operator), device)
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=half_precision):
            parts = [part[0].float() for part in model.kernel(batch)]
            no_points = torch.empty(0, len(walls), device=device)
            self.matrix: Float[Tensor, "n p"] = parts[0] if len(parts) == 1 else torch.cat([no_points, *parts])
        self._value_weight, self._slope_weight = self._tensor(walls.value_weight), self._tensor(walls.slope_weight)
        # A Robin wall's data are those of the value that it draws u to.
        self._unit = self._tensor(np.where(walls.kind == Kind.ROBIN, walls.alpha, 1.0))
        self.potential = self._potential_of(operator, device)

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def apply(self, right: RightHandSide) -> Rows:
        f, g = (torch.as_tensor(rows, dtype=self.dtype, device=self.device) for rows in (right.f, right.g))
        u = self._solved(f, g) if right.is_stack else self._solved(f[None], g[None])[0]
        if not bool(torch.isfinite(u).all()):
            raise BenoError("the operator's answer is not finite: f or g is too large for single precision")
        return u.to(right.f.device, right.f.dtype) if is_tensor(right.f) else u.cpu().numpy()

    def _solved(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"]) -> Float[Tensor, "k n"]:
        at_points, at_panels, slope = self.potential(f, g)
        trace = self._value_weight * at_panels + self._slope_weight * slope
        return at_points + ((g - trace) / self._unit).to(self.matrix.dtype) @ self.matrix.T

    def _potential_of(self, operator: Elliptic, device: torch.device) -> "Potential":
        if not isinstance(operator.domain, Domain):
            return NoPotential(len(operator.domain.points))
        if operator.law.is_uniform:
            return UniformPotential(operator, device, self.dtype)
        return FactorisedPotential(operator, device, self.dtype)

    def _tensor(self, values: np.ndarray) -> Tensor:
        return torch.as_tensor(values, dtype=self.dtype, device=self.device)


class NoPotential:
    """On bare panels nothing takes f away."""

    def __init__(self, points: int) -> None:
        self.points = points

    def __call__(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"]) -> Potentials:
        if bool(f.any()):
            raise BenoError("on bare panels there is no potential for f; it must be 0")
        return torch.zeros_like(f), torch.zeros_like(g), torch.zeros_like(g)


class UniformPotential:
    """By sines and cosines, where kappa is 1."""

    def __init__(self, operator: Elliptic, device: torch.device, dtype: torch.dtype) -> None:
        self._box = BoxPotential(operator.grid, acting_walls(operator.walls).kind, device, dtype)

    def __call__(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"]) -> Potentials:
        v = self._box(f, g)
        return v.at_points, v.at_panels, v.slope


class FactorisedPotential:
    """By a sparse factorisation of the box, on the host, where kappa varies; made when it is first needed."""

    def __init__(self, operator: Elliptic, device: torch.device, dtype: torch.dtype) -> None:
        self._operator, self._device, self.dtype = operator, device, dtype
        self._source: SourcePotential | None = None

    def __call__(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"]) -> Potentials:
        if not f.requires_grad and not bool(f.any()):
            return torch.zeros_like(f), torch.zeros_like(g), torch.zeros_like(g)
        if self._source is None:
            self._source = SourcePotential(self._operator, Direct())
            self._read_off = _as_tensors(self._source.read_off, torch.device("cpu"), torch.float64)
        box = self._source.box
        source = torch.zeros(len(f), len(box.operator.domain.points), dtype=torch.float64)
        source = source.index_copy(1, torch.as_tensor(self._read_off.points), f.cpu().double())
        parts = self._read_off(SelfAdjoint.apply(source, partial(_inverse, box)))
        at_points, at_panels, slope = (part.to(self._device, self.dtype) for part in parts)
        return at_points, at_panels, slope


class ScaledPotential:
    """Sines between factors of the root of 1 / kappa: a potential of f nearly where kappa is smooth, all on the device.

    Enough for a preconditioner, which need not be exact.
    """

    def __init__(self, operator: Elliptic, device: torch.device, dtype: torch.dtype) -> None:
        box = box_of(operator)
        self._read_off = _as_tensors(ReadOff.of(operator, box), device, dtype)
        root = 1 / np.sqrt(box.law.at_points(box.domain).reshape(operator.grid.mask.shape))
        self._root = torch.as_tensor(root, device=device, dtype=dtype)
        self._inverse, self._cell_area = sine_box(operator.grid.resolution, device, dtype), operator.grid.spacing**2

    def __call__(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"]) -> Potentials:
        source = f.new_zeros(len(f), self._root.numel()).index_copy(1, torch.as_tensor(self._read_off.points), f)
        v = self._root * self._inverse(self._root * source.view(-1, *self._root.shape)) * -self._cell_area
        at_points, at_panels, slope = self._read_off(v.flatten(1))
        return at_points, at_panels, slope


def _as_tensors(read_off: ReadOff, device: torch.device, dtype: torch.dtype) -> ReadOff:
    arrays = {field.name: np.asarray(getattr(read_off, field.name)) for field in fields(read_off)}
    is_index = {name: values.dtype.kind == "i" for name, values in arrays.items()}
    return ReadOff(
        **{
            name: torch.as_tensor(values, device=device, dtype=torch.int64 if is_index[name] else dtype)
            for name, values in arrays.items()
        }
    )


def _inverse(box: Prepared, source: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
    f = source.detach().numpy()
    return torch.as_tensor(box(RightHandSide(f, np.zeros((len(f), len(box.operator.domain.panels))))))


Potential = NoPotential | UniformPotential | FactorisedPotential | ScaledPotential
