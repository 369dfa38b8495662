"""The equation: what the operator does inside the domain.

Every law here is ``div(kappa grad u) + c u = f``. It owns its coefficients, at the points and at the panels, and says
what they are on a face between two cells.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, replace
from typing import ClassVar, TypeVar

import numpy as np
from jaxtyping import Bool, Float

from beno.geometry.base import Geometry
from beno.geometry.grid import Domain
from beno.problems.fields import FIELDS, Index, Values, taken
from beno.support.errors import BenoError

Array = TypeVar("Array")
LawType = TypeVar("LawType", bound="Law")
LawClass = TypeVar("LawClass", bound="type[Law]")


def mean_on_face(here: Array, there: Array) -> Array:
    """kappa on the face between two cells: their harmonic mean, for which the flow through both halves is the same."""
    return 2 * here * there / (here + there)  # type: ignore[operator]


class Law(ABC):
    """Coefficients are dataclass fields, named as in `problems.fields`; files, symmetries and parts go by that."""

    name: ClassVar[str]  # in files and on the command line
    is_uniform: ClassVar[bool] = False  # kappa is 1 and c is 0 everywhere, so fast transforms solve it on a box

    @abstractmethod
    def at_points(self, domain: Geometry) -> Float[np.ndarray, " n"]:
        """kappa at the points."""

    @abstractmethod
    def at_panels(self, domain: Geometry) -> Float[np.ndarray, " p"]:
        """kappa at the panels."""

    @classmethod
    def fixes_constant(cls) -> bool:
        """Whether it tells u from u plus a constant, as a reaction does."""
        return cls.reaction is not Law.reaction

    def reaction(self, domain: Geometry) -> Float[np.ndarray, " n"] | None:
        """c at the points; None where there is no such term."""
        return None

    def on_faces(self, domain: Domain) -> Float[np.ndarray, "n 4"]:
        """kappa between each cell and its neighbours; 0 where there is none."""
        kappa = self.at_points(domain)
        near = domain.neighbours
        return np.where(near >= 0, mean_on_face(kappa[:, None], kappa[near]), 0.0)

    @classmethod
    def coefficients(cls) -> tuple[str, ...]:
        """Their names."""
        return tuple(field.name for field in fields(cls))  # type: ignore[arg-type]

    @property
    def values(self) -> Values:
        """Its coefficients by name."""
        return {name: getattr(self, name) for name in self.coefficients()}

    def taken(self: LawType, points: Index, panels: Index) -> LawType:
        """The same law at some of the places."""
        return replace(self, **taken(self.values, points, panels))  # type: ignore[type-var]

    def at_new_panels(self, values: Values, is_new: Bool[np.ndarray, " p"], kappa: Float[np.ndarray, " p"]) -> Values:
        """Its coefficients at panels of which some are cut through the domain, where the faces have this kappa."""
        return {}

    def require_fit(self, domain: Geometry) -> None:  # noqa: B027 (a law without coefficients fits every domain)
        """Refuse coefficients that are not those of the domain, or that are no coefficients."""


LAWS: dict[str, type[Law]] = {}


def register(law: LawClass) -> LawClass:
    """Make a law known under its name, as a decorator or a call.

    A file tells laws apart by their coefficients, so no two may have the same, and `problems.fields` lists them all.
    """
    listed = {field.name for field in FIELDS if field.part_of == "law"}
    for name in law.coefficients():
        if name not in listed:
            raise BenoError(f"the law {law.name!r} has the coefficient {name!r}, which problems.fields does not list")
    for other in LAWS.values():
        if other is law:
            continue
        if other.name == law.name:
            raise BenoError(f"there is a law {law.name!r} already: {other.__module__}.{other.__qualname__}")
        if set(other.coefficients()) == set(law.coefficients()):
            raise BenoError(
                f"the laws {other.name!r} and {law.name!r} have the same coefficients; no file tells them apart"
            )
    LAWS[law.name] = law
    return law


@register
@dataclass(frozen=True, eq=False)
class Poisson(Law):
    """``laplace u = f``."""

    name: ClassVar[str] = "poisson"
    is_uniform: ClassVar[bool] = True

    def at_points(self, domain: Geometry) -> Float[np.ndarray, " n"]:
        return np.ones(len(domain.points))

    def at_panels(self, domain: Geometry) -> Float[np.ndarray, " p"]:
        return np.ones(len(domain.panels))

    def on_faces(self, domain: Domain) -> Float[np.ndarray, "n 4"]:
        return (domain.neighbours >= 0).astype(float)


@register
@dataclass(frozen=True, eq=False, repr=False)
class Darcy(Law):
    """``div(kappa grad u) = f``, kappa positive."""

    name: ClassVar[str] = "darcy"
    coefficient: Float[np.ndarray, " n"]
    panel_coefficient: Float[np.ndarray, " p"]

    def __repr__(self) -> str:
        return f"Darcy(kappa {self.coefficient.min():.3g} to {self.coefficient.max():.3g})"

    def at_points(self, domain: Geometry) -> Float[np.ndarray, " n"]:
        return self.coefficient

    def at_panels(self, domain: Geometry) -> Float[np.ndarray, " p"]:
        return self.panel_coefficient

    def at_new_panels(self, values: Values, is_new: Bool[np.ndarray, " p"], kappa: Float[np.ndarray, " p"]) -> Values:
        """With the faces' own kappa, u at a new wall is the plain mean of that on both sides."""
        return {"panel_coefficient": np.where(is_new, kappa, values["panel_coefficient"])}

    def require_fit(self, domain: Geometry) -> None:
        for values, places, where in (
            (self.coefficient, domain.points, "points"),
            (self.panel_coefficient, domain.panels.centres, "panels"),
        ):
            if values.shape != (len(places),):
                raise BenoError(f"kappa has shape {values.shape}; the domain has {len(places)} {where}")
            if not np.isfinite(values).all():
                raise BenoError(f"kappa is not finite at {where[:-1]} {np.flatnonzero(~np.isfinite(values))[0]}")
            if (values <= 0).any():
                x, y = places[values.argmin()]
                raise BenoError(f"kappa is {values.min():.3g} at ({x:.4g}, {y:.4g}); it must be positive everywhere")


def law_of(values: Values) -> Law:
    """The law whose coefficients these are, by their names."""
    for law in LAWS.values():
        if set(law.coefficients()) == values.keys():
            return law(**values)
    known = "; ".join(f"{name}: {', '.join(law.coefficients()) or 'none'}" for name, law in LAWS.items())
    raise BenoError(f"no law has just the coefficients {', '.join(sorted(values))} ({known})")
