"""The capacitance matrix: exact where kappa is constant, or constant in pieces, without iteration.

The scheme on a domain, each row divided by its cell's kappa, differs from the five-point scheme on the whole box in Q
rows alone: those of cells beside the boundary, and beside a jump of kappa. With G the inverse on the box, sources s on
these cells make their equations hold::

    (I + K G) s = -K G r,      u = G (r + s)   in the domain,

where K is what the rows have more than the box's. Preparing takes a dense factorisation of a Q x Q matrix; a right-hand
side takes two box solves and two triangular ones.

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
from beno.problems.values import Rows
from beno.solvers.base import Prepared, Solver
from beno.solvers.box import filled
from beno.solvers.device.adjoint import solved
from beno.solvers.device.box import sine_box
from beno.solvers.device.kernels_at_hand import fused_kernels
from beno.solvers.device.memory import require_memory
from beno.solvers.device.stencil import Equations, Stencil, ToleranceMissed, wall_response
from beno.support.errors import BenoError

LARGEST = 6000  # rows; a dense factorisation of more costs more than it saves
ROUNDING = 1e-13  # by which rows may differ from the box's that are the same
NUMBERS_AT_ONCE = 2**27  # of the table that are gathered together


@dataclass(frozen=True)
class Capacitance(Solver):
    name: ClassVar[str] = "capacitance"
    device: str = "cpu"
    tolerance: float = 1e-10
    most_corrections: int = 3

    def prepare(self, operator: Elliptic) -> "CapacitanceMatrix":
        return CapacitanceMatrix(operator, self)


@dataclass(frozen=True, eq=False)
class Difference:
    """K: what the rows of the scheme, divided by kappa, have more than those of the box."""

    cells: Int[np.ndarray, " q"]  # whose rows differ, as cells of the box
    places: Int[np.ndarray, " m"]  # where the difference looks: these cells, and neighbours of theirs
    where: Int[np.ndarray, "q 5"]  # the cell itself and its neighbours, among the places
    weight: Float[np.ndarray, "q 5"]

    @classmethod
    def of(cls, operator: Elliptic) -> "Difference":
        domain, n = operator.grid, operator.grid.resolution
        rows, weight = _weights(operator)
        differs = (np.abs(weight) > ROUNDING).any(axis=1)
        differs[:1] |= not differs.any()  # one row at least, so that there is a matrix on the box itself
        cells, weight = (domain.cells[rows] @ (n, 1))[differs], weight[differs]
        if len(cells) > LARGEST:
            raise BenoError(f"{len(cells)} rows differ from the box's; the capacitance matrix takes {LARGEST} at most")
        looked_at = np.where(weight != 0, cells[:, None] + np.array([0, -n, n, -1, 1]), cells[:, None])
        places, where = np.unique(np.column_stack([cells, looked_at]), return_inverse=True)
        return cls(cells, places, where.reshape(len(cells), 6)[:, 1:], weight)


def differing_rows(operator: Elliptic) -> int:
    """How many rows the capacitance matrix of an operator has."""
    return int((np.abs(_weights(operator)[1]) > ROUNDING).any(axis=1).sum())


def _weights(operator: Elliptic) -> tuple[Int[np.ndarray, " r"], Float[np.ndarray, "r 5"]]:
    """For points whose rows may differ from the box's: by how much, on the diagonal and at each neighbour."""
    domain, panels, law = operator.grid, operator.grid.panels, operator.law
    near, kappa = domain.neighbours, law.at_points(domain)
    if law.is_uniform:  # no need to look at all cells
        rows = np.unique(panels.cell)
        rows = np.union1d(rows, [0]) if operator.leaves_constant_free else rows
        faces = (near[rows] >= 0).astype(float)
    else:
        rows, faces = np.arange(len(near)), law.on_faces(domain) / kappa[:, None]
    i, j = domain.cells[rows].T
    last = domain.resolution - 1
    at_side = np.stack([i == 0, i == last, j == 0, j == last], axis=1)
    diagonal = faces.sum(axis=1)
    response = wall_response(operator) * operator.walls.value_weight / kappa[panels.cell]
    np.add.at(diagonal, np.searchsorted(rows, panels.cell), response)
    reaction = law.reaction(domain)
    if reaction is not None:
        diagonal -= domain.spacing**2 * reaction[rows] / kappa[rows]
    if operator.leaves_constant_free:
        diagonal[0] += 1 / kappa[0]  # as in System.solvable_matrix
    return rows, np.column_stack([diagonal - 4 - at_side.sum(axis=1), np.where(at_side, 0.0, 1 - faces)])


