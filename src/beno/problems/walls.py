"""What the boundary does.

Every wall says ``a u + b du/dn = g``: a Dirichlet wall with (a, b) = (1, 0), a Neumann wall with (0, 1) and a Robin
wall with (alpha, 1). All else about the kinds of walls follows from these two numbers.
"""

from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Int, Shaped

from beno.problems.fields import Index
from beno.support.errors import BenoError


class Kind(IntEnum):
    """What a wall gives: u itself, its outward slope, or ``alpha u + slope``."""

    DIRICHLET = 0
    NEUMANN = 1
    ROBIN = 2

    @property
    def label(self) -> str:
        """In files, messages and on the command line."""
        return self.name.lower()

    @property
    def has_alpha(self) -> bool:
        """Whether alpha stands in its condition."""
        return self is Kind.ROBIN


def require_known(kind: Shaped[np.ndarray, " p"]) -> None:
    """Refuse numbers that are no kind of wall."""
    known = np.isin(kind, list(Kind))
    if not known.all():
        raise BenoError(
            f"kind is {kind[~known][0]:g} at panel {known.argmin()}; "
            f"panel kinds must be {', '.join(f'{k.value} ({k.label})' for k in Kind)}"
        )


@dataclass(frozen=True, eq=False, repr=False)
class Walls:
    """The kind of every panel, and alpha where it is Robin's."""

    kind: Int[np.ndarray, " p"]
    alpha: Float[np.ndarray, " p"]  # zero except on Robin panels

    def __post_init__(self) -> None:
        if self.kind.shape != self.alpha.shape:
            raise BenoError(f"there are {len(self.kind)} kinds of panels and {len(self.alpha)} values of alpha")
        require_known(self.kind)
        if not np.isfinite(self.alpha).all():
            raise BenoError(f"alpha is not finite at panel {np.flatnonzero(~np.isfinite(self.alpha))[0]}")
        if (self.alpha < 0).any():
            raise BenoError(
                f"alpha is {self.alpha.min():.3g} at panel {self.alpha.argmin()}; Robin panels need alpha >= 0, "
                "or the problem may have no solution"
            )

    @classmethod
    def uniform(cls, panels: int, kind: Kind = Kind.DIRICHLET, alpha: float = 0.0) -> "Walls":
        """The same on every panel."""
        return cls(np.full(panels, kind, dtype=np.int8), np.full(panels, alpha if kind.has_alpha else 0.0))

    def __len__(self) -> int:
        return len(self.kind)

    def __repr__(self) -> str:
        counts = ", ".join(f"{(self.kind == kind).sum()} {kind.label}" for kind in sorted(self.kinds))
        return f"Walls({counts})"

    @property
    def kinds(self) -> set[Kind]:
        """The kinds of walls that there are."""
        return {Kind(kind) for kind in np.unique(self.kind)}

    @cached_property
    def acting(self) -> "Walls":
        """The walls as they act: a Robin wall without alpha is a Neumann wall."""
        inert = (self.kind == Kind.ROBIN) & (self.alpha == 0)
        return Walls(np.where(inert, Kind.NEUMANN, self.kind), self.alpha) if inert.any() else self

    @cached_property
    def value_weight(self) -> Float[np.ndarray, " p"]:
        """a in ``a u + b du/dn = g``."""
        return np.where(self.kind == Kind.DIRICHLET, 1.0, np.where(self.kind == Kind.ROBIN, self.alpha, 0.0))

    @cached_property
    def slope_weight(self) -> Float[np.ndarray, " p"]:
        """b in ``a u + b du/dn = g``."""
        return np.where(self.kind == Kind.DIRICHLET, 0.0, 1.0)

    @cached_property
    def fixes_value(self) -> Bool[np.ndarray, " p"]:
        """Where u itself is given."""
        return self.slope_weight == 0

    @cached_property
    def leave_constant_free(self) -> bool:
        """Whether no wall tells u from u plus a constant."""
        return not self.value_weight.any()

    def trace(self, value: Float[np.ndarray, "*k p"], slope: Float[np.ndarray, "*k p"]) -> Float[np.ndarray, "*k p"]:
        """What g is for a field with this value and this outward slope at the panels."""
        return self.value_weight * value + self.slope_weight * slope

    def value_beyond(
        self, inside: Float[np.ndarray, " p"], g: Float[np.ndarray, " p"], distance: float
    ) -> Float[np.ndarray, " p"]:
        """u at the panels, on a line through the value at this distance before each of them."""
        return (self.slope_weight * inside + g * distance) * self.response(distance)

    def response(self, distance: float) -> Float[np.ndarray, " p"]:
        """What one unit of g adds to the slope of that line: ``a (u + slope d) + b slope = g``."""
        return 1 / (self.value_weight * distance + self.slope_weight)

    def taken(self, panels: Index) -> "Walls":
        return Walls(self.kind[panels], self.alpha[panels])
