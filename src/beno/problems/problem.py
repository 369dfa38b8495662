"""A boundary value problem on a domain, as values at its points and panels.

The equation is ``div(kappa grad u) = f``; without a coefficient it is Poisson's, ``laplace u = f``.
Each panel has a kind: Dirichlet ``u = g``, Neumann ``du/dn = g`` or Robin ``alpha u + du/dn = g``.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Literal

import numpy as np
from jaxtyping import Float, Int

from beno.geometry.grid import Domain
from beno.support.errors import BenoError

Field = Callable[[np.ndarray, np.ndarray], np.ndarray | float] | np.ndarray | float

# How far, relative to the fluxes involved, a pure Neumann problem may be out of balance.
BALANCE_TOLERANCE = 1e-8


class Kind(IntEnum):
    DIRICHLET = 0
    NEUMANN = 1
    ROBIN = 2


@dataclass(frozen=True, eq=False)
class Problem:
    domain: Domain
    source: Float[np.ndarray, " n"]
    kind: Int[np.ndarray, " p"]
    g: Float[np.ndarray, " p"]
    alpha: Float[np.ndarray, " p"]  # zero except on Robin panels
    coefficient: Float[np.ndarray, " n"] | None = None
    panel_coefficient: Float[np.ndarray, " p"] | None = None

    def __post_init__(self) -> None:
        points, panels = len(self.domain.points), len(self.domain.panels)
        for name, values, count in (
            ("f", self.source, points),
            ("kind", self.kind, panels),
            ("g", self.g, panels),
            ("alpha", self.alpha, panels),
            ("kappa", self.coefficient, points),
            ("kappa at panels", self.panel_coefficient, panels),
        ):
            if values is None:
                continue
            if values.shape != (count,):
                raise BenoError(f"{name} has the shape {values.shape}; the domain needs ({count},)")
            if not np.isfinite(values).all():
                raise BenoError(f"{name} is not finite at {np.flatnonzero(~np.isfinite(values))[0]}")

    @property
    def equation(self) -> Literal["poisson", "darcy"]:
        return "poisson" if self.coefficient is None else "darcy"

    @property
    def wall_coefficient(self) -> Float[np.ndarray, " p"]:
        return np.ones(len(self.g)) if self.panel_coefficient is None else self.panel_coefficient

    @cached_property
    def acting_kind(self) -> Int[np.ndarray, " p"]:
        """What the walls do: a Robin wall without alpha is a Neumann wall."""
        return np.where((self.kind == Kind.ROBIN) & (self.alpha == 0), Kind.NEUMANN, self.kind)

    @cached_property
    def is_pure_neumann(self) -> bool:
        """Whether u is fixed only up to a constant."""
        return bool((self.acting_kind == Kind.NEUMANN).all())

    @property
    def imbalance(self) -> float:
        """What the source puts in less what leaves through the walls, if all walls are Neumann."""
        return float(self._source_total - self._outflow_total)

    def require_solvable(self) -> None:
        if not self.is_pure_neumann:
            return
        size = (
            np.abs(self.source).sum() * self.domain.spacing**2
            + np.abs(self.wall_coefficient * self.g * self.domain.panels.lengths).sum()
        )
        if abs(self.imbalance) > BALANCE_TOLERANCE * size:
            raise BenoError(
                f"a pure Neumann problem needs the integral of f ({self._source_total:.6g}) to equal the flux "
                f"of g ({self._outflow_total:.6g}); they differ by {self.imbalance:.3g} "
                "(balanced() mends it, or balanced = true in a problem file)"
            )

    def balanced(self) -> "Problem":
        """The same problem with a constant added to f, so that a pure Neumann problem has a solution."""
        if not self.is_pure_neumann:
            return self
        return replace(self, source=self.source - self.imbalance / self.domain.area)

    def split(self) -> tuple["Problem", "Problem"]:
        """The forced part, with g = 0, and the boundary-driven part, with f = 0; their solutions add up.

        Under pure Neumann walls neither may stand alone unless the mean of f is zero, so the mean,
        which balances g, stays with the boundary-driven part.
        """
        carried = np.full_like(self.source, self.source.mean() if self.is_pure_neumann else 0.0)
        forced = replace(self, source=self.source - carried, g=np.zeros_like(self.g))
        return forced, replace(self, source=carried)

    @property
    def _source_total(self) -> float:
        return float(self.source.sum() * self.domain.spacing**2)

    @property
    def _outflow_total(self) -> float:
        return float((self.wall_coefficient * self.g) @ self.domain.panels.lengths)


def poisson(
    domain: Domain, f: Field = 0.0, g: Field = 0.0, kind: Kind | np.ndarray = Kind.DIRICHLET, alpha: Field = 0.0
) -> Problem:
    """``laplace u = f``. Fields are callables of (x, y), arrays over points or panels, or numbers.

    >>> from beno.geometry.grid import Domain
    >>> problem = poisson(Domain.square(8), f=1.0, g=lambda x, y: x * y)
    >>> problem.equation, problem.g.shape
    ('poisson', (32,))
    """
    panels = domain.panels
    kinds, alphas = walls_of(panels.centres, kind, alpha)
    return Problem(
        domain=domain,
        source=_values("f", f, domain.points, "points"),
        kind=kinds,
        g=_values("g", g, panels.centres, "panels"),
        alpha=alphas,
    )


def darcy(
    domain: Domain,
    kappa: Field,
    f: Field = 0.0,
    g: Field = 0.0,
    kind: Kind | np.ndarray = Kind.DIRICHLET,
    alpha: Field = 0.0,
    kappa_at_panels: np.ndarray | None = None,
) -> Problem:
    """``div(kappa grad u) = f``, kappa positive.

    Where kappa is an array over the points its values at the walls are extrapolated, unless given.
    """
    coefficient = _values("kappa", kappa, domain.points, "points")
    if kappa_at_panels is not None:
        at_walls = _values("kappa", kappa_at_panels, domain.panels.centres, "panels")
    elif not callable(kappa) and np.ndim(kappa):
        at_walls = _extrapolate_to_walls(domain, coefficient)
    else:
        at_walls = _values("kappa", kappa, domain.panels.centres, "panels")
    for values, place in ((coefficient, domain.points), (at_walls, domain.panels.centres)):
        if (values <= 0).any():
            x, y = place[values.argmin()]
            raise BenoError(f"kappa is {values.min():.3g} at ({x:.4g}, {y:.4g}); it must be positive everywhere")
    return replace(poisson(domain, f, g, kind, alpha), coefficient=coefficient, panel_coefficient=at_walls)


def walls_of(
    centres: Float[np.ndarray, "p 2"], kind: Kind | np.ndarray, alpha: Field
) -> tuple[Int[np.ndarray, " p"], Float[np.ndarray, " p"]]:
    """Of each panel its kind, and its alpha if it is Robin's."""
    kinds = _kinds(kind, centres)
    alphas = np.where(kinds == Kind.ROBIN, _values("alpha", alpha, centres, "panels"), 0.0)
    if (alphas < 0).any():
        raise BenoError(
            f"alpha is {alphas.min():.3g} at panel {alphas.argmin()}; Robin panels need alpha >= 0, "
            "or the problem may have no solution"
        )
    return kinds, alphas


