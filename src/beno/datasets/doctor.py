"""Does u satisfy the equation and the boundary values that a dataset claims?

The scheme of `solvers.finite_volumes` gives one equation a cell. Where a cell has no wall, what is missing in
its equation speaks of f and u; where it has one wall, it tells what g must have been there. So the
labels themselves say which boundary values are wrong, and what would be right.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.geometry.base import DIRECTION_NAMES
from beno.problems.fields import BY_NAME, taken
from beno.problems.law import LAWS
from beno.problems.norms import relative_l2
from beno.problems.solution import Solution
from beno.problems.walls import Kind
from beno.solvers.direct import factorised
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


@dataclass(frozen=True, eq=False, repr=False)
class Examination:
    """What was found in a dataset, sample by sample and between its splits."""

    samples: list[Diagnosis]
    in_both: list[tuple[int, int]]  # pairs of equal samples in different splits
    tolerance: float

    def __repr__(self) -> str:
        return f"Examination({len(self.samples)} samples, {'healthy' if self.healthy else 'with findings'})"

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
    records: Iterable[Record],
    splits: Integer[np.ndarray, " s"] | None = None,
    tolerance: float = TOLERANCE,
    metadata: Metadata | None = None,
) -> Examination:
    """Examine every sample; ``splits`` gives each one's split, to find samples that are in two of them."""
    if not 0 < tolerance < np.inf:
        raise BenoError(f"the tolerance is {tolerance}; it must be a positive number")
    diagnoses: list[Diagnosis] = []
    seen: dict[bytes, int] = {}
    in_both = []
    for index, record in enumerate(records):
        diagnoses.append(diagnose(record, metadata))
        if splits is None:
            continue
        first = seen.setdefault(_fingerprint(record), index)
        if splits[first] != splits[index]:
            in_both.append((first, index))
    return Examination(diagnoses, in_both, tolerance)


def diagnose(record: Record, metadata: Metadata | None = None) -> Diagnosis:
    if nan_columns := record.columns_not_finite:
        return Diagnosis(nan_columns)
    false_claims = [] if metadata is None else list(_false_claims(record, metadata))
    unmatched = _faces_without_cell(record)
    as_stored, as_swapped = _missing(record), _missing(_swapped(record))
    transposed = not isinstance(as_swapped, str) and (
        isinstance(as_stored, str) or _fits_far_better(as_swapped, as_stored, _size(record))
    )
    found = as_swapped if transposed else as_stored
    if isinstance(found, str):
        reason = f"{unmatched} of its {len(record['g'])} boundary faces belong to no cell, swapped or not"
        return Diagnosis([], false_claims, broken=reason if unmatched else found, faces_without_cell=unmatched)
    missing = np.abs(found.missing) / _size(record)
    # An equation weighs its cell's u with the diagonal, 4 for Poisson away from the walls.
    weight = found.system.matrix.diagonal() / 4
    residual = np.divide(missing, weight, out=missing.copy(), where=weight > 0)
    walls = np.bincount(found.solution.problem.domain.panels.cell, minlength=len(missing))
    return Diagnosis(
        false_claims=false_claims,
        error=_error(found),
        faces_without_cell=unmatched,
        transposed=transposed,
        residual=float(residual.max()),
        inner_residual=float(residual[walls == 0].max(initial=0.0)),
        misfit=_misfit_by_direction(found, missing, walls),
    )


def mend(record: Record, distrusted: Bool[np.ndarray, " 4"], tolerance: float = TOLERANCE) -> Solution:
    """The solution with its points in the boundary's frame and the distrusted walls read back from the labels.

    A wall is read back where it is the only distrusted one of its cell and its value is off. Where a constant is free
    u is given zero mean.
    """
    diagnosis = diagnose(record)
    if diagnosis.nan_columns or diagnosis.broken:
        raise BenoError(diagnosis.broken or f"NaN or infinity in {', '.join(diagnosis.nan_columns)} cannot be mended")
    claimed = _claimed(_swapped(record) if diagnosis.transposed else record)
    problem = claimed.solution.problem
    panels, weight = problem.domain.panels, claimed.system.wall_weight
    suspect = distrusted[panels.direction]
    alone = suspect & (np.bincount(panels.cell, suspect)[panels.cell] == 1)
    missing = claimed.missing[panels.cell]
    off = alone & (np.abs(missing) > tolerance * _size(record) * weight)
    g = problem.g.copy()
    g[off] -= missing[off] / weight[off]
    return Solution(problem.with_data(g=g), problem.operator.without_constant(claimed.solution.u))


