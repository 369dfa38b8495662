"""The settings of the harmonic operator."""

from dataclasses import dataclass

from beno.batches.coefficient_features import COLUMNS
from beno.models.base import ConfigWithKinds, Setting
from beno.nn.pairs import FEATURES
from beno.problems.families import ProblemClass
from beno.problems.walls import Kind
from beno.support.errors import BenoError

# What a boundary of each name has; a network for several kinds knows them all.
KINDS = {
    "dirichlet": frozenset({Kind.DIRICHLET}),
    "neumann": frozenset({Kind.NEUMANN}),
    "mixed": frozenset(Kind),
}


@dataclass(frozen=True)
class HarmonicConfig(ConfigWithKinds):
    """Sizes of the network that corrects the kernels."""

    width: int = 128
    layers: int = 3  # of attention among the panels
    heads: int = 8
    pair_width: int = 64
    rank: int = 32  # of the part of the correction that is a product of point and panel
    boundary: str = "dirichlet"  # which kinds of walls: dirichlet, neumann, or mixed for all three
    coefficient: bool = False  # Darcy

    def __post_init__(self) -> None:
        self.require_at_least(width=1, layers=1, heads=1, pair_width=1, rank=1)
        if self.width % self.heads:
            raise BenoError(f"width {self.width} must be a multiple of the {self.heads} heads")
        if self.boundary not in KINDS:
            raise BenoError(f"boundary is {self.boundary!r}; it must be one of {', '.join(KINDS)}")

    @classmethod
    def settings_for(cls, problems: ProblemClass) -> dict[str, Setting]:
        told: dict[str, Setting] = {"boundary": boundary_for(problems.kinds)}
        return {**super().settings_for(problems), **told, "coefficient": not problems.is_uniform}

    @property
    def tells_kinds(self) -> bool:
        return len(KINDS[self.boundary]) > 1

    @property
    def has_measure(self) -> bool:
        """Whether there are walls that draw u to a value, in a softmax."""
        return KINDS[self.boundary] != {Kind.NEUMANN}

    @property
    def has_flux(self) -> bool:
        """Whether there are walls that a flux goes through."""
        return Kind.NEUMANN in KINDS[self.boundary]

    @property
    def kappa_columns(self) -> int:
        """How many features of the coefficient points and panels have."""
        return self.coefficient * COLUMNS

    @property
    def pair_features(self) -> int:
        """What is seen of a panel; with a coefficient also what is between. Half precision likes multiples of 8."""
        return FEATURES + 8 * self.coefficient

    @property
    def corrections(self) -> int:
        """How many numbers the network says of a pair: one for the softmax, four for a flux."""
        return self.has_measure + 4 * self.has_flux


def boundary_for(kinds: frozenset[Kind]) -> str:
    """The name of the boundary that a network for these kinds of walls is made for."""
    return next((name for name, known in KINDS.items() if known == kinds), "mixed")
