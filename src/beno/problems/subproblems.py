"""Every part of a solved problem is a solved problem, whose walls read their values off the solution.

At a wall that the part has and the whole has not, the value is the one between the two cells beside it for
which the scheme's flow is kept: so the part satisfies the scheme as the whole does, to rounding.
"""

import numpy as np
from jaxtyping import Bool, Int
from scipy import ndimage

from beno.geometry.grid import Domain, corner_of
from beno.problems.fields import taken
from beno.problems.solution import Solution
from beno.problems.walls import Kind
from beno.support.errors import BenoError

SMALLEST_SIDE = 0.3  # of a random window, as a share of the domain's
CUT_PROBABILITY = 0.5  # of each corner of a window that has cuts
SMALLEST_CUT, LARGEST_CUT = 0.1, 0.45  # as shares of the window's sides
SMALLEST_HOLES, LARGEST_HOLES = 0.05, 0.5  # what a blob leaves out, as shares of the box
MOST_DRAWS = 50


def part_of(solution: Solution, inside: Bool[np.ndarray, "N N"], new_walls: Kind = Kind.DIRICHLET) -> Solution:
    """The solution on those of its cells that are inside, with new walls of a kind, Dirichlet or Neumann."""
    problem, whole, part = solution.problem, solution.problem.domain, Domain.from_mask(inside)
    if (part.mask & ~whole.mask).any():
        raise BenoError("the part has cells that the whole has not")
    if new_walls == Kind.ROBIN:
        raise BenoError("new walls may be Dirichlet or Neumann; a Robin wall would need an alpha")
    kept = np.flatnonzero(part.mask[whole.mask])
    cell, direction = kept[part.panels.cell], part.panels.direction  # as the whole numbers them
    before = whole.panel_at[cell, direction]  # -1, the last, at new walls, where it is not used
    is_new = before < 0
    here, there = solution.u[cell], solution.u[whole.neighbours[cell, direction]]
    value = (here + there) / 2 if new_walls == Kind.DIRICHLET else (there - here) / whole.spacing
    values = taken(solution.values, kept, before)
    values["kind"] = np.where(is_new, new_walls, values["kind"]).astype(values["kind"].dtype)
    values["alpha"] = np.where(is_new, 0.0, values["alpha"])
    values["g"] = np.where(is_new, value, values["g"])
    values |= problem.law.at_new_panels(values, is_new, problem.law.on_faces(whole)[cell, direction])
    return Solution.from_values(part, values)


def with_parts(solution: Solution, parts: int, seed: int) -> list[Solution]:
    """The solution, and after it so many parts of it, each moved to some place, the same ones for the same seed."""
    rng = np.random.default_rng(seed)
    problem = solution.problem
    new_walls = Kind.NEUMANN if problem.walls.kinds == {Kind.NEUMANN} else Kind.DIRICHLET
    drawn = (part_of(solution, random_part(rng, problem.domain), new_walls) for _ in range(parts))
    return [solution, *(shifted(part, random_move(rng, part.problem.domain)) for part in drawn)]


def shifted(solution: Solution, cells: Int[np.ndarray, " 2"]) -> Solution:
    """The same problem so many cells further on: the equation does not mind."""
    domain = solution.problem.domain
    mask = np.zeros_like(domain.mask)
    mask[tuple((domain.cells + cells).T)] = True
    return Solution.from_values(Domain.from_mask(mask), solution.values)


def random_move(rng: np.random.Generator, domain: Domain) -> Int[np.ndarray, " 2"]:
    """Along each axis to either end of the box or, as often, anywhere: so places are seen that the whole has not."""
    least, most = -domain.cells.min(axis=0), domain.resolution - 1 - domain.cells.max(axis=0)
    anywhere = rng.integers(least, most + 1)
    return np.choose(rng.integers(3, size=2), (least, most, anywhere))


def random_part(rng: np.random.Generator, domain: Domain) -> Bool[np.ndarray, "N N"]:
    """The largest piece of what a rectangle shows of the domain.

    In equal shares a window of any place and size, a window with some of its corners cut away, a rectangle
    that lies inside the domain and reaches its walls on every side, or what a window shows of a blob with holes.
    """
    most_panels = 4 * domain.resolution  # as many as a window of the whole box has
    for _ in range(MOST_DRAWS):
        form = int(rng.integers(4))
        inside = _full_rectangle(rng, domain) if form == 0 else _window(rng, domain, with_cuts=form == 1)
        if form == 3:
            inside &= _blob(rng, domain.resolution)
        inside = _largest_piece(inside & domain.mask)
        large = inside.sum() >= SMALLEST_SIDE**2 / 2 * domain.mask.sum()
        if large and _is_sound(inside) and len(Domain.from_mask(inside).panels) <= most_panels:
            return inside
    return domain.mask


def _window(rng: np.random.Generator, domain: Domain, with_cuts: bool) -> Bool[np.ndarray, "N N"]:
    low, high = domain.cells.min(axis=0), domain.cells.max(axis=0) + 1
    size = np.ceil(rng.uniform(SMALLEST_SIDE, 1, size=2) * (high - low)).astype(int)
    start = low + rng.integers(0, high - low - size + 1)
    window = np.ones(size, dtype=bool)
    for corner in range(4):
        cut = np.round(rng.uniform(SMALLEST_CUT, LARGEST_CUT, size=2) * size).astype(int)
        if with_cuts and rng.random() < CUT_PROBABILITY and cut.min() > 0:
            window[corner_of(corner, *cut.tolist())] = False
    inside = np.zeros_like(domain.mask)
    inside[start[0] : start[0] + size[0], start[1] : start[1] + size[1]] = window
    return inside


def _blob(rng: np.random.Generator, resolution: int) -> Bool[np.ndarray, "N N"]:
    """Where a smooth random field is not small."""
    field = ndimage.gaussian_filter(rng.normal(size=(resolution, resolution)), resolution / 8, mode="nearest")
    return field > np.quantile(field, rng.uniform(SMALLEST_HOLES, LARGEST_HOLES))


def _full_rectangle(rng: np.random.Generator, domain: Domain) -> Bool[np.ndarray, "N N"]:
    """Grown from a random cell as far as it goes along one axis, and then along the other."""
    swap = bool(rng.integers(2))
    mask = domain.mask.T if swap else domain.mask
    i, j = rng.permutation(np.argwhere(mask))[0].tolist()
    first, last = _run_around(mask[:, j], i)
    below, above = _run_around(np.all(mask[first:last], axis=0), j)
    inside = np.zeros_like(mask)
    inside[first:last, below:above] = True
    return inside.T if swap else inside


def _run_around(line: Bool[np.ndarray, " N"], place: int) -> tuple[int, int]:
    """Where the unbroken run of True that holds the place begins and ends."""
    outside = np.flatnonzero(~line)
    return int(outside[outside < place].max(initial=-1)) + 1, int(outside[outside > place].min(initial=len(line)))


def _largest_piece(inside: Bool[np.ndarray, "N N"]) -> Bool[np.ndarray, "N N"]:
    pieces, count = ndimage.label(inside)
    if count < 2:
        return inside
    return pieces == 1 + np.argmax(np.bincount(pieces.ravel())[1:])


def _is_sound(inside: Bool[np.ndarray, "N N"]) -> bool:
    try:
        Domain.from_mask(inside)
    except BenoError:
        return False
    return True
