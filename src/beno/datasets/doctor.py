"""Does u satisfy the equation and the boundary values that a dataset claims?

The scheme of `finite_volume` gives one equation a cell. Where a cell has no wall, what is missing in
its equation speaks of f and u; where it has one wall, it tells what g must have been there. So the
labels themselves say which boundary values are wrong, and what would be right.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from beno.datasets.dataset import Metadata
from beno.datasets.records import Sample
from beno.geometry.grid import DIRECTION_NAMES
from beno.problems.problem import Kind
from beno.solvers.finite_volumes import System, assemble
from beno.support.errors import BenoError

# How much may be missing in an equation, relative to the largest |u| or |g|: labels are often
# stored with six digits.
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class Diagnosis:
    """What was found in one sample. Sizes are relative to the largest |u| or |g|."""

    nan_columns: list[str] = field(default_factory=list)
    false_claims: list[str] = field(default_factory=list)  # what the metadata says and the sample does not bear out
    broken: str | None = None  # why no equation could be set up at all
    faces_without_cell: int = 0  # as stored
    transposed: bool = False  # the points fit the boundary once x and y are swapped
    residual: float = np.inf  # largest, over all cells
    inner_residual: float = np.inf  # largest, over cells without a wall
    error: float = np.inf  # of u against the exact solution of what is claimed, in relative L2
    misfit: Float[np.ndarray, " 4"] = field(default_factory=lambda: np.full(4, np.nan))  # of g, by direction

    @property
    def judged(self) -> bool:
        """Whether its equations could be set up."""
        return not self.nan_columns and self.broken is None

    def sound(self, tolerance: float = TOLERANCE) -> bool:
        wrong = (
            self.false_claims
            or self.transposed
            or np.fmax.reduce([self.residual, self.error, *self.misfit]) > tolerance
        )
        return self.judged and not wrong


@dataclass(frozen=True, eq=False)
class Report:
    samples: list[Diagnosis]
    in_both: list[tuple[int, int]]  # pairs of equal samples in different splits
    tolerance: float

    @property
    def healthy(self) -> bool:
        return not any(True for _ in self.findings())

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

    @property
    def error(self) -> float:
        return max((sample.error for sample in self.samples if sample.judged), default=np.inf)

    def findings(self) -> Iterator[str]:
        """One line a fault."""
        total = len(self.samples)
        for column, count in Counter(name for sample in self.samples for name in sample.nan_columns).items():
            yield f"NaN or infinity in {column}: {_of(count, total)}"
        for claim, count in Counter(claim for sample in self.samples for claim in sample.false_claims).items():
            yield f"{claim}: {_of(count, total)}"
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
        errors = [sample.error for sample in self.samples if sample.judged and sample.error > self.tolerance]
        if errors:
            yield (
                f"u is not the solution of the problem that the file claims: {_of(len(errors), total)}, "
                f"off by up to {max(errors):.1e} in relative L2"
            )
        for first, second in self.in_both[:5]:
            yield f"samples {first} and {second} are the same, but lie in different splits"
        if len(self.in_both) > 5:
            yield f"... and {len(self.in_both) - 5} more pairs across splits"


def _of(count: int, total: int) -> str:
    return f"{count} of {total} samples"


def examine(
    samples: Iterable[Sample],
    splits: Integer[np.ndarray, " s"] | None = None,
    tolerance: float = TOLERANCE,
    metadata: Metadata | None = None,
) -> Report:
    """Examine every sample; ``splits`` gives each one's split, to find samples that are in two of them."""
    if not 0 < tolerance < np.inf:
        raise BenoError(f"the tolerance is {tolerance}; it must be a positive number")
    diagnoses: list[Diagnosis] = []
    seen: dict[bytes, int] = {}
    in_both = []
    for index, sample in enumerate(samples):
        diagnoses.append(diagnose(sample, metadata))
        if splits is None:
            continue
        first = seen.setdefault(_fingerprint(sample), index)
        if splits[first] != splits[index]:
            in_both.append((first, index))
    return Report(diagnoses, in_both, tolerance)


def diagnose(sample: Sample, metadata: Metadata | None = None) -> Diagnosis:
    nan_columns = [
        name
        for name, values in vars(sample).items()
        if isinstance(values, np.ndarray) and not np.isfinite(values).all()
    ]
    if nan_columns:
        return Diagnosis(nan_columns)
    false_claims = [] if metadata is None else list(_false_claims(sample, metadata))
    unmatched = _faces_without_cell(sample)
    as_stored, as_swapped = _missing(sample), _missing(_swap(sample))
    transposed = not isinstance(as_swapped, str) and (
        isinstance(as_stored, str) or _fits_far_better(as_swapped, as_stored, _size(sample))
    )
    found = as_swapped if transposed else as_stored
    if isinstance(found, str):
        reason = f"{unmatched} of its {len(sample.g)} boundary faces belong to no cell, swapped or not"
        return Diagnosis([], false_claims, broken=reason if unmatched else found, faces_without_cell=unmatched)
    system, missing = found
    error = _error(system, missing, (_swap(sample) if transposed else sample).in_grid_order().u)
    missing = np.abs(missing) / _size(sample)
    # An equation weighs its cell's u with the diagonal, 4 for Poisson away from the walls.
    weight = system.matrix.diagonal() / 4
    residual = np.divide(missing, weight, out=missing.copy(), where=weight > 0)
    walls = np.bincount(system.problem.domain.panels.cell, minlength=len(missing))
    return Diagnosis(
        false_claims=false_claims,
        error=error,
        faces_without_cell=unmatched,
        transposed=transposed,
        residual=float(residual.max()),
        inner_residual=float(residual[walls == 0].max(initial=0.0)),
        misfit=_misfit_by_direction(system, missing, walls),
    )


