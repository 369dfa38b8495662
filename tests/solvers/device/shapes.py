"""Random operators on shapes that are hard on solvers: perforated, of thin teeth and corridors, of noise."""

import numpy as np
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from tests.strategies import BOUNDARIES, kinds, mended, seeds

SHAPES = ("square", "cut", "perforated", "comb", "corridors", "noise")


def shape(name: str, n: int, rng: np.random.Generator) -> Domain:
    mask = np.full((n, n), name != "corridors")
    if name == "cut":
        mask[rng.integers(n) :, rng.integers(1, n) :] = False
    elif name == "perforated":
        mask[1::3, 1::3] = False
    elif name == "comb":
        mask[1::2, :-1] = False
    elif name == "corridors":  # one cell wide
        mask[0], mask[n // 2], mask[:, n // 2] = True, True, True
    elif name == "noise":
        mask = rng.random((n, n)) > 0.3
        mask[n // 2, n // 2] = True
    return Domain.from_mask(mended(mask))


def in_pieces(contrast: float, seed: int):
    """Kappa that jumps by this factor between ninths of the square."""
    value = contrast ** np.random.default_rng(seed).integers(2, size=(3, 3)).astype(float)
    return lambda x, y: value[np.minimum((3 * x).astype(int), 2), np.minimum((3 * y).astype(int), 2)]


def smooth(contrast: float, seed: int):
    """Kappa between 1 and this."""
    phase = np.random.default_rng(seed).uniform(0, 6, size=2)
    return lambda x, y: contrast ** (0.5 + 0.5 * np.sin(4 * x + phase[0]) * np.cos(3 * y + phase[1]))


@st.composite
def operators(
    draw: st.DrawFn, kappa=None, contrast: float = 1000.0, largest: int = 20, boundaries: tuple[str, ...] = BOUNDARIES
) -> Elliptic:
    """Of Poisson's equation, or with a kappa of this kind; alpha of every size."""
    n, rng = draw(st.integers(3, largest)), np.random.default_rng(draw(seeds))
    domain = shape(draw(st.sampled_from(SHAPES)), n, rng)
    kind = kinds(rng, draw(st.sampled_from(boundaries)), len(domain.panels))
    one_for_all = draw(st.booleans())
    alpha = 10.0 ** rng.uniform(-6, 6, size=1 if one_for_all else len(domain.panels))
    alpha = np.broadcast_to(alpha, len(domain.panels))
    if kappa is None:
        return poisson_operator(domain, kind, alpha)
    return darcy_operator(domain, kappa(contrast, draw(seeds)), kind, alpha)
