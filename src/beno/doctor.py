"""Does u satisfy the equation and the boundary values that a dataset claims?

The scheme of `finite_volume` gives one equation a cell. Where a cell has no wall, what is missing in
its equation speaks of f and u; where it has one wall, it tells what g must have been there. So the
labels themselves say which boundary values are wrong, and what would be right.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from beno.dataset import SPLITS
from beno.errors import BenoError
from beno.finite_volume import System, assemble
from beno.geometry import DIRECTION_NAMES
from beno.sample import Sample

# How much may be missing in an equation, relative to the largest |u| or |g|: labels are often
# stored with six digits.
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found in one sample. Sizes are relative to the largest |u| or |g|."""

    nan_columns: list[str] = field(default_factory=list)
    broken: str | None = None  # why no equation could be set up at all
    faces_without_cell: int = 0  # as stored
    transposed: bool = False  # the points fit the boundary once x and y are swapped
    residual: float = np.inf  # largest, over all cells
    inner_residual: float = np.inf  # largest, over cells without a wall
    misfit: Float[np.ndarray, " 4"] = field(default_factory=lambda: np.full(4, np.nan))  # of g, by direction

    @property
    def judged(self) -> bool:
        """Whether its equations could be set up."""
        return not self.nan_columns and self.broken is None

    def sound(self, tolerance: float = TOLERANCE) -> bool:
        return self.judged and not self.transposed and self.residual <= tolerance


@dataclass(frozen=True, eq=False)
class Report:
    samples: list[Diagnosis]
    in_both: list[tuple[int, int]]  # pairs of equal samples in different splits
    tolerance: float

    @property
    def healthy(self) -> bool:
        return not self.in_both and all(sample.sound(self.tolerance) for sample in self.samples)

    @property
    def transposed(self) -> int:
        return sum(sample.transposed for sample in self.samples)

    @property
    def misfit(self) -> Float[np.ndarray, " 4"]:
        """The largest misfit of g by the direction that the wall faces; NaN where there was no such wall."""
        return np.fmax.reduce([np.full(4, np.nan), *(sample.misfit for sample in self.samples)])

    @property
    def wrong_walls(self) -> list[str]:
        return [name for name, misfit in zip(DIRECTION_NAMES, self.misfit, strict=True) if misfit > self.tolerance]

    @property
    def residual(self) -> float:
        return max((sample.residual for sample in self.samples if sample.judged), default=np.inf)

    def findings(self) -> Iterator[str]:
        """One line a fault."""
        total = len(self.samples)
        columns: dict[str, int] = {}
        for sample in self.samples:
            for column in sample.nan_columns:
                columns[column] = columns.get(column, 0) + 1
        for column, count in columns.items():
            yield f"NaN or infinity in {column}: {_of(count, total)}"
        for index, sample in enumerate(self.samples):
            if sample.broken:
                yield f"sample {index}: {sample.broken}"
        if self.transposed:
            faces = [sample.faces_without_cell for sample in self.samples if sample.transposed]
            yield (
                f"x and y of the points are swapped against the boundary: {_of(self.transposed, total)} "
                f"({min(faces)} to {max(faces)} faces match no cell as stored)"
            )
        inner = [sample.inner_residual for sample in self.samples if sample.judged]
        beyond = sum(residual > self.tolerance for residual in inner)
        if beyond:
            yield f"u does not satisfy the equation away from the walls: {_of(beyond, total)}, up to {max(inner):.1e}"
        for number, name in enumerate(DIRECTION_NAMES):
            wrong = [sample.misfit[number] for sample in self.samples if sample.misfit[number] > self.tolerance]
            if wrong:
                yield f"g disagrees with u on walls that face {name}: {_of(len(wrong), total)}, up to {max(wrong):.1e}"
        elsewhere = sum(
            sample.residual > self.tolerance >= np.fmax.reduce([sample.inner_residual, *np.nan_to_num(sample.misfit)])
            for sample in self.samples
            if sample.judged
        )
        if elsewhere:
            yield f"u does not satisfy the equation in cells with several walls: {_of(elsewhere, total)}"
        for first, second in self.in_both[:5]:
            yield f"samples {first} and {second} are the same, but lie in different splits"
        if len(self.in_both) > 5:
            yield f"... and {len(self.in_both) - 5} more pairs across splits"


def _of(count: int, total: int) -> str:
    return f"{count} of {total} samples"


def examine(
    samples: Iterable[Sample], splits: Integer[np.ndarray, " s"] | None = None, tolerance: float = TOLERANCE
) -> Report:
    """Examine every sample; ``splits`` gives each one's split, to find samples that leak."""
    diagnoses: list[Diagnosis] = []
    seen: dict[bytes, int] = {}
    in_both = []
    for index, sample in enumerate(samples):
        diagnoses.append(diagnose(sample))
        if splits is None:
            continue
        first = seen.setdefault(_fingerprint(sample), index)
        leaks = {int(splits[first]), int(splits[index])} - {SPLITS.index("train"), SPLITS.index("validation")}
        if splits[first] != splits[index] and leaks:
            in_both.append((first, index))
    return Report(diagnoses, in_both, tolerance)


