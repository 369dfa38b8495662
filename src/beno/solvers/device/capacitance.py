"""The capacitance matrix: exact for a constant coefficient, whatever the shape and the walls, without iteration.

The scheme on a domain differs from the five-point scheme on the whole box in the rows of the Q cells beside the
boundary alone. With G the inverse on the box, sources s on these cells make their equations hold::

    (I + K G) s = -K G r,      u = G (r + s)   in the domain,

where K has what the rows differ by: E on the diagonal, and 1 for every neighbour that lies outside. Preparing takes a
dense factorisation of a Q x Q matrix; a right-hand side takes two box solves and two triangular ones.

B. L. Buzbee, F. W. Dorr, J. A. George, G. H. Golub, SIAM J. Numer. Anal. 8 (1971), doi:10.1137/0708066.
W. Proskurowski, O. Widlund, Math. Comp. 30 (1976), doi:10.1090/S0025-5718-1976-0421102-4.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report
from beno.problems.values import Rows, is_tensor
from beno.solvers.base import Prepared, Solver
from beno.solvers.device.box import sine_box
from beno.solvers.device.kernels_at_hand import fused_kernels
from beno.solvers.device.stencil import Equations, Stencil, as_tensors, wall_response
from beno.support.errors import BenoError

LARGEST = 6000  # cells beside the boundary; a dense factorisation of more costs more than it saves
NUMBERS_AT_ONCE = 2**27  # of the table that are gathered together


@dataclass(frozen=True)
class Capacitance(Solver):
    name: ClassVar[str] = "capacitance"
    device: str = "cpu"
    tolerance: float = 1e-10
    most_corrections: int = 3

    def prepare(self, operator: Elliptic) -> "CapacitanceMatrix":
        if not operator.law.is_uniform:
            raise BenoError(f"the capacitance matrix is for constant coefficients, not for {operator.law.name}")
        return CapacitanceMatrix(operator, self)


@dataclass(frozen=True, eq=False)
class Difference:
    """K: what the rows of the scheme on a domain have more than those of the box."""

    cells: Int[np.ndarray, " q"]  # whose rows differ, as cells of the box
    places: Int[np.ndarray, " m"]  # where the difference looks: these cells, and those beyond the boundary
    where: Int[np.ndarray, "q 5"]  # the cell itself and its neighbours, among the places
    weight: Float[np.ndarray, "q 5"]  # zero at neighbours that are not beyond the boundary

    @classmethod
    def of(cls, operator: Elliptic) -> "Difference":
        domain, panels, n = operator.grid, operator.grid.panels, operator.grid.resolution
        beside = np.unique(panels.cell)  # all other rows are the box's own
        if operator.leaves_constant_free:
            beside = np.union1d(beside, [0])
        i, j = domain.cells[beside].T
        at_side = np.stack([i == 0, i == n - 1, j == 0, j == n - 1], axis=1)
        is_wall = domain.neighbours[beside] < 0
        walls = np.zeros(len(beside))
        np.add.at(walls, np.searchsorted(beside, panels.cell), wall_response(operator) * operator.walls.value_weight)
        more = walls - is_wall.sum(axis=1) - at_side.sum(axis=1)
        if operator.leaves_constant_free:
            more[0] += 1  # as in System.solvable_matrix
        is_beyond = is_wall & ~at_side
        differs = (np.abs(more) > 0) | is_beyond.any(axis=1)
        cells, weight = (domain.cells[beside] @ (n, 1))[differs], np.column_stack([more, is_beyond])[differs]
        looked_at = np.where(weight != 0, cells[:, None] + np.array([0, -n, n, -1, 1]), cells[:, None])
        places, where = np.unique(np.column_stack([cells, looked_at]), return_inverse=True)
        return cls(cells, places, where.reshape(len(cells), 6)[:, 1:], weight)


class CapacitanceMatrix(Prepared):
    """Right-hand sides may be arrays or tensors, one row or many; all of them are solved together."""

    def __init__(self, operator: Elliptic, settings: Capacitance) -> None:
        self.operator, self.settings, self.report = operator, settings, Report(settings.name)
        self.device = torch.device(settings.device)
        self._box = sine_box(operator.grid.resolution, self.device)
        self._equations = Equations(operator, self.device)
        self._stencil = Stencil.of([operator], self.device)
        difference = Difference.of(operator)
        count = len(difference.cells)
        if count > LARGEST:
            raise BenoError(f"{count} cells lie beside the boundary; the capacitance matrix takes {LARGEST} at most")
        self._cells, self._places = (
            torch.as_tensor(one, device=self.device) for one in (difference.cells, difference.places)
        )
        self._where = torch.as_tensor(difference.where, device=self.device)
        self._weight = torch.as_tensor(difference.weight, device=self.device)
        matrix = self._differing(self._between(self._places, self._cells))
        matrix.diagonal().add_(1.0)
        # Rows of one size: those of a wall with a large alpha would drown the others.
        self._row_size = matrix.abs().amax(dim=1).clamp(min=1.0)
        self._factors = torch.linalg.lu_factor(matrix / self._row_size[:, None])

    def apply(self, right: RightHandSide) -> Rows:
        f, g = as_tensors(right, self.device, self._box.dtype)
        vectors = self._equations.vectors(f, g)
        if self.operator.leaves_constant_free:
            at_points = self._equations.at_points(vectors)
            vectors = vectors - (at_points.mean(dim=1)[:, None, None]) * self._stencil.inside
        u = self._equations.at_points(self._solved(vectors)).reshape(right.f.shape)
        return u.to(right.f.device, right.f.dtype) if is_tensor(right.f) else u.cpu().numpy()

    def _solved(self, vectors: Float[Tensor, "k N N"]) -> Float[Tensor, "k N N"]:
        """Corrected by its residual until that is as small as asked for."""
        size = vectors.flatten(1).norm(dim=1)
        u, passes = self._inverse(vectors), 1
        while True:
            off = self._residual_size(u, vectors) > self.settings.tolerance * size
            if not bool(off.any()):
                break
            residual = (vectors - self._stencil(u)) * self._stencil.inside
            if passes > self.settings.most_corrections:
                rows = off.nonzero().flatten().tolist()
                worst = float((residual.flatten(1).norm(dim=1) / size).max())
                raise BenoError(
                    f"row{'s' * (len(rows) > 1)} {', '.join(map(str, rows[:5]))}: the residual is {worst:.1e} of the "
                    f"right-hand side, where {self.settings.tolerance:.1e} is asked for"
                )
            u, passes = u + self._inverse(residual), passes + 1
        self.report = Report(self.settings.name, passes)
        return u

    def _residual_size(self, u: Float[Tensor, "k N N"], vectors: Float[Tensor, "k N N"]) -> Float[Tensor, " k"]:
        """In one pass over the arrays where there are kernels for it."""
        fused = fused_kernels() if self.device.type == "cuda" else None
        if fused is None:
            return ((vectors - self._stencil(u)) * self._stencil.inside).flatten(1).norm(dim=1)
        stencil = self._stencil
        return fused.Kernels(stencil.diagonal, stencil.east, stencil.north, len(u)).residual(u, vectors).sqrt()

    def _inverse(self, vectors: Float[Tensor, "k N N"]) -> Float[Tensor, "k N N"]:
        first = self._box(vectors).flatten(1)[:, self._places]
        missing = -self._differing(first.T) / self._row_size[:, None]
        sigma = torch.linalg.lu_solve(*self._factors, missing)
        sources = vectors.flatten(1).index_add(1, self._cells, sigma.T)
        return self._box(sources.view_as(vectors)) * self._stencil.inside

    def _differing(self, values: Float[Tensor, "m k"]) -> Float[Tensor, "q k"]:
        """K times what there is at the places."""
        total = self._weight[:, :1] * values[self._where[:, 0]]
        for number in range(1, self._where.shape[1]):
            total += self._weight[:, number, None] * values[self._where[:, number]]
        return total

    def _between(self, places: Int[Tensor, " m"], cells: Int[Tensor, " q"]) -> Float[Tensor, "m q"]:
        """G between places and cells of the box, from the table of all shapes: a sum over the waves across.

        Places in one column of cells share what the table has for that column, so they are taken together.
        """
        n, waves, table = self._box.resolution, self._box.waves, self._box.table
        column, wave = cells // n, waves[:, cells % n].T
        order = torch.argsort(places // n, stable=True)
        count = torch.bincount(places // n, minlength=n)
        most = int(count.max())
        # Each column's places, and for the rest of the row the first of all.
        start = torch.cumsum(count, 0) - count
        number = torch.arange(most, device=self.device)
        is_there = number < count[:, None]
        which = torch.where(is_there, order[(start[:, None] + number).clamp(max=len(order) - 1)], order[0])
        found = torch.empty(len(places), len(cells), device=self.device, dtype=self._box.dtype)
        at_once = max(1, NUMBERS_AT_ONCE // (len(cells) * (n + most)))
        for some in torch.arange(n, device=self.device).split(at_once):
            at_column = table[some][:, column] * wave
            at_places = waves[:, places[which[some]] % n].permute(1, 2, 0)
            values = at_places @ at_column.transpose(1, 2)
            found[which[some][is_there[some]]] = values[is_there[some]]
        return found
