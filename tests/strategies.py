"""Random shapes, random operators, and random problems for them."""

import numpy as np
from benchmarks.hard_problems import mended
from hypothesis import assume
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.problem import Problem
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind, Walls

BOUNDARIES = ("dirichlet", "neumann", "robin", "mixed")
LAWS = ("poisson", "darcy")

seeds = st.integers(0, 2**32 - 1)


@st.composite
def masks(draw: st.DrawFn, smallest: int = 1, largest: int = 12) -> np.ndarray:
    """Connected masks without pinches: a square that rectangles were taken from, corners, edges and holes alike."""
    n = draw(st.integers(smallest, largest))
    place, size = st.integers(0, n - 1), st.integers(1, max(1, n // 3))
    mask = np.ones((n, n), dtype=bool)
    for i, j, width, height in draw(st.lists(st.tuples(place, place, size, size), max_size=8)):
        mask[i : i + width, j : j + height] = False
    assume(mask.any())
    return mended(mask)


def domains(smallest: int = 1, largest: int = 12) -> st.SearchStrategy[Domain]:
    return masks(smallest, largest).map(Domain.from_mask)


@st.composite
def problems(draw: st.DrawFn, boundaries: tuple[str, ...] = BOUNDARIES, smallest: int = 1) -> Problem:
    """Solvable problems with rough data: every value is drawn on its own."""
    domain = draw(domains(smallest))
    boundary, equation = draw(st.sampled_from(boundaries)), draw(st.sampled_from(LAWS))
    return random_problem(domain, equation, boundary, draw(seeds))


def random_problem(domain: Domain, equation: str, boundary: str, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    points, panels = len(domain.points), len(domain.panels)
    f, g = rng.normal(size=points), rng.normal(size=panels)
    kind, alpha = kinds(rng, boundary, panels), rng.uniform(0.1, 5, size=panels)
    if equation == "poisson":
        operator = poisson_operator(domain, kind, alpha)
    else:
        kappa, at_panels = np.exp(rng.uniform(-1, 1, size=points)), np.exp(rng.uniform(-1, 1, size=panels))
        operator = darcy_operator(domain, kappa, kind, alpha, kappa_at_panels=at_panels)
    return Problem(operator, RightHandSide(f, g)).balanced()


def random_right(operator: Elliptic, seed: int, rows: int | None = None) -> RightHandSide:
    """A right-hand side for which there is a solution, or a stack of so many rows."""
    rng = np.random.default_rng(seed)
    stack = () if rows is None else (rows,)
    f = rng.normal(size=(*stack, len(operator.domain.points)))
    return operator.balanced(RightHandSide(f, rng.normal(size=(*stack, len(operator.domain.panels)))))


def kinds(rng: np.random.Generator, boundary: str, panels: int) -> np.ndarray:
    """A kind for every panel; mixed kinds hold at least one Dirichlet panel."""
    if boundary != "mixed":
        return np.full(panels, Kind[boundary.upper()])
    kind = rng.integers(len(Kind), size=panels)
    kind[rng.integers(panels)] = Kind.DIRICHLET
    return kind


def random_walls(rng: np.random.Generator, boundary: str, panels: int) -> Walls:
    kind = kinds(rng, boundary, panels)
    return Walls(kind, np.where(kind == Kind.ROBIN, rng.uniform(0.1, 5, size=panels), 0.0))


def with_operator(problem: Problem, **changes: object) -> Problem:
    """The same data for another operator, which differs from the problem's in its domain, law or walls."""
    parts = {"domain": problem.operator.domain, "law": problem.law, "walls": problem.walls}
    return Problem(Elliptic(**(parts | changes)), problem.right)


def annulus(resolution: int = 8) -> Domain:
    """The square with a hole in it, a quarter of a side wide."""
    mask = np.ones((resolution, resolution), dtype=bool)
    hole = slice(3 * resolution // 8, 5 * resolution // 8)
    mask[hole, hole] = False
    return Domain.from_mask(mask)


def disc(panels: int = 80, radius: float = 0.4) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Fifty points in a disc, and the centres, normals and lengths of its panels, which are slanted and unequal."""
    ends = np.linspace(0, 2 * np.pi, panels + 1) + 0.1 * np.sin(3 * np.linspace(0, 2 * np.pi, panels + 1))
    corners = radius * np.stack([np.cos(ends), np.sin(ends)], axis=1)
    along = np.diff(corners, axis=0)
    lengths = np.hypot(*along.T)
    normals = np.stack([along[:, 1], -along[:, 0]], axis=1) / lengths[:, None]
    rng = np.random.default_rng(0)
    angle, r = rng.uniform(0, 2 * np.pi, 50), radius * 0.9 * np.sqrt(rng.uniform(0, 1, 50))
    points = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
    return points, (corners[1:] + corners[:-1]) / 2, normals, lengths
