"""Flexible GMRES for many right-hand sides of one matrix at once.

GMRES takes the combination of all directions so far that leaves the smallest residual. The flexible kind keeps the
preconditioned directions z beside the orthonormal basis v, so that the preconditioner need be neither symmetric nor
precise, nor even the same map each time::

    A [z_1 .. z_m] = [v_1 .. v_m+1] H,      u = sum of y_j z_j,      y minimises |size e_1 - H y|.

Every right-hand side has a basis and a Hessenberg matrix H of its own; the matrix and the preconditioner are applied to
all of them together. H is small and lives on the host.

Y. Saad, A flexible inner-outer preconditioned GMRES algorithm, SIAM J. Sci. Comput. 14 (1993), doi:10.1137/0914028.
"""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from beno.solvers.device.stencil import ToleranceMissed

RESTART = 30
STALLED = 0.99  # where a cycle leaves more than this of every residual that is too large, rounding is all that is left

Map = Callable[[Tensor], Tensor]  # of rows to rows


def flexible_gmres(
    matrix: Map,
    vectors: Float[Tensor, "k n"],
    precondition: Map,
    tolerance: float,
    most_steps: int = 200,
    restart: int = RESTART,
) -> tuple[Float[Tensor, "k n"], int]:
    """Solutions whose residuals are within the tolerance of their right-hand sides, and the steps of the slowest.

    A singular matrix will do where the right-hand sides lie in its range.
    """
    enough = tolerance * vectors.norm(dim=1)
    u, residual, steps = torch.zeros_like(vectors), vectors, 0
    size = residual.norm(dim=1)
    while not bool((size <= enough).all()):  # nor where it is no number
        if steps >= most_steps:
            raise ToleranceMissed.unless(size <= enough, "GMRES", tolerance)
        correction, taken = _cycle(matrix, residual, precondition, enough, min(restart, most_steps - steps))
        u = u + correction
        residual = vectors - matrix(u)
        before, size, steps = size, residual.norm(dim=1), steps + taken
        if not bool(((size <= enough) | (size < STALLED * before)).all()):
            raise ToleranceMissed.unless(size <= enough, "GMRES", tolerance)
    return u, steps


def _cycle(
    matrix: Map, residual: Float[Tensor, "k n"], precondition: Map, enough: Float[Tensor, " k"], most_steps: int
) -> tuple[Float[Tensor, "k n"], int]:
    """What to add to the solutions after so many steps, or sooner if all residuals are small enough."""
    size = residual.norm(dim=1)
    problems = LeastSquares(size.cpu(), most_steps)
    unit = torch.where(size > enough, size, torch.inf)  # a row that has arrived goes on as zeros, which change nothing
    basis = residual.new_empty(len(residual), most_steps + 1, residual.shape[1])
    directions = residual.new_empty(len(residual), most_steps, residual.shape[1])
    basis[:, 0] = residual / unit[:, None]
    for step in range(most_steps):
        directions[:, step] = precondition(basis[:, step])
        image = matrix(directions[:, step])
        image, column = _orthogonal(image, basis[:, : step + 1])
        length = image.norm(dim=1)
        left = problems.add(torch.cat([column, length[:, None]], dim=1).cpu()).to(enough)
        if not bool((left > enough).any()):
            break
        is_done = (left <= enough) | (length == 0)
        basis[:, step + 1] = image / torch.where(is_done, torch.inf, length)[:, None]
    weights = problems.solution().to(residual)
    return (weights[:, None] @ directions[:, : step + 1]).squeeze(1), step + 1


def _orthogonal(
    image: Float[Tensor, "k n"], basis: Float[Tensor, "k m n"]
) -> tuple[Float[Tensor, "k n"], Float[Tensor, "k m"]]:
    """What of an image is at right angles to the basis, and its components along it.

    Twice is enough for that to hold to rounding (L. Giraud et al., Numer. Math. 101 (2005),
    doi:10.1007/s00211-005-0615-4).
    """
    column = torch.zeros_like(basis[:, :, 0])
    for _ in range(2):
        along = (basis @ image[:, :, None]).squeeze(2)
        image = image - (along[:, None] @ basis).squeeze(1)
        column = column + along
    return image, column


class LeastSquares:
    """Minimises ``|size e_1 - H y|`` for every row, H given column by column; by rotations, which make H triangular."""

    def __init__(self, size: Float[Tensor, " k"], most_columns: int) -> None:
        self._triangle = size.new_zeros(len(size), most_columns, most_columns)
        self._right = size.new_zeros(len(size), most_columns + 1)
        self._right[:, 0] = size
        self._rotations: list[tuple[Tensor, Tensor]] = []

    def add(self, column: Float[Tensor, "k m"]) -> Float[Tensor, " k"]:
        """The next column of H down to below its diagonal; how small the minimum is then."""
        number = len(self._rotations)
        entries = list(column.unbind(dim=1))
        for row, (cosine, sine) in enumerate(self._rotations):
            above, below = entries[row], entries[row + 1]
            entries[row], entries[row + 1] = cosine * above + sine * below, cosine * below - sine * above
        length = torch.hypot(entries[number], entries[number + 1])
        safe = torch.where(length > 0, length, 1.0)
        cosine = torch.where(length > 0, entries[number] / safe, 1.0)
        sine = entries[number + 1] / safe
        entries[number] = length
        self._rotations.append((cosine, sine))
        self._triangle[:, : number + 1, number] = torch.stack(entries[: number + 1], dim=1)
        self._right[:, number + 1] = -sine * self._right[:, number]
        self._right[:, number] *= cosine
        return self._right[:, number + 1].abs()

    def solution(self) -> Float[Tensor, "k m"]:
        """y; zero for directions that were zero."""
        columns = len(self._rotations)
        triangle, right = self._triangle[:, :columns, :columns], self._right[:, :columns, None]
        diagonal = triangle.diagonal(dim1=1, dim2=2)
        is_empty = diagonal == 0
        safe = triangle + torch.diag_embed(is_empty.to(triangle))
        return torch.linalg.solve_triangular(safe, torch.where(is_empty[..., None], 0.0, right), upper=True).squeeze(2)