def _swapped(record: Record) -> Record:
    """x and y of the points exchanged."""
    return record.replace(points=record["points"][:, ::-1])


@dataclass(frozen=True, eq=False, repr=False)
class Claimed:
    """The equations that a record claims to satisfy, and what is missing in each."""

    solution: Solution
    system: System
    missing: Float[np.ndarray, " n"]


def _claimed(record: Record) -> Claimed:
    solution = record.solution()
    system = assemble(solution.problem.operator)
    return Claimed(solution, system, system.residual(solution.problem.right, solution.u))


def _missing(record: Record) -> Claimed | str:
    """Or why there are none."""
    try:
        return _claimed(record)
    except BenoError as error:
        return str(error)


def _error(claimed: Claimed) -> float:
    """How far u is from the exact solution of the scheme, in relative L2."""
    operator, missing, u = claimed.solution.problem.operator, claimed.missing, claimed.solution.u
    missing = missing - missing.mean() if operator.leaves_constant_free else missing
    exact = operator.without_constant(u + factorised(claimed.system.solvable_matrix).solve(missing))
    error = relative_l2(u, exact)
    return error if np.isfinite(error) else np.inf


def _false_claims(record: Record, metadata: Metadata) -> Iterator[str]:
    found = [name for name in record.values if BY_NAME[name].part_of == "law"]
    if set(found) != set(LAWS[metadata.equation].coefficients()):
        has = " and a ".join(name.replace("_", " ") for name in found)
        yield f"the metadata says {metadata.equation}, but the sample has {f'a {has}' if has else 'no coefficient'}"
    kinds = {Kind(kind) for kind in np.unique(record["kind"]) if kind in set(Kind)}
    expected = metadata.problem_class.kinds
    if len(expected) == 1 and kinds != expected:
        found_kinds = " and ".join(sorted(kind.label for kind in kinds))
        yield f"the metadata says {metadata.boundary} boundaries, but there are {found_kinds} panels"
    if metadata.boundary == "zero" and record["g"].any():
        yield "the metadata says zero boundary values, but g is not zero"


def _fits_far_better(one: Claimed, other: Claimed, size: float) -> bool:
    """Judged at the walls, since f and u alone cannot tell x from y; by the median, which one wrong wall leaves be.

    What is right but for rounding is not bettered.
    """
    first, second = (
        np.median(np.abs(claimed.missing[claimed.solution.problem.domain.panels.cell])) for claimed in (one, other)
    )
    return bool(first < 0.1 * second and second > 1e-6 * size)


def _size(record: Record) -> float:
    return float(max(np.abs(record["u"]).max(), np.abs(record["g"]).max(), np.finfo(float).tiny))


def _faces_without_cell(record: Record) -> int:
    try:
        domain = record.domain
    except BenoError:
        return len(record["g"])
    stored, found = (_half_steps(one, record.resolution) for one in (record["centres"], domain.panels.centres))
    return len(stored - found)


def _half_steps(centres: Float[np.ndarray, "p 2"], resolution: int) -> set[tuple[int, int]]:
    return {(i, j) for i, j in np.rint(2 * resolution * np.clip(centres, -1.0, 2.0)).astype(int).tolist()}


def _misfit_by_direction(
    claimed: Claimed, missing: Float[np.ndarray, " n"], walls: Int[np.ndarray, " n"]
) -> Float[np.ndarray, " 4"]:
    """The largest misfit of g over cells with one wall; NaN in a direction that has none."""
    panels = claimed.solution.problem.domain.panels
    alone = walls[panels.cell] == 1
    misfit = np.full(4, np.nan)
    np.fmax.at(misfit, panels.direction[alone], (missing[panels.cell] / claimed.system.wall_weight)[alone])
    return misfit


def _fingerprint(record: Record) -> bytes:
    """Equal for equal problems, whatever the order of their points."""
    ordered = taken(record.values, points=record.grid_order, panels=slice(None))
    digest = sha256()
    for name, values in ordered.items():
        if name != "u":
            digest.update(np.round(values.astype(float), 9).tobytes())
    return digest.digest()
