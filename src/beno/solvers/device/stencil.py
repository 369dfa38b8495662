"""The scheme's matrix as a stencil on pictures of the square, for one operator or for many side by side."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.values import Rows, is_tensor
from beno.solvers.box import filled
from beno.support.errors import BenoError


@dataclass(eq=False)
class Stencil:
    """``diagonal u - sum of conductances to the neighbours``, zero outside the domains; in units of `System.matrix`."""

    diagonal: Float[Tensor, "b N N"]
    east: Float[Tensor, "b N N"]  # to the neighbour at greater x; nothing leaves the square
    north: Float[Tensor, "b N N"]
    inside: Bool[Tensor, "b N N"]

    @classmethod
    def of(cls, operators: Sequence[Elliptic], device: torch.device, dtype: torch.dtype = torch.float64) -> "Stencil":
        """From masks alone where kappa is constant, which is quick on the device; else from the scheme's own faces."""
        masks = torch.as_tensor(np.stack([operator.grid.mask for operator in operators])).to(device)
        if all(operator.law.is_uniform for operator in operators):
            inside = masks.to(dtype)
            east, north = torch.zeros_like(inside), torch.zeros_like(inside)
            east[:, :-1] = inside[:, :-1] * inside[:, 1:]
            north[:, :, :-1] = inside[:, :, :-1] * inside[:, :, 1:]
        else:
            faces = [filled(operator.grid, operator.law.on_faces(operator.grid)[:, [1, 3]].T) for operator in operators]
            east, north = torch.as_tensor(np.stack(faces, axis=1), dtype=dtype).to(device)
        diagonal = east + north
        diagonal[:, 1:] += east[:, :-1]
        diagonal[:, :, 1:] += north[:, :, :-1]
        cells, weights = (torch.as_tensor(np.concatenate(one)).to(device) for one in _at_walls(operators))
        diagonal.view(-1).index_add_(0, cells, weights.to(dtype))
        return cls(diagonal, east, north, masks)

    def __call__(self, u: Float[Tensor, "b N N"]) -> Float[Tensor, "b N N"]:
        out = self.diagonal * u
        out[..., :-1, :] -= self.east[..., :-1, :] * u[..., 1:, :]
        out[..., 1:, :] -= self.east[..., :-1, :] * u[..., :-1, :]
        out[..., :, :-1] -= self.north[..., :, :-1] * u[..., :, 1:]
        out[..., :, 1:] -= self.north[..., :, :-1] * u[..., :, :-1]
        return out


def _at_walls(operators: Sequence[Elliptic]) -> tuple[list[np.ndarray], list[np.ndarray]]:
    """What walls, and a reaction, add to the diagonal, and in which cells of all pictures on end."""
    cells, weights = [], []
    for number, operator in enumerate(operators):
        domain, reaction = operator.grid, operator.law.reaction(operator.domain)
        n = domain.resolution
        index = domain.cells @ (n, 1) + number * n * n
        cells.append(index[domain.panels.cell])
        weights.append(wall_response(operator) * operator.walls.value_weight)
        if reaction is not None:
            cells.append(index)
            weights.append(-(domain.spacing**2) * reaction)
    return cells, weights


def wall_response(operator: Elliptic) -> Float[np.ndarray, " p"]:
    """What one unit of g adds to the equation of its cell."""
    domain = operator.grid
    return operator.law.at_panels(domain) * domain.spacing * operator.walls.response(domain.spacing / 2)


class Equations:
    """From right-hand sides of one operator to those of its cells' equations; rows at the points, or pictures."""

    def __init__(self, operator: Elliptic, device: torch.device, dtype: torch.dtype = torch.float64) -> None:
        domain = operator.grid
        n = domain.resolution
        self.device, self.dtype, self.leave_constant_free = device, dtype, operator.leaves_constant_free
        self.shape, self.cell_area = (n, n), domain.spacing**2
        self._points = torch.as_tensor(domain.cells @ (n, 1), device=device)
        self._cells = torch.as_tensor(domain.panels.cell, dtype=torch.int64, device=device)
        self._response = torch.as_tensor(wall_response(operator), device=device, dtype=dtype)

    def vectors(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"]) -> Float[Tensor, "k n"]:
        return (-self.cell_area * f).index_add(1, self._cells, self._response * g)

    def pictures(self, rows: Float[Tensor, "k n"]) -> Float[Tensor, "k N N"]:
        """Zero outside the domain."""
        flat = rows.new_zeros(len(rows), self.shape[0] * self.shape[1])
        return flat.index_copy_(1, self._points, rows).view(-1, *self.shape)

    def at_points(self, pictures: Float[Tensor, "k N N"]) -> Float[Tensor, "k n"]:
        return pictures.flatten(1)[:, self._points]

    def without_mean(self, rows: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        """The constant that walls leave free, taken off."""
        return rows - rows.mean(dim=1, keepdim=True) if self.leave_constant_free else rows


def as_tensors(right: RightHandSide, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """As stacks of rows."""
    f, g = (torch.as_tensor(rows).to(device, dtype) for rows in (right.f, right.g))
    return f.reshape(-1, f.shape[-1]), g.reshape(-1, g.shape[-1])


def as_given(u: Float[Tensor, "k n"], right: RightHandSide) -> Rows:
    """In the form that the right-hand side has: one row or a stack, array or tensor, on its device."""
    u = u.reshape(right.f.shape)
    return u.to(right.f.device, right.f.dtype) if is_tensor(right.f) else u.cpu().numpy()


class ToleranceMissed(BenoError):
    """Right-hand sides, or problems, whose residuals are larger than asked for."""

    def __init__(self, method: str, rows: list[int], tolerance: float) -> None:
        self.method, self.rows, self.tolerance = method, rows, tolerance
        named = ", ".join(map(str, rows[:5])) + (" and others" if len(rows) > 5 else "")
        super().__init__(
            f"{method} has not met the tolerance of {tolerance:.1e} for {'row' if len(rows) == 1 else 'rows'} {named}; "
            "the direct solver is as exact as double precision can be"
        )

    @classmethod
    def unless(cls, is_met: Bool[Tensor, " k"], method: str, tolerance: float) -> "ToleranceMissed":
        return cls(method, (~is_met).nonzero().flatten().tolist(), tolerance)

    def __reduce__(self) -> tuple[type["ToleranceMissed"], tuple[str, list[int], float]]:
        return type(self), (self.method, self.rows, self.tolerance)  # so that it comes back from another process
