"""The shapes of the gallery are the same shapes at every resolution."""

import numpy as np
import pytest

from beno.geometry.gallery import SHAPES


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_one_area_and_as_many_rings_at_every_resolution(name):
    coarse, fine = SHAPES[name](32), SHAPES[name](64)
    assert coarse.area == pytest.approx(fine.area, abs=0.05)
    assert len(coarse.panels.ring_lengths) == len(fine.panels.ring_lengths) == (2 if name == "ring" else 1)


def test_no_shape_is_another_one():
    assert len({np.packbits(shape(32).mask).tobytes() for shape in SHAPES.values()}) == len(SHAPES)
