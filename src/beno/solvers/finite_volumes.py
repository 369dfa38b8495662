"""Cell-centred finite volumes on the grid: the paper's scheme, and what all exact solvers here solve.

Integrating ``div(kappa grad u) + c u = f`` over a cell of side h gives, with kappa on a face as the law has it::

    sum over inner faces  kappa_face (u_near - u)
    + sum over panels       kappa_panel h slope   +   h^2 c u   =   h^2 f.

A wall says ``a u_wall + b slope = g`` half a cell away, where ``u_wall = u + slope h/2``. So
``slope = (g - a u) / (a h/2 + b)``, with a and b from `problems.walls`.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float
from scipy import sparse

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide

# Where a column lists its cell and each of the four neighbours, so that row indices ascend: -x, -y, itself, +y, +x.
_BESIDE, _ITSELF = [0, 4, 1, 3], 2


@dataclass(frozen=True, eq=False, repr=False)
class System:
    """The scheme as ``matrix @ u = vector(right)``, the matrix symmetric and, without c, positive."""

    operator: Elliptic
    matrix: sparse.csc_array
    wall_weight: Float[np.ndarray, " p"]  # what one unit of g adds to the equation of its cell

    def __repr__(self) -> str:
        return f"System({self.matrix.shape[0]} equations, {self.operator!r})"

    def vector(self, right: RightHandSide) -> Float[np.ndarray, "*k n"]:
        """The right-hand side of every cell's equation."""
        domain = self.operator.grid
        f, g = right.rows()
        at_walls = np.zeros_like(f)
        for row, values in zip(at_walls, self.wall_weight * g, strict=True):
            row += np.bincount(domain.panels.cell, values, minlength=len(row))
        return (at_walls - domain.spacing**2 * f).reshape(right.f.shape)

    def residual(self, right: RightHandSide, u: Float[np.ndarray, "*k n"]) -> Float[np.ndarray, "*k n"]:
        """What is missing in each cell's equation, in the units of u."""
        return self.vector(right) - (self.matrix @ u.T).T

    @cached_property
    def solvable_matrix(self) -> sparse.csc_array:
        """The matrix, made regular where a constant is free.

        One added to the first diagonal entry changes no solution of a balanced problem except for
        its constant: summed over all rows the equations then say u[0] = 0.
        """
        if not self.operator.leaves_constant_free:
            return self.matrix
        pinned = self.matrix.copy()
        pinned.data[0] += 1.0  # itself is the first entry of the first column
        return pinned


def assemble(operator: Elliptic) -> System:
    """The equations of all cells of an operator's domain."""
    domain, walls = operator.grid, operator.walls
    panels, near, h = domain.panels, domain.neighbours, domain.spacing

    conductance = operator.law.on_faces(domain)
    response = operator.law.at_panels(domain) * h * walls.response(h / 2)
    diagonal = conductance @ np.ones(4) + np.bincount(panels.cell, response * walls.value_weight, minlength=len(near))
    reaction = operator.law.reaction(domain)
    if reaction is not None:
        diagonal = diagonal - h**2 * reaction

    rows = np.empty((len(near), 5), dtype=near.dtype)
    rows[:, _BESIDE], rows[:, _ITSELF] = near, np.arange(len(near))
    values = np.empty((len(near), 5))
    values[:, _BESIDE], values[:, _ITSELF] = -conductance, diagonal
    present = rows >= 0
    column_start = np.zeros(len(near) + 1, dtype=rows.dtype)
    column_start[1:] = np.cumsum(present.ravel(), dtype=rows.dtype)[4::5]
    # Filled in by hand: the constructor's checks of what is sound would take as long as all of the above.
    matrix = sparse.csc_array((len(near), len(near)))
    matrix.data, matrix.indices, matrix.indptr = values[present], rows[present], column_start
    return System(operator, matrix, response)
