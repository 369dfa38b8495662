"""Conjugate gradients for many problems at once, each with an operator of its own, preconditioned by the box.

Masks of one N x N box lie side by side. Residuals are extended by zeros, solved on the box, and restricted: symmetric and
positive, so conjugate gradients may have it as a preconditioner. Where kappa varies it stands between factors of
kappa^(-1/2), and where walls make the diagonal larger, of its root.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from beno.problems.operator import Elliptic
from beno.problems.problem import Problem
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report, Solution
from beno.problems.values import Rows, is_tensor
from beno.solvers.base import Prepared, Solver
from beno.solvers.device.box import sine_box
from beno.solvers.device.stencil import Equations, Stencil, as_tensors, wall_response
from beno.support.errors import BenoError

STEPS_BETWEEN_LOOKS = 5  # at the residuals, each of which waits for the device
MOST_CELLS_TOGETHER = {"cpu": 2**18, "cuda": 2**25}


@dataclass(frozen=True)
class ConjugateGradients(Solver):
    name: ClassVar[str] = "box-gradients"
    device: str = "cpu"
    tolerance: float = 1e-10
    most_steps: int = 2000

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
                solved |= dict(zip(some, self._solve_together([problems[index] for index in some]), strict=True))
        return [solved[index] for index in range(len(problems))]

    def _solve_together(self, problems: Sequence[Problem]) -> list[Solution]:
        device = torch.device(self.device)
        stencil = Stencil.of([problem.operator for problem in problems], device)
        vectors = torch.as_tensor(np.stack([_vector(problem) for problem in problems])).to(device)
        free = torch.as_tensor([problem.operator.leaves_constant_free for problem in problems], device=device)
        u, steps = iterate(stencil, vectors, free, self.tolerance, self.most_steps)
        pictures, report = u.cpu().numpy(), Report(self.name, steps)
        return [
            Solution(problem, problem.operator.without_constant(picture[problem.domain.mask]), report)
            for problem, picture in zip(problems, pictures, strict=True)
        ]


class PreparedGradients(Prepared):
    """One operator and any number of right-hand sides, iterated together."""

    def __init__(self, operator: Elliptic, settings: ConjugateGradients) -> None:
        self.operator, self.settings, self.report = operator, settings, Report(settings.name)
        self.device = torch.device(settings.device)
        self._equations = Equations(operator, self.device)
        self._stencil = Stencil.of([operator], self.device)

    def apply(self, right: RightHandSide) -> Rows:
        f, g = as_tensors(right, self.device, torch.float64)
        vectors = self._equations.vectors(f, g)
        free = torch.full((len(vectors),), self.operator.leaves_constant_free, device=self.device)
        pictures, steps = iterate(
            self._stencil, vectors, free, self.settings.tolerance, self.settings.most_steps
        )
        self.report = Report(self.settings.name, steps)
        u = self._equations.at_points(pictures).reshape(right.f.shape)
        return u.to(right.f.device, right.f.dtype) if is_tensor(right.f) else u.cpu().numpy()


def _vector(problem: Problem) -> Float[np.ndarray, "N N"]:
    domain = problem.domain
    at_walls = np.bincount(domain.panels.cell, wall_response(problem.operator) * problem.g, minlength=len(problem.f))
    picture = np.zeros(domain.mask.shape)
    picture[domain.mask] = at_walls - domain.spacing**2 * problem.f
    return picture


def iterate(
    stencil: Stencil,
    vectors: Float[Tensor, "k N N"],
    is_free: Tensor,
    tolerance: float,
    most_steps: int,
) -> tuple[Float[Tensor, "k N N"], int]:
    """Solutions whose residuals are within the tolerance of their right-hand sides, and how many steps they took."""
    inside = stencil.inside.to(vectors.dtype)
    box = sine_box(vectors.shape[-1], vectors.device, vectors.dtype)
    # Full weight where a row is the box's own; less where walls or kappa make it larger.
    scale = inside * torch.sqrt(4 / stencil.diagonal.where(stencil.inside, torch.ones_like(stencil.diagonal)))
    count = inside.flatten(1).sum(dim=1)

    def balanced(pictures: Tensor) -> Tensor:
        """Without the constant, where it is free."""
        mean = pictures.flatten(1).sum(dim=1) / count
        return pictures - (mean * is_free)[:, None, None] * inside

    def precondition(residual: Tensor) -> Tensor:
        return balanced(scale * box(scale * residual))

    vectors = balanced(vectors)
    enough = tolerance * vectors.flatten(1).norm(dim=1)
    u, residual = torch.zeros_like(vectors), vectors.clone()
    direction = precondition(residual)
    product = _dot(residual, direction)
    z = direction
    for step in range(1, most_steps + 1):
        image = stencil(direction) * inside
        # A problem that is solved has nothing left to divide by, and stays as it is.
        alpha = _ratio(product, _dot(direction, image))
        u += alpha * direction
        residual -= alpha * image
        if step % STEPS_BETWEEN_LOOKS == 0 and not bool((residual.flatten(1).norm(dim=1) > enough).any()):
            true_residual = balanced((vectors - stencil(u)) * inside)
            if not bool((true_residual.flatten(1).norm(dim=1) > enough).any()):
                return u, step
            residual = true_residual
        z = precondition(residual)
        before, product = product, _dot(residual, z)
        direction = z + _ratio(product, before) * direction
    missed = (residual.flatten(1).norm(dim=1) > enough).nonzero().flatten().tolist()
    if not missed:
        return u, most_steps
    raise BenoError(
        f"conjugate gradients have not met the tolerance of {tolerance:.1e} in {most_steps} steps for "
        f"{'problem' if len(missed) == 1 else 'problems'} {', '.join(map(str, missed[:5]))}"
        f"{' and others' if len(missed) > 5 else ''}; the direct solver has no such limit"
    )


def _dot(one: Float[Tensor, "k N N"], other: Float[Tensor, "k N N"]) -> Float[Tensor, "k 1 1"]:
    return (one * other).sum(dim=(1, 2), keepdim=True)


def _ratio(one: Tensor, other: Tensor) -> Tensor:
    return torch.where(other == 0, torch.zeros_like(one), one / torch.where(other == 0, torch.ones_like(other), other))