def _kinds(kind: Kind | np.ndarray, centres: Float[np.ndarray, "p 2"]) -> Int[np.ndarray, " p"]:
    if isinstance(kind, Kind):
        return np.full(len(centres), kind, dtype=np.int8)
    kinds = _values("kind", np.asarray(kind), centres, "panels")
    known = np.isin(kinds, list(Kind))
    if not known.all():
        raise BenoError(
            f"kind is {kinds[~known][0]:g} at panel {known.argmin()}; "
            f"panel kinds must be {', '.join(f'{k.value} ({k.name.lower()})' for k in Kind)}"
        )
    return kinds.astype(np.int8)


def _extrapolate_to_walls(domain: Domain, values: Float[np.ndarray, " n"]) -> Float[np.ndarray, " p"]:
    """Half a cell outward along the logarithm, which keeps positive values positive."""
    panels = domain.panels
    behind = domain.neighbours[panels.cell, panels.direction ^ 1]  # the neighbour away from the wall
    here = values[panels.cell]
    with np.errstate(divide="ignore", invalid="ignore"):
        extrapolated = here * np.sqrt(here / values[behind])
    return np.where(behind >= 0, extrapolated, here)


def _values(name: str, field: Field, places: Float[np.ndarray, "m 2"], where: str) -> Float[np.ndarray, " m"]:
    raw = field(places[:, 0], places[:, 1]) if callable(field) else field
    if np.iscomplexobj(raw):
        raise BenoError(f"{name} is complex; real numbers are needed")
    try:
        values = np.asarray(raw, dtype=float)
    except (TypeError, ValueError) as error:
        raise BenoError(f"{name} cannot be read as numbers: {error}") from error
    if values.ndim and values.shape != (len(places),):
        raise BenoError(f"{name} has shape {values.shape}; the domain has {len(places)} {where}")
    values = np.full(len(places), values)
    if not np.isfinite(values).all():
        at = np.flatnonzero(~np.isfinite(values))[0]
        raise BenoError(f"{name} is {values[at]} at {where[:-1]} {at}; it must be finite")
    return values
