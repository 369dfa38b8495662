"""The harmonic operator's Triton kernels against plain PyTorch; they need a GPU, or Triton's interpreter, to run."""

import os

import pytest
import torch

from beno.batches.panels import PanelBatches
from beno.datasets.scales import Scales
from beno.models.harmonic.config import HarmonicConfig
from beno.models.harmonic.frame import Frame
from beno.models.harmonic.pair_network import PairNetwork
from beno.nn.pairs import view
from beno.problems.walls import Kind
from tests.learning import solution_with_hole, solutions_of

pytest.importorskip("triton", reason="Triton is not installed")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not (torch.cuda.is_available() or INTERPRETED):
    pytest.skip("no GPU, and TRITON_INTERPRET is not set", allow_module_level=True)

fused_view = pytest.importorskip("beno.nn.triton.view").fused_view
FusedNorm = pytest.importorskip("beno.nn.triton.graph").FusedNorm
DEVICE = "cpu" if INTERPRETED else "cuda"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "mixed"])
@pytest.mark.parametrize("places", ["points", "centres"])
def test_the_fused_view_is_the_plain_one(boundary, places, count):
    solutions = solutions_of(count, boundary=boundary, resolution=12)
    solutions += [solution_with_hole(12)] if boundary == "dirichlet" and count > 1 else []
    batch = PanelBatches.of(solutions, Scales(), DEVICE).batch()
    frame, is_flux = Frame(batch), batch.kind == Kind.NEUMANN
    arguments = (getattr(frame, places), frame.centres, batch.normals, frame.lengths, frame.ends, is_flux)
    ours = fused_view(*arguments, with_flux=True, with_distance=True, half=False)
    theirs = view(*arguments)
    for name in ("features", "log_measure", "distance", "flux", "corner_flux"):
        a, b = getattr(ours, name), getattr(theirs, name)
        assert a.shape == b.shape
        assert (a - b).abs().max() < 2e-4 * (1 + b.abs().max()), name
    half = fused_view(*arguments, with_flux=False, with_distance=False, half=not INTERPRETED)
    assert (half.features.float() - theirs.features).abs().max() < 0.05 and half.flux.numel() == 0


@pytest.mark.parametrize("boundary, coefficient", [("dirichlet", False), ("neumann", False), ("mixed", True)])
def test_the_fused_pair_network_and_its_gradients_are_the_plain_ones(boundary, coefficient):
    torch.manual_seed(0)
    config = HarmonicConfig(width=16, heads=2, pair_width=32, rank=4, boundary=boundary, coefficient=coefficient)
    pair = PairNetwork(config).to(DEVICE)
    for parameter in pair.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    points = torch.randn(2, 13, 16, device=DEVICE, requires_grad=True)
    panels = torch.randn(2, 37, 16, device=DEVICE, requires_grad=True)
    seen = torch.randn(2, 13, 37, config.pair_features, device=DEVICE)
    weight = torch.randn(2, 13, 37, config.corrections, device=DEVICE)
    values, slopes = [], []
    for layers in (pair.through_layers, pair.fused):
        values.append(layers(points, panels, seen))
        used = [p for name, p in pair.named_parameters() if not name.endswith(("factor.weight", "factor.bias"))]
        slopes.append(torch.autograd.grad((values[-1] * weight).sum(), [points, panels, *used]))
    theirs, ours = values
    assert (ours - theirs).abs().max() < 5e-3 * theirs.abs().max()
    for theirs, ours in zip(*slopes, strict=True):
        assert (ours - theirs).abs().max() < 1e-2 * theirs.abs().max()


def test_a_fused_layer_norm_and_its_gradients_are_the_plain_ones():
    torch.manual_seed(0)
    norm = torch.nn.LayerNorm(32).to(DEVICE)
    torch.nn.init.normal_(norm.weight)
    torch.nn.init.normal_(norm.bias)
    x = torch.randn(3, 21, 32, device=DEVICE, requires_grad=True)
    weight = torch.randn_like(x)
    theirs = norm(x)
    ours = FusedNorm.apply(x.flatten(0, 1), norm.weight[None, None], norm.bias[None, None], None).view(x.shape)
    assert torch.allclose(ours, theirs, atol=1e-5)
    expected, slopes = (torch.autograd.grad((y * weight).sum(), [x, norm.weight, norm.bias]) for y in (theirs, ours))
    for one, other in zip(expected, slopes, strict=True):
        assert torch.allclose(one, other, atol=1e-4)
