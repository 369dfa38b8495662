"""A trained model as a solver: from a problem to its solution, or from many problems to predictions."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from beno.batches.base import Batch, Batches
from beno.geometry.base import Geometry
from beno.geometry.grid import Domain
from beno.learned.assembled import AssembledOperator
from beno.learned.checkpoints import Header, load_model
from beno.models.base import LinearModel, Model
from beno.problems.families import ProblemClass
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.problem import Problem
from beno.problems.right_hand_side import RightHandSide
from beno.problems.solution import Report, Solution
from beno.problems.values import FieldLike, Rows, is_tensor
from beno.problems.walls import Kind
from beno.solvers.base import Prepared, Solver, of_its_size
from beno.support.errors import BenoError

BEST = "best.safetensors"
NOT_FINITE = "the operator's answer is not finite: f or g is too large for single precision"


class LearnedOperator(Solver):
    """A trained model and the header of its checkpoint, as a solver."""

    def __init__(self, header: Header, model: Model, device: torch.device | str = "cpu") -> None:
        self.header, self.device = header, torch.device(device)
        self.model = model.to(self.device).eval()

    @classmethod
    def load(cls, path: Path | str, device: torch.device | str = "cpu") -> "LearnedOperator":
        """From a checkpoint, or from the folder of a training run, whose best weights are taken."""
        path = Path(path)
        if path.is_dir():
            if not (path / BEST).exists():
                raise BenoError(f"{path} has no trained weights: {BEST} is missing")
            path = path / BEST
        return cls(*load_model(path), device)

    def __repr__(self) -> str:
        trained = self.header.data
        return f"LearnedOperator({self.name}, trained for {trained.equation} with {self.problem_class.walls})"

    @property
    def name(self) -> str:
        return self.header.model

    @property
    def problem_class(self) -> ProblemClass:
        """The problems that it was trained for."""
        return self.header.data.problem_class

    def require_trained_for(self, problems: ProblemClass, what: str) -> None:
        """Refuse problems of another law, or with kinds of walls that the weights have not seen."""
        if lacking := self.problem_class.lacks(problems):
            raise BenoError(f"{what}: this {self.name} was trained {lacking}")

    def prepare(self, operator: Elliptic) -> Prepared:
        """One that is linear becomes a matrix; any other is fed with the problems one by one."""
        self.require_trained_for(ProblemClass.of(operator), "the problem")
        if isinstance(self.model, LinearModel):
            return AssembledOperator(self.model, operator, half_precision=self.device.type == "cuda")
        return PreparedNetwork(self, operator)

    def assemble(
        self,
        domain: Geometry,
        kind: Kind | np.ndarray = Kind.DIRICHLET,
        alpha: FieldLike = 0.0,
        kappa: FieldLike | None = None,
        kappa_at_panels: np.ndarray | None = None,
    ) -> AssembledOperator:
        """A linear model on one domain as a matrix, for any number of right-hand sides.

        On bare panels the equation is Laplace's, and some walls must be Dirichlet's.
        """
        if not isinstance(self.model, LinearModel):
            raise BenoError(f"{self.name} is not linear in f and g and has no matrix; a harmonic operator has")
        if not isinstance(domain, Geometry):
            raise BenoError(f"a {type(domain).__name__} is no domain to assemble on; a Domain or BarePanels is needed")
        if kappa is None:
            operator = poisson_operator(domain, kind, alpha)
        elif isinstance(domain, Domain):
            operator = darcy_operator(domain, kappa, kind, alpha, kappa_at_panels)
        else:
            raise BenoError("on bare panels there is no coefficient; the equation is Laplace's")
        prepared = self.prepare(operator)
        assert isinstance(prepared, AssembledOperator)
        return prepared

    def solve(self, problem: Problem) -> Solution:
        """The same call as every solver's."""
        return self.solve_many([problem])[0]

    def solve_many(self, problems: Sequence[Problem], batch_size: int = 50) -> list[Solution]:
        """Many problems, on any domains, in batches."""
        for problem in problems:
            problem.require_solvable()
            self.require_trained_for(ProblemClass.of(problem.operator), "the problem")
        report = Report(self.name)
        if not isinstance(self.model, LinearModel) or not problems:
            predicted = self.predict(problems, batch_size)
            return [Solution(problem, u, report) for problem, u in zip(problems, predicted, strict=True)]
        # What is too large or too small for single precision need not be.
        scaled, exponents = zip(*(problem.right.of_size_one() for problem in problems), strict=True)
        posed = [Problem(problem.operator, right) for problem, right in zip(problems, scaled, strict=True)]
        predicted = self.predict(posed, batch_size)
        return [
            Solution(problem, of_its_size(u, exponent), report)
            for problem, u, exponent in zip(problems, predicted, exponents, strict=True)
        ]

    def predict(self, problems: Sequence[Problem], batch_size: int = 50) -> list[Float[np.ndarray, " _"]]:
        """u for each problem, whatever the weights were trained for."""
        return [branches.sum(axis=0) for branches in self.predict_branches(problems, batch_size)]

    @torch.no_grad()
    def predict_branches(self, problems: Sequence[Problem], batch_size: int = 50) -> list[Float[np.ndarray, "b _"]]:
        """What each branch of the model adds to u."""
        predicted: list[np.ndarray] = []
        scales = self.header.scales
        for start in range(0, len(problems), batch_size):
            some = problems[start : start + batch_size]
            batches = self.model.batches(some, scales, self.model.config, self.device)
            at_once = batches.worked_on_together(len(some))
            for first in range(0, len(some), at_once):
                batch = batches.batch(range(first, min(first + at_once, len(some))))
                values = self.run(batch).float() * scales.solution
                if not bool(torch.isfinite(values).all()):
                    raise BenoError(NOT_FINITE)
                predicted += [part.cpu().double().numpy() for part in batch.split(values)]
        return predicted

    def run(self, batch: Batch) -> Tensor:
        """The model on a batch, in half precision on a GPU."""
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.model.branches(batch)


