"""What a file says of one solved problem, as plain arrays on which nothing is taken on trust.

A record is checked once, when it is turned into a solution; `doctor` looks at those that cannot be, or that claim
what is not so.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Int

from beno.geometry.grid import Domain
from beno.problems.fields import Values, taken
from beno.problems.solution import Solution
from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False, repr=False)
class Record:
    """The arrays that a file has for one sample, unchecked."""

    resolution: int
    values: Values  # by the names in `problems.fields`

    @classmethod
    def of(cls, solution: Solution) -> "Record":
        domain, panels = solution.problem.domain, solution.problem.domain.panels
        geometry = {name: getattr(panels, name) for name in ("centres", "normals", "lengths", "ring")}
        return cls(domain.resolution, {"points": domain.points, **geometry, **solution.values})

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    def __repr__(self) -> str:
        return f"Record({len(self['u'])} points, {len(self['g'])} panels)"

    def replace(self, **values: np.ndarray) -> "Record":
        return replace(self, values={**self.values, **values})

    @cached_property
    def domain(self) -> Domain:
        """The cells that the points say are inside."""
        mask = np.zeros((self.resolution, self.resolution), dtype=bool)
        cells = np.floor(np.clip(self["points"], -1.0, 2.0) * self.resolution).astype(int)
        if cells.size and (cells.min() < 0 or cells.max() > self.resolution):
            raise BenoError("its points lie outside the unit square")
        mask[tuple(np.minimum(cells, self.resolution - 1).T)] = True  # the square's far sides belong to it
        return Domain.from_mask(mask)

    @property
    def grid_order(self) -> Int[np.ndarray, " n"]:
        """Where each of the domain's points stands among these."""
        return np.lexsort(self["points"].T[::-1])

    def solution(self) -> Solution:
        """The solution that the file describes; refused if no domain has these points and panels."""
        domain = self.domain
        in_order = taken(self.values, points=self.grid_order, panels=slice(None))
        for what, stored, expected in (
            ("points", in_order["points"], domain.points),
            ("boundary faces", in_order["centres"], domain.panels.centres),
            ("normals", in_order["normals"], domain.panels.normals),
            ("panel lengths", in_order["lengths"], domain.panels.lengths),
            ("rings", in_order["ring"], domain.panels.ring),
        ):
            if stored.shape != expected.shape or not np.allclose(stored, expected, rtol=0, atol=1e-6 / self.resolution):
                raise BenoError(f"its {what} are not those of the domain that its points make")
        return Solution.from_values(domain, in_order)

    @property
    def columns_not_finite(self) -> list[str]:
        return [name for name, values in self.values.items() if not np.isfinite(values).all()]

    def require_finite(self, where: str) -> None:
        for name in self.columns_not_finite:
            values = self.values[name]
            at = np.argwhere(~np.isfinite(values))[0][0]
            raise BenoError(f"{where}: {name} is {values[at]} in row {at}; every value must be finite")
