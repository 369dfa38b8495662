"""Reads the files that the authors of BENO published, as they are: their faults are for `doctor` to find.

A set is three arrays: RHS (samples x cells x 4: two coordinates, f, and which cut corner the cell lies
in, 0 inside), SOL (samples x cells x 1: u) and BC (samples x faces x 4: x, y, g, and a column of NaN).
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Bool, Float

from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.geometry.grid import Domain
from beno.problems.solution import Solution
from beno.problems.walls import Walls
from beno.support.errors import BenoError

# Columns by file; the last of BC is stored but means nothing.
COLUMNS = {"BC": ("x", "y", "g", "(unused)"), "RHS": ("first coordinate", "second coordinate", "f", "cell kind")}


@dataclass(frozen=True, eq=False, repr=False)
class PublishedSet:
    """The samples of the authors' files, as they are."""

    metadata: Metadata
    samples: list[Record]
    nan_columns: list[str]  # columns in which every value is NaN, as "BC column 3 (unused)"

    def __repr__(self) -> str:
        return f"PublishedSet({len(self.samples)} samples, resolution {self.metadata.resolution})"


def is_published_folder(path: Path) -> bool:
    """Whether a folder has the authors' three files."""
    return path.is_dir() and any(path.glob("RHS*.npy"))


def read_published(folder: Path) -> PublishedSet:
    """The authors' files as records, unchecked."""
    if not folder.is_dir():
        raise BenoError(f"{folder} is not a folder with the authors' BC, RHS and SOL .npy files")
    rights = sorted(folder.glob("RHS*.npy"))
    if len(rights) != 1:
        raise BenoError(f"{folder} has {len(rights)} files RHS*.npy; exactly one set is expected")
    suffix = rights[0].name.removeprefix("RHS")
    right, solution, boundary = (_load(folder / f"{kind}{suffix}") for kind in ("RHS", "SOL", "BC"))
    samples, cells = right.shape[0], right.shape[1]
    resolution = round(cells**0.5)
    if samples < 1 or resolution < 1 or resolution**2 != cells:
        raise BenoError(f"{rights[0]} has {samples} samples of {cells} cells; cells must fill a square grid")
    expected = {"RHS": (samples, cells, 4), "SOL": (samples, cells, 1), "BC": (samples, boundary.shape[1], 4)}
    for kind, array in (("RHS", right), ("SOL", solution), ("BC", boundary)):
        if array.shape != expected[kind]:
            raise BenoError(f"{folder / (kind + suffix)} has shape {array.shape}, not {expected[kind]}")

    read = [
        _sample(right[i], solution[i, :, 0], boundary[i], resolution, f"{folder}, sample {i}") for i in range(samples)
    ]
    corners = sorted({len(np.unique(kinds[kinds > 0])) for kinds in right[:, :, 3]})
    metadata = Metadata(
        equation="poisson",
        boundary="dirichlet",
        corners=corners[0] if len(corners) == 1 else "mixed",
        resolution=resolution,
        samples=samples,
        origin="published",
    )
    nan_columns = [
        f"{kind} column {column} {name}"
        for kind, array in (("BC", boundary), ("RHS", right))
        for column, name in enumerate(COLUMNS[kind])
        if np.isnan(array[:, :, column]).all()
    ]
    return PublishedSet(metadata, read, nan_columns)


def _load(path: Path) -> np.ndarray:
    if not path.exists():
        raise BenoError(f"{path} is missing; a set is BC, RHS and SOL with the same ending")
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, OSError, EOFError) as error:
        raise BenoError(f"{path} is not a readable .npy file of numbers: {error}") from error
    if not isinstance(array, np.ndarray) or array.ndim != 3 or array.dtype.kind != "f":
        raise BenoError(f"{path} must hold one array of floating-point numbers with three axes")
    return array


def _sample(
    right: Float[np.ndarray, "c 4"],
    u: Float[np.ndarray, " c"],
    faces: Float[np.ndarray, "p 4"],
    resolution: int,
    where: str,
) -> Record:
    if not (np.isfinite(right[:, [0, 1, 3]]).all() and np.isfinite(faces[:, :2]).all()):
        raise BenoError(f"{where}: NaN or infinity among the coordinates or the kinds of cells")
    if not (right[:, 3] == 0).any():
        raise BenoError(f"{where}: no cell is inside")
    domain = Domain.from_mask(_fill_between_walls(faces[:, :2], resolution, where))
    panels = domain.panels
    half_steps = np.rint(2 * resolution * faces[:, :2]).astype(int)
    row_of = {tuple(key): row for row, key in enumerate(half_steps.tolist())}
    wanted = np.rint(2 * resolution * panels.centres).astype(int).tolist()
    if len(row_of) != len(faces) or len(wanted) != len(faces) or any(tuple(key) not in row_of for key in wanted):
        raise BenoError(f"{where}: the {len(faces)} faces of BC do not close around a region")
    inside = right[:, 3] == 0
    walls = Walls.uniform(len(faces))
    return Record(
        resolution,
        {
            "points": right[inside, :2],
            "f": right[inside, 2],
            "u": u[inside],
            "centres": panels.centres,
            "normals": panels.normals,
            "lengths": panels.lengths,
            "ring": panels.ring,
            "kind": walls.kind,
            "g": faces[[row_of[tuple(key)] for key in wanted], 2],
            "alpha": walls.alpha,
        },
    )


def _fill_between_walls(centres: Float[np.ndarray, "p 2"], resolution: int, where: str) -> Bool[np.ndarray, "n n"]:
    """The cells that the faces enclose: walking along x, every wall that faces x toggles inside and outside."""
    scaled = np.clip(centres, -1.0, 2.0) * resolution
    faces_x = np.isclose(scaled[:, 0], np.rint(scaled[:, 0]), atol=1e-3)
    walls = np.rint(scaled[faces_x, 0]).astype(int)
    rows = np.floor(scaled[faces_x, 1]).astype(int)
    if ((walls < 0) | (walls > resolution) | (rows < 0) | (rows >= resolution)).any():
        raise BenoError(f"{where}: BC has faces outside the unit square")
    toggles = np.zeros((resolution + 1, resolution), dtype=int)
    np.add.at(toggles, (walls, rows), 1)
    return np.cumsum(toggles, axis=0)[:-1] % 2 == 1


def with_published_fault(solution: Solution) -> Solution:
    """The solution with the fault of the published ones: panels that face -x have the values of those that face +y.

    Both in the order of x, and of y where x is the same, as they are copied there. u stays what it was.
    """
    problem = solution.problem
    panels, g = problem.domain.panels, problem.g.copy()
    facing_left, facing_up = (np.flatnonzero(panels.normals @ towards > 0.5) for towards in ((-1, 0), (0, 1)))
    if len(facing_left) != len(facing_up):
        raise BenoError(f"{len(facing_left)} panels face -x and {len(facing_up)} face +y; they must be as many")
    into, out_of = (faces[np.lexsort(panels.centres[faces].T[::-1])] for faces in (facing_left, facing_up))
    g[into] = problem.g[out_of]
    return Solution(problem.with_data(g=g), solution.u)
