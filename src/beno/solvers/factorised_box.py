"""The grid potential of many sources in one medium: the box is factorised once, and all are solved together."""

import numpy as np
from jaxtyping import Float

from beno.geometry.grid import Domain
from beno.problems.problem import Problem, darcy
from beno.solvers.box import Potential, extend_to_box, read_off
from beno.solvers.finite_volumes import assemble


class FactorisedPotential:
    def __init__(self, problem: Problem) -> None:
        """Of the problem, the domain and the coefficient matter."""
        assert problem.coefficient is not None
        self._problem, self._kappa = problem, extend_to_box(problem.domain, problem.coefficient)
        square = Domain.square(problem.domain.resolution)
        kappa = self._kappa[square.mask]
        self._system = assemble(darcy(square, kappa, kappa_at_panels=kappa[square.panels.cell]))

    def __call__(self, sources: Float[np.ndarray, "k n"]) -> Potential:
        domain = self._problem.domain
        right = np.zeros((len(sources), *domain.mask.shape))
        right[:, domain.mask] = -(domain.spacing**2) * sources
        v = self._system.factorisation.solve(right.reshape(len(sources), -1).T).T.reshape(right.shape)
        return read_off(self._problem, v, self._kappa)
