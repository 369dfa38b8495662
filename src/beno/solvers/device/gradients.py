"""Conjugate gradients for many problems, or many right-hand sides, at once, preconditioned by an exact inverse nearby.

Many operators lie side by side as masks of one N x N box: residuals are extended by zeros, solved on the box, and
restricted. One operator with many right-hand sides is preconditioned by the exact inverse of Poisson's equation on its
own domain, the capacitance matrix. Either is symmetric and positive, so conjugate gradients may have it. It stands
between factors of the diagonal's root, which is large where kappa is and at walls.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from beno.problems.law import Poisson
from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report, Solution
from beno.problems.values import Rows
from beno.solvers.base import Prepared, Solver, of_its_size
from beno.solvers.device.adjoint import solved
from beno.solvers.device.box import sine_box
from beno.solvers.device.capacitance import CapacitanceInverse
from beno.solvers.device.kernels_at_hand import fused_kernels
from beno.solvers.device.stencil import Equations, Stencil, ToleranceMissed, wall_response

STEPS_BETWEEN_LOOKS = 5  # at the residuals, each of which waits for the device
MOST_CELLS_TOGETHER = {"cpu": 2**18, "cuda": 2**25}


@dataclass(frozen=True)
class ConjugateGradients(Solver):
    name: ClassVar[str] = "box-gradients"
    device: str = "cpu"
    tolerance: float = 1e-10
    most_steps: int = 2000
    nearby: str = "box"  # or capacitance: the inverse that one operator with many right-hand sides is preconditioned by

    def prepare(self, operator: Elliptic) -> "PreparedGradients":
        return PreparedGradients(operator, self)

    def solve_many(self, problems: Sequence[Problem]) -> list[Solution]:
        """Problems of one box size side by side, those of several sizes one size after the other."""
        for problem in problems:
            problem.require_solvable()
        solved: dict[int, Solution] = {}
        sizes = np.array([problem.domain.resolution for problem in problems])
        for size in np.unique(sizes):
            chosen = np.flatnonzero(sizes == size)
            at_once = max(1, MOST_CELLS_TOGETHER[torch.device(self.device).type] // int(size) ** 2)
            for start in range(0, len(chosen), at_once):
                some = [int(index) for index in chosen[start : start + at_once]]
                try:
                    together = self._solve_together([problems[index] for index in some])
                except ToleranceMissed as error:  # which knows the rows of these alone
                    raise ToleranceMissed(error.method, [some[row] for row in error.rows], self.tolerance) from None
                solved |= dict(zip(some, together, strict=True))
        return [solved[index] for index in range(len(problems))]

    def _solve_together(self, problems: Sequence[Problem]) -> list[Solution]:
        device = torch.device(self.device)
        stencil = Stencil.of([problem.operator for problem in problems], device)
        scaled, exponents = zip(*(problem.right.of_size_one() for problem in problems), strict=True)
        of_each = (_vector(problem.operator, right) for problem, right in zip(problems, scaled, strict=True))
        vectors = torch.as_tensor(np.stack(list(of_each))).to(device)
        free = torch.as_tensor([problem.operator.leaves_constant_free for problem in problems], device=device)
        u, steps = iterate(stencil, vectors, free, self.tolerance, self.most_steps)
        pictures, report = u.cpu().numpy(), Report(self.name, steps)
        solutions = []
        for problem, picture, exponent in zip(problems, pictures, exponents, strict=True):
            u = problem.operator.without_constant(picture[problem.domain.mask])
            solutions.append(Solution(problem, of_its_size(u, exponent), report))
        return solutions


class PreparedGradients(Prepared):
    """One operator and any number of right-hand sides, iterated together."""

    def __init__(self, operator: Elliptic, settings: ConjugateGradients) -> None:
        self.operator, self.settings, self.report = operator, settings, Report(settings.name)
        self.device = torch.device(settings.device)
        self._equations = Equations(operator, self.device)
        self._stencil = Stencil.of([operator], self.device)
        self._nearby = self._capacitance() if settings.nearby == "capacitance" else None

    def _capacitance(self) -> "Nearby":
        """That of Poisson's equation on the same domain with the same walls."""
        poisson = Elliptic(self.operator.domain, Poisson(), self.operator.walls)
        on_gpu = self.device.type == "cuda" and fused_kernels() is not None
        inverse = CapacitanceInverse(poisson, self.device, torch.float32 if on_gpu else torch.float64)
        return Nearby(inverse, Stencil.of([poisson], self.device).diagonal)

    def apply(self, right: RightHandSide) -> Rows:
        return solved(self._equations, right, self._solved)

    def _solved(self, rows: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        free = torch.full((len(rows),), self.operator.leaves_constant_free, device=self.device)
        limits = self.settings.tolerance, self.settings.most_steps
        pictures, steps = iterate(self._stencil, self._equations.pictures(rows), free, *limits, self._nearby)
        self.report = Report(self.settings.name, steps)
        return self._equations.at_points(pictures)


def _vector(operator: Elliptic, right: RightHandSide) -> Float[np.ndarray, "N N"]:
    domain = operator.grid
    (f,), (g,) = right.rows()
    at_walls = np.bincount(domain.panels.cell, wall_response(operator) * g, minlength=len(f))
    picture = np.zeros(domain.mask.shape)
    picture[domain.mask] = at_walls - domain.spacing**2 * f
    return picture


@dataclass(frozen=True, eq=False)
class Nearby:
    """An operator whose inverse is known, and the diagonal of its matrix."""

    inverse: Callable[[Tensor], Tensor]
    diagonal: Float[Tensor, "b N N"] | float

    @classmethod
    def box(cls, vectors: Float[Tensor, "k N N"], dtype: torch.dtype) -> "Nearby":
        return cls(sine_box(vectors.shape[-1], vectors.device, dtype), 4.0)

    def scale(self, stencil: Stencil) -> Float[Tensor, "b N N"]:
        """What stands on either side of the inverse: 1 where the rows are alike, and 0 outside."""
        ones = torch.ones_like(stencil.diagonal)
        return stencil.inside * torch.sqrt(self.diagonal / torch.where(stencil.inside, stencil.diagonal, ones))


def iterate(
    stencil: Stencil,
    vectors: Float[Tensor, "k N N"],
    is_free: Bool[Tensor, " k"],
    tolerance: float,
    most_steps: int,
    nearby: Nearby | None = None,
) -> tuple[Float[Tensor, "k N N"], int]:
    """Solutions whose residuals are within the tolerance of their right-hand sides, and how many steps they took.

    On a GPU the steps are taken in single precision, on what is left of the residual in double precision each time.
    """
    constants = Constants(stencil, is_free)
    vectors = constants.taken_off(vectors)
    enough = tolerance * _norms(vectors)
    on_gpu = vectors.device.type == "cuda" and fused_kernels() is not None
    nearby = nearby or Nearby.box(vectors, torch.float32 if on_gpu else vectors.dtype)
    take = (FusedSteps if on_gpu else PlainSteps)(stencil, constants, nearby)
    u, residual, steps = torch.zeros_like(vectors), vectors, 0
    size = _norms(residual)
    while not bool((size <= enough).all()):  # nor where it is no number
        if steps >= most_steps:
            raise ToleranceMissed.unless(size <= enough, "conjugate gradients", tolerance)
        # Of size one, so that nothing is too large or too small for single precision.
        unit = torch.where(size > 0, size, torch.ones_like(size))[:, None, None]
        correction, taken = take(residual / unit, enough / unit.flatten(), most_steps - steps)
        u = u + unit * correction
        residual = constants.taken_off((vectors - stencil(u)) * stencil.inside)
        before, size, steps = size, _norms(residual), steps + taken
        if not bool((size <= enough).all()) and not bool((size < before / 2).any()):  # rounding is all that is left
            raise ToleranceMissed.unless(size <= enough, "conjugate gradients", tolerance)
    return u, steps


def _norms(pictures: Float[Tensor, "k N N"]) -> Float[Tensor, " k"]:
    return pictures.flatten(1).norm(dim=1)


class Constants:
    """What walls leave free, taken off."""

    def __init__(self, stencil: Stencil, is_free: Bool[Tensor, " k"]) -> None:
        self.any_free = bool(is_free.any())
        self._inside = stencil.inside
        self._share = is_free / stencil.inside.flatten(1).sum(dim=1)

    def taken_off(self, pictures: Float[Tensor, "k N N"]) -> Float[Tensor, "k N N"]:
        if not self.any_free:
            return pictures
        mean = pictures.flatten(1).sum(dim=1) * self._share
        return pictures - mean.to(pictures.dtype)[:, None, None] * self._inside


class PlainSteps:
    """Conjugate gradients in the precision of the residual, on any device."""

    def __init__(self, stencil: Stencil, constants: Constants, nearby: Nearby) -> None:
        self._stencil, self._constants = stencil, constants
        self._inverse, self._scale = nearby.inverse, nearby.scale(stencil)

    def __call__(
        self, residual: Float[Tensor, "k N N"], enough: Float[Tensor, " k"], most_steps: int
    ) -> tuple[Float[Tensor, "k N N"], int]:
        u, direction = torch.zeros_like(residual), self._precondition(residual)
        product, step = _dot(residual, direction), 0
        while step < most_steps:
            image = self._stencil(direction) * self._stencil.inside
            alpha = _ratio(product, _dot(direction, image))
            u = u + alpha * direction
            residual = residual - alpha * image
            step += 1
            if step % STEPS_BETWEEN_LOOKS == 0 and not bool((_norms(residual) > enough / 2).any()):
                break
            z = self._precondition(residual)
            before, product = product, _dot(residual, z)
            direction = z + _ratio(product, before) * direction
        return u, step

    def _precondition(self, residual: Float[Tensor, "k N N"]) -> Float[Tensor, "k N N"]:
        return self._constants.taken_off(self._scale * self._inverse(self._scale * residual))


class FusedSteps:
    """The same in single precision, by kernels that read and write every array once."""

    PRECISE = 1e-4  # the least that a residual in single precision is brought down to

    def __init__(self, stencil: Stencil, constants: Constants, nearby: Nearby) -> None:
        self._constants, self._inverse = constants, nearby.inverse
        self._stencil = tuple(one.float().contiguous() for one in (stencil.diagonal, stencil.east, stencil.north))
        self._scale = nearby.scale(stencil).float().contiguous()

    def __call__(
        self, residual: Float[Tensor, "k N N"], enough: Float[Tensor, " k"], most_steps: int
    ) -> tuple[Float[Tensor, "k N N"], int]:
        fused = fused_kernels()
        assert fused is not None
        left, scale = residual.float().contiguous(), self._scale
        kernels = fused.Kernels(*self._stencil, problems=len(left))
        u, image, scaled = torch.zeros_like(left), torch.empty_like(left), scale * left
        product, before, curvature, sizes = (kernels.parts() for _ in range(4))
        enough = torch.clamp(enough.float() / 2, min=self.PRECISE) ** 2
        with _tensor_cores():
            solved = self._solved(scaled)
            direction = scale * solved
            kernels.product(left, solved, scale, product)
            for step in range(1, most_steps + 1):
                kernels.image(direction, image, curvature)
                kernels.update(u, left, scaled, direction, image, scale, product, curvature, sizes)
                if step % STEPS_BETWEEN_LOOKS == 0 and not bool((sizes.sum(dim=1) > enough).any()):
                    break
                solved = self._solved(scaled)
                product, before = before, product
                kernels.product(left, solved, scale, product)
                kernels.turn(direction, solved, scale, product, before)
        return u.double(), step

    def _solved(self, scaled: Float[Tensor, "k N N"]) -> Float[Tensor, "k N N"]:
        solved = self._inverse(scaled)
        if not self._constants.any_free:
            return solved
        safe = torch.where(self._scale > 0, self._scale, torch.ones_like(self._scale))
        return self._constants.taken_off(self._scale * solved) / safe


@contextmanager
def _tensor_cores() -> Iterator[None]:
    """Products in TF32: for a preconditioner three digits are plenty."""
    before = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = True
    try:
        yield
    finally:
        torch.backends.cuda.matmul.allow_tf32 = before


def _dot(one: Float[Tensor, "k N N"], other: Float[Tensor, "k N N"]) -> Float[Tensor, "k 1 1"]:
    return (one * other).sum(dim=(1, 2), keepdim=True)


def _ratio(one: Float[Tensor, "k 1 1"], other: Float[Tensor, "k 1 1"]) -> Float[Tensor, "k 1 1"]:
    """A problem that is solved has nothing left to divide by, and stays as it is."""
    return torch.where(other == 0, torch.zeros_like(one), one / torch.where(other == 0, torch.ones_like(other), other))
