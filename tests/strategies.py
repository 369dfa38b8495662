"""Random shapes and random problems on them."""

import numpy as np
from hypothesis import assume
from hypothesis import strategies as st
from scipy import ndimage

from beno.geometry.grid import Domain
from beno.problems.problem import Kind, Problem, darcy, poisson

BOUNDARIES = ("dirichlet", "neumann", "robin", "mixed")

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
    boundary, equation = draw(st.sampled_from(boundaries)), draw(st.sampled_from(("poisson", "darcy")))
    return random_problem(domain, equation, boundary, draw(seeds))


def random_problem(domain: Domain, equation: str, boundary: str, seed: int) -> Problem:
    rng = np.random.default_rng(seed)
    points, panels = len(domain.points), len(domain.panels)
    f, g = rng.normal(size=points), rng.normal(size=panels)
    kind, alpha = kinds(rng, boundary, panels), rng.uniform(0.1, 5, size=panels)
    if equation == "poisson":
        return poisson(domain, f, g, kind, alpha).balanced()
    kappa, at_panels = np.exp(rng.uniform(-1, 1, size=points)), np.exp(rng.uniform(-1, 1, size=panels))
    return darcy(domain, kappa, f, g, kind, alpha, kappa_at_panels=at_panels).balanced()


def kinds(rng: np.random.Generator, boundary: str, panels: int) -> np.ndarray:
    """A kind for every panel; mixed kinds hold at least one Dirichlet panel."""
    if boundary != "mixed":
        return np.full(panels, Kind[boundary.upper()])
    kind = rng.integers(len(Kind), size=panels)
    kind[rng.integers(panels)] = Kind.DIRICHLET
    return kind


def mended(mask: np.ndarray) -> np.ndarray:
    """The largest part of a mask, every pinch of it filled by a cell."""
    parts, _ = ndimage.label(mask)
    mask = parts == np.bincount(parts[mask]).argmax()
    while True:
        lower_left, lower_right, upper_left, upper_right = mask[:-1, :-1], mask[1:, :-1], mask[:-1, 1:], mask[1:, 1:]
        pinched = (lower_left == upper_right) & (lower_right == upper_left) & (lower_left != lower_right)
        if not pinched.any():
            return mask
        i, j = np.argwhere(pinched)[0]
        mask[i : i + 2, j] = True


def annulus(resolution: int = 8) -> Domain:
    """The square with a hole in it, a quarter of a side wide."""
    mask = np.ones((resolution, resolution), dtype=bool)
    hole = slice(3 * resolution // 8, 5 * resolution // 8)
    mask[hole, hole] = False
    return Domain.from_mask(mask)
