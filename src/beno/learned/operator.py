"""A trained model as a solver: from a problem to its solution, or from many samples to predictions."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import nn

from beno.datasets.dataset import Metadata
from beno.datasets.records import Sample
from beno.geometry.bare_panels import Shape
from beno.geometry.grid import Domain
from beno.learned.assembled import AssembledOperator
from beno.learned.checkpoints import Header, load_model
from beno.nn.device import worked_on_together
from beno.problems.problem import Field, Kind, Problem, darcy, poisson, walls_of
from beno.problems.solution import Solution
from beno.support.errors import BenoError

BEST = "best.safetensors"
TRAINED_KINDS = {
    "dirichlet": {Kind.DIRICHLET},
    "zero": {Kind.DIRICHLET},
    "neumann": {Kind.NEUMANN},
    "robin": {Kind.ROBIN},
    "mixed": set(Kind),
}


class LearnedOperator:
    def __init__(self, header: Header, model: nn.Module, device: torch.device | str = "cpu") -> None:
        self.header, self.device = header, torch.device(device)
        self.model: Any = model.to(self.device).eval()

    @classmethod
    def load(cls, path: Path | str, device: torch.device | str = "cpu") -> "LearnedOperator":
        """From a checkpoint, or from the folder of a training run, whose best weights are taken."""
        path = Path(path)
        if path.is_dir():
            if not (path / BEST).exists():
                raise BenoError(f"{path} has no trained weights: {BEST} is missing")
            path = path / BEST
        return cls(*load_model(path), device)

    def assemble(
        self,
        domain: Domain | Shape,
        kind: Kind | np.ndarray = Kind.DIRICHLET,
        alpha: Field = 0.0,
        kappa: Field | None = None,
        kappa_at_panels: np.ndarray | None = None,
    ) -> AssembledOperator:
        """A harmonic operator on one shape as a matrix, for any number of right-hand sides.

        On a `Shape` of bare points and panels the equation is Laplace's, and some walls must be Dirichlet's.
        """
        if not hasattr(self.model, "kernel"):
            raise BenoError(f"{self.header.model} is not linear in f and g and has no matrix; a harmonic operator has")
        half = self.device.type == "cuda"
        if isinstance(domain, Shape):
            if kappa is not None or kappa_at_panels is not None:
                raise BenoError("on a shape without a grid there is no coefficient; the equation is Laplace's")
            kinds, alphas = walls_of(domain.centres, kind, alpha)
            self._require_kinds("poisson", {Kind(one) for one in np.unique(kinds)})
            if not (kinds == Kind.DIRICHLET).any():
                raise BenoError("a shape without a grid needs a Dirichlet wall; it has none")
            return AssembledOperator(self.model, domain, kinds, alphas, half_precision=half)
        if not isinstance(domain, Domain):
            raise BenoError(f"a {type(domain).__name__} is no shape to assemble on; a Domain or a Shape is needed")
        if kappa is None:
            problem = poisson(domain, kind=kind, alpha=alpha)
        else:
            problem = darcy(domain, kappa, kind=kind, alpha=alpha, kappa_at_panels=kappa_at_panels)
        self._require_trained_for(problem)
        return AssembledOperator(self.model, Shape.of(domain), problem.acting_kind, problem.alpha, problem, half)

    def solve(self, problem: Problem) -> Solution:
        """The same call as every solver's."""
        return self.solve_many([problem])[0]

    def solve_many(self, problems: Sequence[Problem], batch_size: int = 50) -> list[Solution]:
        """Many problems, of any shapes, in batches."""
        for problem in problems:
            self._require_trained_for(problem)
        samples = [Sample.of(Solution(problem, np.zeros(len(problem.source)), solver="")) for problem in problems]
        predicted = self.predict(samples, batch_size)
        return [Solution(problem, u, self.header.model) for problem, u in zip(problems, predicted, strict=True)]

    def predict(self, samples: Sequence[Sample], batch_size: int = 50) -> list[Float[np.ndarray, " _"]]:
        """u for each sample, from everything in it but its u."""
        return [branches.sum(axis=0) for branches in self.predict_branches(samples, batch_size)]

    @torch.no_grad()
    def predict_branches(self, samples: Sequence[Sample], batch_size: int = 50) -> list[Float[np.ndarray, "b _"]]:
        """What each branch of the model adds to u."""
        predicted: list[np.ndarray] = []
        for start in range(0, len(samples), batch_size):
            some = samples[start : start + batch_size]
            cohort = self.model.cohort(some, self.header.scales, self.model.config, self.device)
            at_once = min(len(some), worked_on_together(cohort, self.device))
            for first in range(0, len(some), at_once):
                batch = cohort.batch(range(first, min(first + at_once, len(some))))
                values = self.run(batch).float() * self.header.scales.solution
                if not bool(torch.isfinite(values).all()):
                    raise BenoError("the operator's answer is not finite: f or g is too large for single precision")
                predicted += [part.cpu().double().numpy() for part in batch.split(values)]
        return predicted

    def run(self, batch: Any) -> torch.Tensor:
        """The model on a batch, in half precision on a GPU."""
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            return self.model.branches(batch)

    def require_trained_on(self, data: Metadata, path: Path) -> None:
        """Refuse data of another equation, or with kinds of walls that the weights have not seen."""
        if reason := self._unlike(data):
            raise BenoError(f"{path} {reason}")

    def was_trained_on_such(self, data: Metadata) -> bool:
        return self._unlike(data) is None

    def _unlike(self, data: Metadata) -> str | None:
        """What such data have that the weights were never shown."""
        trained = self.header.data
        if data.equation != trained.equation:
            return f"holds {data.equation} problems; the model was trained for {trained.equation}"
        free = data.boundary == "neumann" and trained.boundary != "neumann"  # u up to a constant
        if free or not TRAINED_KINDS[data.boundary] <= TRAINED_KINDS[trained.boundary]:
            return f"has {data.boundary} boundaries; the model was trained for {trained.boundary} ones"
        return self._lacks_dirichlet(data.boundary in ("dirichlet", "zero", "mixed"))

    def _require_trained_for(self, problem: Problem) -> None:
        problem.require_solvable()
        self._require_kinds(problem.equation, {Kind(kind) for kind in np.unique(problem.acting_kind)})
        if problem.is_pure_neumann and self.header.data.boundary != "neumann":
            raise BenoError(f"this {self.header.model} needs a wall that fixes u; with Neumann walls alone none does")
        if reason := self._lacks_dirichlet(bool((problem.acting_kind == Kind.DIRICHLET).any())):
            raise BenoError(f"the problem {reason}")

    def _lacks_dirichlet(self, is_there: bool) -> str | None:
        """A mixed boundary always has some, so weights that were trained on those know nothing of others."""
        if is_there or self.header.data.boundary != "mixed":
            return None
        return f"has no Dirichlet wall; this {self.header.model} was trained with some among the others"

    def _require_kinds(self, equation: str, kinds: set[Kind]) -> None:
        trained = self.header.data
        if equation != trained.equation:
            raise BenoError(f"this {self.header.model} was trained for {trained.equation}, not for {equation}")
        foreign = kinds - TRAINED_KINDS[trained.boundary]
        if foreign:
            names = ", ".join(kind.name.lower() for kind in sorted(foreign))
            raise BenoError(f"this {self.header.model} was trained for {trained.boundary} boundaries, not for {names}")
