"""A boundary value problem: an operator and one right-hand side, ``L u = (f, g)``."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from beno.geometry.base import Geometry
from beno.geometry.grid import Domain
from beno.problems.fields import FIELDS, Values
from beno.problems.law import Law, law_of
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.right_hand_side import RightHandSide
from beno.problems.values import FieldLike
from beno.problems.walls import Kind, Walls
from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """An operator and one right-hand side: find u with ``L u = (f, g)``."""

    operator: Elliptic
    right: RightHandSide

    def __post_init__(self) -> None:
        domain = self.operator.domain
        for name, values, count in (("f", self.right.f, len(domain.points)), ("g", self.right.g, len(domain.panels))):
            if not isinstance(values, np.ndarray):
                raise BenoError(f"{name} is a tensor; a problem has arrays (an operator takes tensors)")
            if values.shape != (count,):
                raise BenoError(f"{name} has the shape {values.shape}; the domain needs ({count},)")
            if not np.isfinite(values).all():
                raise BenoError(f"{name} is not finite at {np.flatnonzero(~np.isfinite(values))[0]}")

    def __repr__(self) -> str:
        return f"Problem({self.law.name} on {self.operator.domain!r}, {self.walls!r})"

    @property
    def domain(self) -> Domain:
        return self.operator.grid

    @property
    def law(self) -> Law:
        return self.operator.law

    @property
    def walls(self) -> Walls:
        return self.operator.walls

    @property
    def f(self) -> Float[np.ndarray, " n"]:
        return np.asarray(self.right.f)

    @property
    def g(self) -> Float[np.ndarray, " p"]:
        return np.asarray(self.right.g)

    def with_data(self, f: FieldLike | None = None, g: FieldLike | None = None) -> "Problem":
        """The same operator with another f, g or both."""
        return replace(self, right=self.operator.right(self.f if f is None else f, self.g if g is None else g))

    def require_solvable(self) -> None:
        self.operator.require_solvable(self.right)

    def balanced(self) -> "Problem":
        """The same problem with a constant added to f, so that there is a solution where a constant is free."""
        return replace(self, right=self.operator.balanced(self.right))

    def split(self) -> tuple["Problem", "Problem"]:
        """The forced part, with g = 0, and the boundary-driven part, with f = 0; their solutions add up.

        Where a constant is free neither may stand alone unless the mean of f is zero, so the mean,
        which balances g, stays with the boundary-driven part.
        """
        carried = np.full_like(self.f, self.f.mean() if self.operator.leaves_constant_free else 0.0)
        forced = RightHandSide(self.f - carried, np.zeros_like(self.g))
        return replace(self, right=forced), replace(self, right=RightHandSide(carried, self.g))

    @property
    def values(self) -> Values:
        """All that is not geometry, by the names in `fields`."""
        walls = self.walls
        return {"f": self.f, "g": self.g, "kind": walls.kind, "alpha": walls.alpha, **self.law.values}

    @classmethod
    def from_values(cls, domain: Geometry, values: Values) -> "Problem":
        """The inverse of `values`, on a domain that they fit."""
        of_law = {f.name: values[f.name] for f in FIELDS if f.part_of == "law" and f.name in values}
        operator = Elliptic(domain, law_of(of_law), Walls(values["kind"], values["alpha"]))
        return cls(operator, RightHandSide(values["f"], values["g"]))


def poisson(
    domain: Geometry,
    f: FieldLike = 0.0,
    g: FieldLike = 0.0,
    kind: Kind | np.ndarray = Kind.DIRICHLET,
    alpha: FieldLike = 0.0,
) -> Problem:
    """``laplace u = f``. Fields are functions of (x, y), arrays over points or panels, or numbers.

    >>> from beno.geometry.grid import Domain
    >>> poisson(Domain.square(8), f=1.0, g=lambda x, y: x * y)
    Problem(poisson on Domain(8 x 8 cells, 64 inside), Walls(32 dirichlet))
    """
    operator = poisson_operator(domain, kind, alpha)
    return Problem(operator, operator.right(f, g))


def darcy(
    domain: Domain,
    kappa: FieldLike,
    f: FieldLike = 0.0,
    g: FieldLike = 0.0,
    kind: Kind | np.ndarray = Kind.DIRICHLET,
    alpha: FieldLike = 0.0,
    kappa_at_panels: np.ndarray | None = None,
) -> Problem:
    """``div(kappa grad u) = f``, kappa positive.

    Where kappa is an array over the points its values at the walls are extrapolated, unless given.
    """
    operator = darcy_operator(domain, kappa, kind, alpha, kappa_at_panels)
    return Problem(operator, operator.right(f, g))
