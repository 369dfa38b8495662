"""The correction of the kernel begins at nothing, and is a function of each pair alone."""

import pytest
import torch

from beno.models.harmonic.config import HarmonicConfig
from beno.models.harmonic.pair_network import PairNetwork

SAMPLES, POINTS, PANELS = 2, 5, 7


@pytest.fixture(params=["dirichlet", "neumann", "mixed"])
def config(request):
    return HarmonicConfig(width=8, heads=2, pair_width=8, rank=3, boundary=request.param, coefficient=True)


def inputs(config):
    torch.manual_seed(0)
    shapes = ((SAMPLES, POINTS, 8), (SAMPLES, PANELS, 8), (SAMPLES, POINTS, PANELS, config.pair_features))
    return [torch.randn(shape) for shape in shapes]


def test_a_new_network_corrects_nothing(config):
    correction = PairNetwork(config)(*inputs(config))
    assert correction.shape == (SAMPLES, POINTS, PANELS, config.corrections) and not correction.any()


def test_each_pair_is_corrected_by_what_it_is_alone(config):
    pair, (points, panels, seen) = PairNetwork(config), inputs(config)
    for parameter in pair.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    together = pair(points, panels, seen)
    alone = pair(points[:, 2:3], panels[:, 4:6], seen[:, 2:3, 4:6])
    torch.testing.assert_close(alone, together[:, 2:3, 4:6])


def test_the_part_that_is_a_product_has_no_more_than_its_rank(config):
    pair, (points, panels, seen) = PairNetwork(config), inputs(config)
    torch.nn.init.normal_(pair.point_factor.weight)
    product = pair(points, panels, seen)  # the rest still says nothing
    for output in product.permute(0, 3, 1, 2).flatten(0, 1):
        assert torch.linalg.matrix_rank(output, rtol=1e-4) == 3
