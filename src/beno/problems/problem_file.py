"""A problem written down: a TOML file with a shape, a source, boundary values and, for Darcy, a coefficient.

What may stand in it is in docs/problem_files.md. All that is wrong with a file is reported at once.
"""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from jaxtyping import Bool, Float
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from beno.geometry.base import Panels
from beno.geometry.grid import Cut, Domain
from beno.problems.families import random_coefficient, random_source, random_wave
from beno.problems.problem import Problem, darcy, poisson
from beno.problems.walls import Kind
from beno.support.errors import BenoError

LARGEST_RESOLUTION = 1024
INSIDE, OUTSIDE = "#", "."


class Part(BaseModel):
    """A table of the file; keys that it does not know are refused."""

    model_config = ConfigDict(extra="forbid", strict=False, allow_inf_nan=False)


class Constant(Part):
    """The same value everywhere."""

    family: Literal["constant"]
    value: float

    def at(self, places: np.ndarray, panels: Panels | None) -> np.ndarray:
        return np.full(len(places), self.value)


class Waves(Part):
    """A product of sines over the square, or so many whole waves around each ring of the boundary."""

    family: Literal["waves"]
    amplitude: float = 1.0
    waves: float | tuple[float, float] = 1.0
    phase: float = 0.0

    def at(self, places: np.ndarray, panels: Panels | None) -> np.ndarray:
        if panels is not None:
            if not isinstance(self.waves, float):
                raise BenoError("boundary.waves is a pair; around the boundary it must be one number")
            around = panels.arc_length / panels.ring_lengths[panels.ring]
            return self.amplitude * np.sin(2 * np.pi * self.waves * around + self.phase)
        along = self.waves if isinstance(self.waves, tuple) else (self.waves, self.waves)
        return self.amplitude * np.prod(np.sin(2 * np.pi * np.array(along) * places + self.phase), axis=1)


class Random(Part):
    """Drawn as the datasets' are."""

    family: Literal["random"]
    seed: int = Field(default=0, ge=0)
    amplitude: float = 1.0

    def at(self, places: np.ndarray, panels: Panels | None) -> np.ndarray:
        rng = np.random.default_rng(self.seed)
        values = random_source(rng, places) if panels is None else random_wave(rng, panels)
        return values * (self.amplitude / np.abs(values).max())


class Array(Part):
    """One value a point or panel, in their order."""

    family: Literal["array"]
    values: list[float]

    def at(self, places: np.ndarray, panels: Panels | None) -> np.ndarray:
        if len(self.values) != len(places):
            what = "points" if panels is None else "panels"
            raise BenoError(f"an array has {len(self.values)} values; the shape has {len(places)} {what}")
        return np.array(self.values)


Values = Annotated[Constant | Waves | Random | Array, Field(discriminator="family")]


class RandomCoefficient(Part):
    """kappa between 1 and a contrast, drawn as the datasets' is."""

    family: Literal["random"]
    seed: int = Field(default=0, ge=0)
    contrast: float = Field(default=10.0, ge=1)


class ConstantCoefficient(Part):
    """The same kappa everywhere."""

    family: Literal["constant"]
    value: float = Field(gt=0)


class Boundary(Part):
    """The kind of all walls, and g."""

    kind: Literal["dirichlet", "neumann", "robin"] = "dirichlet"
    alpha: float = Field(default=0.0, ge=0)
    values: Values


class DomainPart(Part):
    """The unit square with corners cut away, or a mask drawn in text; the whole square if neither is given."""

    cuts: Annotated[list[tuple[int, int] | tuple[()]], Field(min_length=4, max_length=4)] | None = None
    mask: str | None = None

    @model_validator(mode="after")
    def one_of_them(self) -> "DomainPart":
        if self.cuts is not None and self.mask is not None:
            raise ValueError("give cuts or a mask, not both")
        return self

    def domain(self, resolution: int) -> Domain:
        if self.mask is not None:
            return Domain.from_mask(_drawn(self.mask, resolution))
        cuts: list[Cut] = [cut if len(cut) == 2 else None for cut in self.cuts or [()] * 4]
        return Domain.square(resolution, cuts)


class ProblemFile(Part):
    """A whole problem file."""

    equation: Literal["poisson", "darcy"] = "poisson"
    resolution: int = Field(default=32, ge=2, le=LARGEST_RESOLUTION)
    balanced: bool = False  # add a constant to f where Neumann walls alone would leave no solution
    shape: DomainPart = DomainPart()
    source: Values = Constant(family="constant", value=0.0)
    boundary: Boundary
    coefficient: Annotated[RandomCoefficient | ConstantCoefficient, Field(discriminator="family")] | None = None

    @model_validator(mode="after")
    def coefficient_for_darcy_alone(self) -> "ProblemFile":
        if (self.coefficient is None) != (self.equation == "poisson"):
            raise ValueError("darcy needs a coefficient and poisson has none")
        return self

    def problem(self) -> Problem:
        domain = self.shape.domain(self.resolution)
        panels = domain.panels
        f, g = self.source.at(domain.points, None), self.boundary.values.at(panels.centres, panels)
        kind, alpha = Kind[self.boundary.kind.upper()], self.boundary.alpha
        if self.coefficient is None:
            problem = poisson(domain, f, g, kind, alpha)
        else:
            kappa, at_panels = np.split(self._kappa(np.concatenate([domain.points, panels.centres])), [len(f)])
            problem = darcy(domain, kappa, f, g, kind, alpha, kappa_at_panels=at_panels)
        problem = problem.balanced() if self.balanced else problem
        problem.require_solvable()
        return problem

    def _kappa(self, places: Float[np.ndarray, "m 2"]) -> Float[np.ndarray, " m"]:
        if isinstance(self.coefficient, RandomCoefficient):
            return random_coefficient(np.random.default_rng(self.coefficient.seed), places, self.coefficient.contrast)
        assert self.coefficient is not None
        return np.full(len(places), self.coefficient.value)


def read_problem(path: Path) -> Problem:
    """The problem that a TOML file describes; all that is wrong with the file is one error."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise BenoError(f"cannot read {path}: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BenoError(f"{path} is not TOML: {error}") from error
    try:
        return ProblemFile.model_validate(content).problem()
    except ValidationError as error:
        wrong = [f"{'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in error.errors()]
        raise BenoError(f"{path}: {'; '.join(wrong)}") from error
    except BenoError as error:
        raise BenoError(f"{path}: {error}") from error


def _drawn(text: str, resolution: int) -> Bool[np.ndarray, "N N"]:
    """Rows from the top down, '#' inside and '.' outside; a character is as many cells as there is room for."""
    rows = [line.strip() for line in text.splitlines() if line.strip()]
    strange = set("".join(rows)) - {INSIDE, OUTSIDE}
    if strange:
        raise BenoError(f"shape.mask has {sorted(strange)[0]!r}; it may have {INSIDE!r} inside and {OUTSIDE!r} outside")
    side = len(rows)
    if not side or any(len(row) != side for row in rows):
        raise BenoError(
            f"shape.mask has {side} rows of {sorted({len(row) for row in rows})} characters; it must be square"
        )
    if resolution % side:
        raise BenoError(f"resolution is {resolution}; it must be a multiple of the mask's {side} rows")
    drawn = np.array([[character == INSIDE for character in row] for row in rows])
    mask = drawn[::-1].T  # the first index runs along x, the second up along y
    return np.kron(mask, np.ones((resolution // side,) * 2, dtype=bool))
