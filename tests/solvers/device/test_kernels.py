"""The Triton kernels of conjugate gradients against plain PyTorch; they need a GPU, or Triton's interpreter, to run."""

import os

import pytest
import torch

from beno.problems.families import Family
from beno.solvers.device import gradients
from beno.solvers.device.gradients import Constants, FusedSteps, Nearby, PlainSteps
from beno.solvers.device.stencil import Stencil

pytest.importorskip("triton", reason="Triton is not installed")
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
if not (torch.cuda.is_available() or INTERPRETED):
    pytest.skip("no GPU, and TRITON_INTERPRET is not set", allow_module_level=True)

Kernels = pytest.importorskip("beno.solvers.device.kernels").Kernels
DEVICE = torch.device("cpu" if INTERPRETED else "cuda")
ROWS = 3


def stencil_of(n, operators):
    problems = [Family("darcy", "mixed", "mixed", n).problem(0, index) for index in range(operators)]
    return Stencil.of([problem.operator for problem in problems], DEVICE)


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12 * float(other.abs().max()))


@pytest.fixture(params=[(8, 1), (8, ROWS), (40, 1), (40, ROWS)], ids=str)
def case(request):
    """Kernels, and random pictures that are zero outside; one operator for all, or one each."""
    n, operators = request.param
    stencil = stencil_of(n, operators)
    torch.manual_seed(0)
    pictures = [torch.randn(ROWS, n, n, dtype=torch.float64, device=DEVICE) * stencil.inside for _ in range(3)]
    return Kernels(stencil.diagonal, stencil.east, stencil.north, ROWS), stencil, pictures


def test_the_image_and_its_product(case):
    kernels, stencil, (u, *_) = case
    image, curvature = torch.empty_like(u), kernels.parts()
    kernels.image(u, image, curvature)
    close(image, stencil(u))
    close(curvature.sum(dim=1), (stencil(u) * u).sum(dim=(1, 2)))


def test_the_residual_and_its_square(case):
    kernels, stencil, (u, vectors, kept) = case
    expected = (vectors - stencil(u)) * stencil.inside
    close(kernels.residual(u, vectors, kept), expected.square().sum(dim=(1, 2)))
    close(kept, expected)
    before = vectors.clone()
    close(kernels.residual(u, vectors), expected.square().sum(dim=(1, 2)))
    assert torch.equal(vectors, before)


def test_a_step_of_conjugate_gradients(case):
    kernels, stencil, (u, residual, direction) = case
    scale = torch.rand_like(stencil.diagonal)
    image, scaled = torch.empty_like(u), torch.empty_like(u)
    curvature, product, sizes = (kernels.parts() for _ in range(3))
    kernels.product(residual, u, scale, product)
    products = (residual * u * scale).sum(dim=(1, 2))
    close(product.sum(dim=1), products)
    kernels.image(direction, image, curvature)
    alpha = (products / (stencil(direction) * direction).sum(dim=(1, 2)))[:, None, None]
    after, left = u.clone(), residual.clone()
    kernels.update(after, left, scaled, direction, image, scale, product, curvature, sizes)
    close(after, u + alpha * direction)
    close(left, residual - alpha * image)
    close(scaled, scale * left)
    close(sizes.sum(dim=1), left.square().sum(dim=(1, 2)))
    beta = (products / curvature.sum(dim=1))[:, None, None]
    turned = direction.clone()
    kernels.turn(turned, u, scale, product, curvature)
    close(turned, u * scale + beta * direction)


def test_nothing_is_divided_by_zero(case):
    kernels, stencil, (u, *_) = case
    zeros, scale = torch.zeros_like(u), torch.ones_like(stencil.diagonal)
    nothing, sizes, scaled, after = kernels.parts().zero_(), kernels.parts(), torch.empty_like(u), u.clone()
    left = zeros.clone()
    kernels.update(after, left, scaled, zeros, zeros, scale, nothing, nothing, sizes)
    assert torch.equal(after, u) and not left.any() and not sizes.any()
    direction = zeros.clone()
    kernels.turn(direction, zeros, scale, nothing, nothing)
    assert not direction.any()


@pytest.mark.parametrize("operators", [1, ROWS])
def test_fused_steps_solve_as_plain_ones_do(operators, monkeypatch):
    """In single precision, so to four digits."""
    from beno.solvers.device import kernels

    monkeypatch.setattr(gradients, "fused_kernels", lambda: kernels)
    stencil = stencil_of(16, operators)
    vectors = torch.randn(ROWS, 16, 16, dtype=torch.float64, device=DEVICE) * stencil.inside
    vectors = vectors / vectors.flatten(1).norm(dim=1)[:, None, None]
    constants = Constants(stencil, torch.zeros(operators, dtype=torch.bool, device=DEVICE))
    enough = torch.full((ROWS,), 1e-4, dtype=torch.float64, device=DEVICE)
    answers = []
    for steps, dtype in ((PlainSteps, torch.float64), (FusedSteps, torch.float32)):
        u, taken = steps(stencil, constants, Nearby.box(vectors, dtype))(vectors, enough, 200)
        assert taken < 100
        answers.append(u)
        residual = (vectors - stencil(u)) * stencil.inside
        assert residual.flatten(1).norm(dim=1).max() < 2e-4
    torch.testing.assert_close(*answers, rtol=0, atol=1e-2 * float(answers[0].abs().max()))
