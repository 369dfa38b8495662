"""What a dataset claims to be."""

import json
from dataclasses import asdict, dataclass, fields
from typing import ClassVar

from beno.problems.families import BOUNDARIES, Family, ProblemClass
from beno.problems.law import LAWS
from beno.support.errors import BenoError
from beno.version import __version__

GENERATED = "generated"


@dataclass(frozen=True)
class Metadata:
    """Which problems a dataset has, how many, and where they come from."""

    equation: str
    boundary: str
    corners: int | str
    resolution: int
    samples: int
    origin: str  # "generated", "published", "mended" or "spoilt"
    seed: int | None = None
    source_amplitude: float | None = None
    boundary_amplitude: float | None = None
    contrast: float | None = None
    alpha_range: tuple[float, float] | None = None
    solver: str | None = None  # that made u: older files do not say
    beno_version: str = __version__

    REQUIRED: ClassVar[dict[str, type]] = {
        "equation": str,
        "boundary": str,
        "resolution": int,
        "samples": int,
        "origin": str,
    }

    @classmethod
    def of_family(cls, family: Family, seed: int, samples: int, solver: str | None = None) -> "Metadata":
        return cls(**asdict(family), samples=samples, seed=seed, origin=GENERATED, solver=solver)

    @classmethod
    def from_json(cls, text: str) -> "Metadata":
        try:
            stored = json.loads(text)
        except RecursionError as error:
            raise BenoError("its metadata is nested too deeply") from error
        if not isinstance(stored, dict):
            raise BenoError("its metadata is no JSON object")
        unknown = set(stored) - {field.name for field in fields(cls)}
        if unknown:
            raise BenoError(f"unknown metadata {', '.join(sorted(unknown))}")
        for name, kind in cls.REQUIRED.items():
            if type(stored.get(name)) is not kind:
                raise BenoError(f"its metadata has {stored.get(name)!r} for {name}; it must be {kind.__name__}")
        for name, known in (("equation", LAWS), ("boundary", BOUNDARIES)):
            if stored[name] not in known:
                raise BenoError(f"its metadata has {stored[name]!r} for {name}; there is {', '.join(known)}")
        if stored["resolution"] < 1 or stored["samples"] < 1:
            raise BenoError("its metadata has a resolution or a number of samples below 1")
        if stored.get("alpha_range") is not None:
            stored["alpha_range"] = tuple(stored["alpha_range"])
        return cls(**stored)

    def to_json(self) -> str:
        return json.dumps(asdict(self))

    @property
    def problem_class(self) -> ProblemClass:
        return ProblemClass.named(self.equation, self.boundary)

    @property
    def family(self) -> Family:
        """The family that the samples were drawn from. What an older file does not say was the default."""
        if self.origin != GENERATED:
            raise BenoError(f"its samples are {self.origin}: there is no family to draw others like them from")
        stored = {field.name: getattr(self, field.name) for field in fields(Family)}
        return Family(**{name: value for name, value in stored.items() if value is not None})