def _numbers(difference: Difference, resolution: int) -> int:
    """The table of all shapes, the matrix and its factors, and what makes them."""
    table, rows, places = resolution**3, len(difference.cells), len(difference.places)
    return table + 3 * rows**2 + 2 * rows * places + 3 * min(NUMBERS_AT_ONCE, table * rows)


class CapacitanceInverse:
    """The inverse of the scheme's matrix, on pictures of the square that are zero outside the domain."""

    def __init__(self, operator: Elliptic, device: torch.device, dtype: torch.dtype = torch.float64) -> None:
        self.device, self._box = device, sine_box(operator.grid.resolution, device, dtype)
        difference = Difference.of(operator)
        what = f"the capacitance matrix of {len(difference.cells)} rows on {operator.grid.resolution}² cells"
        require_memory(dtype.itemsize * _numbers(difference, operator.grid.resolution), device, what)
        self._cells, self._places, self._where = (
            torch.as_tensor(one, device=device) for one in (difference.cells, difference.places, difference.where)
        )
        self._weight = torch.as_tensor(difference.weight, device=device, dtype=dtype)
        law, domain = operator.law, operator.grid
        over_kappa = filled(domain, 1 / law.at_points(domain))
        self._over_kappa = torch.as_tensor(over_kappa, device=device, dtype=dtype)
        matrix = self._differing(self._between(self._places, self._cells))
        matrix.diagonal().add_(1.0)
        # Rows of one size: those of a wall with a large alpha would drown the others.
        self._row_size = matrix.abs().amax(dim=1).clamp(min=1.0)
        self._factors = torch.linalg.lu_factor(matrix / self._row_size[:, None])

    def __len__(self) -> int:
        """How many rows differ from the box's."""
        return len(self._cells)

    def __call__(self, vectors: Float[Tensor, "k N N"]) -> Float[Tensor, "k N N"]:
        sources = vectors * self._over_kappa
        first = self._box(sources).flatten(1)[:, self._places]
        missing = -self._differing(first.T) / self._row_size[:, None]
        strength = torch.linalg.lu_solve(*self._factors, missing)
        sources = sources.flatten(1).index_add(1, self._cells, strength.T)
        return self._box(sources.view_as(vectors)) * (self._over_kappa > 0)

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


class CapacitanceMatrix(Prepared):
    """Right-hand sides may be arrays or tensors, one row or many; all of them are solved together."""

    def __init__(self, operator: Elliptic, settings: Capacitance) -> None:
        self.operator, self.settings, self.report = operator, settings, Report(settings.name)
        self.device = torch.device(settings.device)
        self.inverse = CapacitanceInverse(operator, self.device)
        self._equations = Equations(operator, self.device)
        self._stencil = Stencil.of([operator], self.device)

    def apply(self, right: RightHandSide) -> Rows:
        return solved(self._equations, right, self._solved)

    def _solved(self, rows: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        """Corrected by its residual until that is as small as asked for."""
        vectors = self._equations.pictures(rows)
        enough = self.settings.tolerance * vectors.flatten(1).norm(dim=1)
        u, passes = self.inverse(vectors), 1
        while not bool(((size := self._residual_size(u, vectors)) <= enough).all()):  # nor where it is no number
            if passes > self.settings.most_corrections:
                raise ToleranceMissed.unless(size <= enough, self.name, self.settings.tolerance)
            u = u + self.inverse((vectors - self._stencil(u)) * self._stencil.inside)
            passes += 1
        self.report = Report(self.settings.name, passes)
        return self._equations.at_points(u)

    @property
    def name(self) -> str:
        return self.settings.name

    def _residual_size(self, u: Float[Tensor, "k N N"], vectors: Float[Tensor, "k N N"]) -> Float[Tensor, " k"]:
        """In one pass over the arrays where there are kernels for it."""
        fused = fused_kernels() if self.device.type == "cuda" else None
        if fused is None:
            return ((vectors - self._stencil(u)) * self._stencil.inside).flatten(1).norm(dim=1)
        stencil = self._stencil
        return fused.Kernels(stencil.diagonal, stencil.east, stencil.north, len(u)).residual(u, vectors).sqrt()
