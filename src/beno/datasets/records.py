"""One solved problem as plain arrays: the contract between numerics and learning.

A sample promises nothing about its values; `doctor` checks whether u solves what it claims to.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.grid import Domain
from beno.problems.problem import Kind, Problem
from beno.problems.solution import Solution, wall_distance_at
from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False)
class Sample:
    resolution: int
    points: Float[np.ndarray, "n 2"]
    source: Float[np.ndarray, " n"]
    u: Float[np.ndarray, " n"]
    centres: Float[np.ndarray, "p 2"]
    normals: Float[np.ndarray, "p 2"]
    lengths: Float[np.ndarray, " p"]
    ring: Int[np.ndarray, " p"]
    kind: Int[np.ndarray, " p"]
    g: Float[np.ndarray, " p"]
    alpha: Float[np.ndarray, " p"]
    coefficient: Float[np.ndarray, " n"] | None = None
    panel_coefficient: Float[np.ndarray, " p"] | None = None

    @classmethod
    def of(cls, solution: Solution) -> "Sample":
        problem, panels = solution.problem, solution.problem.domain.panels
        sample = cls(
            resolution=problem.domain.resolution,
            points=problem.domain.points,
            source=problem.source,
            u=solution.u,
            centres=panels.centres,
            normals=panels.normals,
            lengths=panels.lengths,
            ring=panels.ring,
            kind=problem.kind,
            g=problem.g,
            alpha=problem.alpha,
            coefficient=problem.coefficient,
            panel_coefficient=problem.panel_coefficient,
        )
        return sample.on(problem.domain)

    def on(self, domain: Domain) -> "Sample":
        """The sample, told its domain, which it need not make again from its points."""
        vars(self)["domain"] = domain
        return self

    @cached_property
    def domain(self) -> Domain:
        """The cells that the points say are inside."""
        mask = np.zeros((self.resolution, self.resolution), dtype=bool)
        cells = np.floor(self.points * self.resolution).astype(int)
        mask[tuple(np.minimum(cells, self.resolution - 1).T)] = True  # the square's far walls belong to it
        return Domain.from_mask(mask)

    @cached_property
    def wall_distance(self) -> Float[np.ndarray, "n 4"]:
        """Distance from each point to the wall that it meets first along -x, +x, -y and +y."""
        return wall_distance_at(self.domain, self.points)

    @property
    def problem(self) -> Problem:
        """The problem that u claims to solve."""
        domain = self.domain
        panels = domain.panels
        for what, stored, expected in (
            ("points", self.points, domain.points),
            ("boundary faces", self.centres, panels.centres),
            ("normals", self.normals, panels.normals),
            ("panel lengths", self.lengths, panels.lengths),
            ("rings", self.ring, panels.ring),
        ):
            if stored.shape != expected.shape or not np.allclose(stored, expected, rtol=0, atol=1e-6 / self.resolution):
                raise BenoError(f"its {what} are not those of the domain that its points make")
        if not np.isin(self.kind, list(Kind)).all():
            raise BenoError(f"its panel kinds include {set(self.kind.tolist()) - set(Kind)}; there are 0, 1 and 2")
        if (self.alpha < 0).any():
            raise BenoError(f"its alpha is {self.alpha.min():.3g} on a panel; it must not be negative")
        for kappa in (self.coefficient, self.panel_coefficient):
            if kappa is not None and (kappa <= 0).any():
                raise BenoError(f"its kappa is {kappa.min():.3g} somewhere; it must be positive")
        if (self.coefficient is None) != (self.panel_coefficient is None):
            raise BenoError("its kappa is given at the points or at the panels alone; both or neither are needed")
        return Problem(domain, self.source, self.kind, self.g, self.alpha, self.coefficient, self.panel_coefficient)

    def in_grid_order(self) -> "Sample":
        """The same sample with its points in the order in which a domain lists them."""
        order = np.lexsort(self.points.T[::-1])
        return replace(
            self,
            points=self.points[order],
            source=self.source[order],
            u=self.u[order],
            coefficient=None if self.coefficient is None else self.coefficient[order],
        )

    def require_finite(self, where: str) -> None:
        for name, values in vars(self).items():
            if isinstance(values, np.ndarray) and not np.isfinite(values).all():
                at = np.argwhere(~np.isfinite(values))[0][0]
                raise BenoError(f"{where}: {name} is {values[at]} in row {at}; every value must be finite")
