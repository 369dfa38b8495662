"""The Triton kernels against plain PyTorch. They need Triton, and a GPU or its interpreter on the CPU
(TRITON_INTERPRET=1); elsewhere there is nothing to test, since nothing uses them."""

import os

import pytest
import torch
from torch.nn import functional

from beno.nn.branch import BranchLinear
from beno.nn.segments import to_edges
from tests.learning import batches_of, solutions_of

pytest.importorskip("triton", reason="Triton is not installed")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not (torch.cuda.is_available() or INTERPRETED):
    pytest.skip("no GPU, and TRITON_INTERPRET is not set", allow_module_level=True)

fused = pytest.importorskip("beno.nn.triton.graph")
fused_rows = pytest.importorskip("beno.nn.triton.rows")
DEVICE = "cpu" if INTERPRETED else "cuda"


def random(*shape):
    return (torch.randn(*shape, device=DEVICE) / 2).requires_grad_()


def worst(ours, theirs):
    return max(((a.float() - b).abs().max() / b.abs().max()).item() for a, b in zip(ours, theirs, strict=True))


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
@pytest.mark.parametrize("second", [False, True])
@pytest.mark.parametrize("gather", [False, True])
@pytest.mark.parametrize("activate", [False, True])
def test_a_fused_layer_and_its_gradients_are_the_plain_ones(dtype, second, gather, activate):
    torch.manual_seed(0)
    wiring = batches_of(solutions_of(1)).batch().wiring.repeat(2)
    for name in ("receiver", "sender", "reverse", "start"):
        setattr(wiring, name, getattr(wiring, name).to(DEVICE))
    edges, nodes = len(wiring.receiver), len(wiring.start) - 1
    x1, w1, x2, w2 = random(edges, 32), random(2, 32, 16), random(edges, 32), random(2, 32, 16)
    bias, a, c = random(2, 1, 16), random(nodes, 16), random(nodes, 16)
    ours = fused.FusedLinear.apply(
        x1, w1, x2 if second else None, w2 if second else None, bias,
        a if gather else None, c if gather else None, wiring if gather else None, activate, dtype,
    )  # fmt: skip
    act = functional.silu if activate else (lambda x: x)
    theirs = torch.baddbmm(bias, act(x1).view(2, -1, 32), w1)
    if second:
        theirs = torch.baddbmm(theirs, act(x2).view(2, -1, 32), w2)
    theirs = theirs.view(-1, 16)
    if gather:
        theirs = theirs + to_edges(a, c, wiring)
    inputs = [x1, w1, bias, *([x2, w2] if second else []), *([a, c] if gather else [])]
    along = torch.randn_like(theirs)
    gradients = torch.autograd.grad((ours.float() * along).sum(), inputs)
    expected = torch.autograd.grad((theirs * along).sum(), inputs)
    exact = dtype == torch.float32 and INTERPRETED  # a GPU rounds single precision to TF32 for its products
    assert worst([ours, *gradients], [theirs, *expected]) < (1e-4 if exact else 5e-3)


@pytest.mark.parametrize("residual", [False, True])
def test_a_fused_norm_and_its_gradients_are_the_plain_ones(residual):
    torch.manual_seed(0)
    x, gain, shift, other = random(2 * 150, 32), random(2, 1, 32), random(2, 1, 32), random(2 * 150, 32)
    ours = fused.FusedNorm.apply(x, gain, shift, other if residual else None)
    theirs = torch.addcmul(shift, functional.layer_norm(x, (32,)).view(2, -1, 32), gain).view(-1, 32)
    if residual:
        theirs = theirs + other
    inputs = [x, gain, shift, *([other] if residual else [])]
    along = torch.randn_like(theirs)
    gradients = torch.autograd.grad((ours * along).sum(), inputs)
    expected = torch.autograd.grad((theirs * along).sum(), inputs)
    assert worst([ours, *gradients], [theirs, *expected]) < 1e-4


def test_a_weighted_sum_over_neighbours_is_the_plain_one():
    torch.manual_seed(0)
    wiring = batches_of(solutions_of(1)).batch().wiring
    start, sender = wiring.start.to(DEVICE), wiring.sender.to(DEVICE)
    values, weight = random(len(start) - 1, 32).detach(), random(len(sender), 1).detach()
    expected = torch.zeros_like(values).index_add(0, wiring.receiver.to(DEVICE), weight * values[sender])
    assert worst([fused_rows.segment_sum(values, start, sender, weight)], [expected]) < 1e-5


def test_rows_are_gathered_from_one_place_or_two():
    torch.manual_seed(0)
    a, c, x = (torch.randn(50, 16, device=DEVICE) for _ in range(3))
    here, there = (torch.randint(-1, 50, (50,), device=DEVICE) for _ in range(2))
    from_a = torch.where((here < 0)[:, None], 0, a[here])
    gate = x.sigmoid()
    assert worst([fused_rows.gather(a, here)], [from_a]) < 1e-6
    from_c = torch.where((there < 0)[:, None], 0, c[there])
    assert worst([fused_rows.gather(a, here, c, there)], [from_a + from_c]) < 1e-6
    assert worst([fused_rows.gather(a, here, at_slope_of=x)], [from_a * gate * (1 + x * (1 - gate))]) < 2e-3


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_long_segments_are_made_in_pieces(dtype):
    torch.manual_seed(0)
    start = torch.tensor([0, 0, 700, 703, 1500], device=DEVICE)
    values = torch.randn(1500, 16, device=DEVICE).to(dtype)
    segment = torch.repeat_interleave(start.diff())
    expected = torch.zeros(4, 16, device=DEVICE).index_add(0, segment, values.float())
    ours = fused_rows.segment_sum(values, start)
    assert ours.dtype == dtype
    assert worst([ours], [expected]) < (1e-5 if dtype == torch.float32 else 1e-2)
    if dtype == torch.float32:
        expected = torch.zeros(4, 16, device=DEVICE).index_add(0, segment, functional.silu(values))
        assert worst([fused_rows.segment_sum(values, start, activate=True)], [expected]) < 2e-3


@pytest.mark.parametrize("activate", [False, True])
def test_a_layer_with_few_inputs_is_padded_to_the_kernels(activate):
    if INTERPRETED:
        pytest.skip("the kernels are chosen on a GPU alone")
    torch.manual_seed(0)
    layer, rows = BranchLinear(2, 4, 32).to(DEVICE), random(2 * 100, 4)
    plain = layer(rows, activate=activate)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert layer._can_fuse((rows,))
        ours = layer(rows, activate=activate)
    inputs = [rows, *layer.parameters()]
    gradients = torch.autograd.grad(ours.float().square().sum(), inputs)
    expected = torch.autograd.grad(plain.square().sum(), inputs)
    assert worst([ours, *gradients], [plain, *expected]) < 3e-2