class PreparedNetwork(Prepared):
    """A model that is not linear: every right-hand side is fed to it with the operator.

    Tensors come back as tensors, and gradients pass through them.
    """

    balance_tolerance = 1e-4
    is_linear = False

    def __init__(self, solver: LearnedOperator, operator: Elliptic) -> None:
        self.solver, self.operator, self.report = solver, operator, Report(solver.name)

    def apply(self, right: RightHandSide) -> Rows:
        if not is_tensor(right.f):
            problems = [Problem(self.operator, RightHandSide(f, g)) for f, g in zip(*right.rows(), strict=True)]
            return np.stack(self.solver.predict(problems)).reshape(right.f.shape)
        device, dtype = self.solver.device, torch.float32
        f, g = (torch.as_tensor(rows, dtype=dtype, device=device) for rows in (right.f, right.g))
        rows = zip(f.reshape(-1, f.shape[-1]), g.reshape(-1, g.shape[-1]), strict=True)
        with torch.set_grad_enabled(f.requires_grad or g.requires_grad):
            u = torch.stack([self._answer(*row) for row in rows]).reshape(right.f.shape)
        if not bool(torch.isfinite(u).all()):
            raise BenoError(NOT_FINITE)
        return u.to(right.f.device, right.f.dtype)

    @cached_property
    def _batches(self) -> Batches[Batch]:
        """The operator with nothing on its right-hand side, as the model is fed with it."""
        model, scales = self.solver.model, self.solver.header.scales
        empty = Problem(self.operator, self.operator.right())
        return model.batches([empty], scales, model.config, self.solver.device)

    def _answer(self, f: Float[Tensor, " n"], g: Float[Tensor, " p"]) -> Float[Tensor, " n"]:
        scales = self.solver.header.scales
        batch = self._batches.with_data(self._batches.batch(), self.operator, f, g, scales)
        (values,) = batch.split(self.solver.run(batch).float() * scales.solution)
        return values.sum(dim=0)