def mend(sample: Sample, distrusted: Bool[np.ndarray, " 4"], tolerance: float = TOLERANCE) -> Sample:
    """The sample with its points in the boundary's frame and the distrusted walls read back from the labels.

    A wall is read back where it is the only distrusted one of its cell and its value is off. Under pure
    Neumann walls u is given zero mean.
    """
    diagnosis = diagnose(sample)
    if diagnosis.nan_columns or diagnosis.broken:
        raise BenoError(diagnosis.broken or f"NaN or infinity in {', '.join(diagnosis.nan_columns)} cannot be mended")
    mended = (_swap(sample) if diagnosis.transposed else sample).in_grid_order()
    problem = mended.problem
    system, panels = assemble(problem), problem.domain.panels
    suspect = distrusted[panels.direction]
    alone = suspect & (np.bincount(panels.cell, suspect)[panels.cell] == 1)
    missing = system.residual(mended.u)[panels.cell]
    off = alone & (np.abs(missing) > tolerance * _size(mended) * system.wall_weight)
    g = mended.g.copy()
    g[off] -= missing[off] / system.wall_weight[off]
    shift = mended.u.mean() if problem.is_pure_neumann else 0.0
    return replace(mended, g=g, u=mended.u - shift)


def _swap(sample: Sample) -> Sample:
    return replace(sample, points=sample.points[:, ::-1])


def _missing(sample: Sample) -> tuple[System, Float[np.ndarray, " n"]] | str:
    """The equations that the sample claims to satisfy, and what is missing in each; or why there are none."""
    ordered = sample.in_grid_order()
    try:
        system = assemble(ordered.problem)
    except BenoError as error:
        return str(error)
    except IndexError:
        return "its points lie outside the unit square"
    return system, system.residual(ordered.u)


def _error(system: System, missing: Float[np.ndarray, " n"], u: Float[np.ndarray, " n"]) -> float:
    """How far u is from the exact solution, in relative L2."""
    pure_neumann = system.problem.is_pure_neumann
    exact = u + system.factorisation.solve(missing - missing.mean() if pure_neumann else missing)
    if pure_neumann:
        exact -= exact.mean()
    size = max(np.abs(exact).max(), np.abs(u).max())
    if size == 0:
        return 0.0
    error = float(np.linalg.norm((exact - u) / size) / np.linalg.norm(exact / size)) if exact.any() else np.inf
    return error if np.isfinite(error) else np.inf


def _false_claims(sample: Sample, metadata: Metadata) -> Iterator[str]:
    if (sample.coefficient is not None) != (metadata.equation == "darcy"):
        has = "has no" if sample.coefficient is None else "has a"
        yield f"the metadata says {metadata.equation}, but the sample {has} kappa"
    kinds = {Kind(kind).name.lower() for kind in np.unique(sample.kind) if kind in set(Kind)}
    expected = "dirichlet" if metadata.boundary == "zero" else metadata.boundary
    if expected != "mixed" and kinds != {expected}:
        yield f"the metadata says {metadata.boundary} boundaries, but there are {' and '.join(sorted(kinds))} panels"
    if metadata.boundary == "zero" and sample.g.any():
        yield "the metadata says zero boundary values, but g is not zero"


def _fits_far_better(
    one: tuple[System, Float[np.ndarray, " n"]], other: tuple[System, Float[np.ndarray, " n"]], size: float
) -> bool:
    """Judged at the walls, since f and u alone cannot tell x from y; by the median, which one wrong wall leaves be.

    What is right but for rounding is not bettered.
    """
    first, second = (np.median(np.abs(missing[system.problem.domain.panels.cell])) for system, missing in (one, other))
    return bool(first < 0.1 * second and second > 1e-6 * size)


def _size(sample: Sample) -> float:
    return float(max(np.abs(sample.u).max(), np.abs(sample.g).max(), np.finfo(float).tiny))


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
    for values in (ordered.points, ordered.source, ordered.coefficient, ordered.centres, ordered.g, ordered.alpha):
        if values is not None:
            digest.update(np.round(values, 9).tobytes())
    digest.update(ordered.kind.astype(np.int8).tobytes())
    return digest.digest()