def diagnose(sample: Sample) -> Diagnosis:
    nan_columns = [
        name
        for name, values in vars(sample).items()
        if isinstance(values, np.ndarray) and not np.isfinite(values).all()
    ]
    if nan_columns:
        return Diagnosis(nan_columns)
    unmatched = _faces_without_cell(sample)
    as_stored, as_swapped = _missing(sample), _missing(_swap(sample))
    transposed = as_swapped is not None and (as_stored is None or _fits_far_better(as_swapped, as_stored))
    found = as_swapped if transposed else as_stored
    if found is None:
        return Diagnosis(
            broken=f"{unmatched} of its {len(sample.g)} boundary faces belong to no cell, swapped or not",
            faces_without_cell=unmatched,
        )
    system, missing = found
    missing = np.abs(missing) / max(np.abs(sample.u).max(), np.abs(sample.g).max(), np.finfo(float).tiny)
    walls = np.bincount(system.problem.domain.panels.cell, minlength=len(missing))
    return Diagnosis(
        faces_without_cell=unmatched,
        transposed=transposed,
        residual=float(missing.max()),
        inner_residual=float(missing[walls == 0].max(initial=0.0)),
        misfit=_misfit_by_direction(system, missing, walls),
    )


def mend(sample: Sample, distrusted: Bool[np.ndarray, " 4"], tolerance: float = TOLERANCE) -> Sample:
    """The sample with its points in the boundary's frame and the distrusted walls read back from the labels.

    A wall is read back where it is the only distrusted one of its cell and its value is off.
    """
    diagnosis = diagnose(sample)
    if diagnosis.nan_columns or diagnosis.broken:
        raise BenoError(diagnosis.broken or f"NaN in {', '.join(diagnosis.nan_columns)} cannot be mended")
    mended = (_swap(sample) if diagnosis.transposed else sample).in_grid_order()
    problem = mended.problem
    system, panels = assemble(problem), problem.domain.panels
    suspect = distrusted[panels.direction]
    alone = suspect & (np.bincount(panels.cell, suspect)[panels.cell] == 1)
    size = max(np.abs(mended.u).max(), np.abs(mended.g).max())
    missing = system.residual(mended.u)[panels.cell]
    off = alone & (np.abs(missing) > tolerance * size)
    g = mended.g.copy()
    g[off] -= missing[off] / system.wall_weight[off]
    return replace(mended, g=g)


def _swap(sample: Sample) -> Sample:
    return replace(sample, points=sample.points[:, ::-1])


def _missing(sample: Sample) -> tuple[System, Float[np.ndarray, " n"]] | None:
    """The equations that the sample claims to satisfy, and what is missing in each; None if its
    points and panels do not fit together."""
    ordered = sample.in_grid_order()
    try:
        system = assemble(ordered.problem)
    except (BenoError, IndexError):
        return None
    return system, system.residual(ordered.u)


def _fits_far_better(
    one: tuple[System, Float[np.ndarray, " n"]], other: tuple[System, Float[np.ndarray, " n"]]
) -> bool:
    """Judged at the walls, since f and u alone cannot tell x from y; by the median, which one wrong wall leaves be."""
    first, second = (np.median(np.abs(missing[system.problem.domain.panels.cell])) for system, missing in (one, other))
    return bool(first < 0.1 * second)


def _faces_without_cell(sample: Sample) -> int:
    try:
        domain = sample.domain
    except (BenoError, IndexError):
        return len(sample.g)
    return len(_half_steps(sample.centres, sample.resolution) - _half_steps(domain.panels.centres, sample.resolution))


def _half_steps(centres: Float[np.ndarray, "p 2"], resolution: int) -> set[tuple[int, int]]:
    return {(i, j) for i, j in np.rint(2 * resolution * centres).astype(int).tolist()}


def _misfit_by_direction(
    system: System, missing: Float[np.ndarray, " n"], walls: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " 4"]:
    """The largest misfit of g over cells with one wall; NaN in a direction that has none."""
    panels = system.problem.domain.panels
    alone = walls[panels.cell] == 1
    misfit = np.full(4, np.nan)
    np.fmax.at(misfit, panels.direction[alone], (missing[panels.cell] / system.wall_weight)[alone])
    return misfit


def _fingerprint(sample: Sample) -> bytes:
    """Equal for equal problems, whatever the order of their points."""
    ordered = sample.in_grid_order()
    digest = sha256()
    for values in (ordered.points, ordered.source, ordered.centres, ordered.g):
        digest.update(np.round(values, 9).tobytes())
    return digest.digest()
