"""A learned operator as the preconditioner of an iteration: the answer is exact, the weights decide how soon.

The assembled operator P is near the inverse of the scheme's matrix A, and linear. What is missing in a cell's equation,
r, is a source: ``A u = -h² f`` where g is zero, so ``P r`` is the operator's answer to ``f = -r / h², g = 0``.
P is not symmetric, and single precision is enough for it: flexible GMRES allows both. Models that are not linear are
no preconditioners.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from beno.learned.assembled import AssembledOperator, ScaledPotential
from beno.learned.operator import LearnedOperator
from beno.models.base import LinearModel
from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report
from beno.problems.values import Rows
from beno.solvers.base import Prepared, Solver
from beno.solvers.device.adjoint import solved
from beno.solvers.device.gmres import flexible_gmres
from beno.solvers.device.stencil import Equations, Stencil
from beno.support.errors import BenoError


@dataclass(frozen=True)
class Preconditioned(Solver):
    """Flexible GMRES with a learned operator, on its device, to a relative residual.

    Where kappa varies, the operator's potential comes from a factorisation of the box on the host. With
    ``scaled_potential`` it is made of sines and the root of kappa, all on the device: a few iterations more where kappa
    is smooth, and many where it is rough.
    """

    name: ClassVar[str] = "preconditioned"
    operator: LearnedOperator
    tolerance: float = 1e-10
    most_steps: int = 200
    scaled_potential: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.operator.model, LinearModel):
            raise BenoError(f"{self.operator.name} is not linear in f and g, so it cannot precondition an iteration")

    def prepare(self, operator: Elliptic) -> "PreparedIteration":
        return PreparedIteration(operator, self)


class PreparedIteration(Prepared):
    """The learned matrix of one operator, and any number of right-hand sides, iterated together."""

    def __init__(self, operator: Elliptic, settings: Preconditioned) -> None:
        self.operator, self.settings, self.report = operator, settings, Report(settings.name)
        nearby = settings.operator.prepare(operator)
        assert isinstance(nearby, AssembledOperator)
        if settings.scaled_potential and not operator.law.is_uniform:
            nearby.potential = ScaledPotential(operator, nearby.device, nearby.dtype)
        self._nearby, device = nearby, nearby.device
        self._equations, self._stencil = Equations(operator, device), Stencil.of([operator], device)
        self._no_values = torch.zeros(len(operator.domain.panels), dtype=torch.float64, device=device)

    def apply(self, right: RightHandSide) -> Rows:
        return solved(self._equations, right, self._solved)

    def _solved(self, vectors: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        limits = self.settings.tolerance, self.settings.most_steps
        u, steps = flexible_gmres(self._matrix, vectors, self._precondition, *limits)
        self.report = Report(self.settings.name, steps)
        return u

    def _matrix(self, u: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        return self._equations.at_points(self._stencil(self._equations.pictures(u)))

    def _precondition(self, residual: Float[Tensor, "k n"]) -> Float[Tensor, "k n"]:
        source = self._equations.without_mean(residual) / -self._equations.cell_area
        u = self._nearby.apply(RightHandSide(source, self._no_values.expand(len(source), -1)))
        assert isinstance(u, Tensor)
        return self._equations.without_mean(u)
