"""A linear model as a matrix: it answers as the model does, row by row, on bare panels too, and has gradients."""

import inspect

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from beno.geometry.bare_panels import BarePanels
from beno.geometry.grid import Domain
from beno.learned.operator import LearnedOperator
from beno.problems.families import Family
from beno.problems.problem import darcy, poisson
from beno.problems.walls import Kind
from beno.support.errors import BenoError
from tests.learning import harmonic_operator
from tests.strategies import disc, domains, random_problem, random_right, seeds

CASES = [("poisson", "dirichlet"), ("poisson", "mixed"), ("poisson", "neumann"), ("darcy", "mixed")]
every_case = pytest.mark.parametrize(("equation", "boundary"), CASES, ids=lambda name: name)
on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")


def prepared_for(equation, boundary, seed=0, resolution=6):
    problem = random_problem(Domain.square(resolution, [(2, 1), None, None, None]), equation, boundary, seed)
    return harmonic_operator(equation, boundary).prepare(problem.operator), problem


@given(domains(2), st.sampled_from(["dirichlet", "neumann", "mixed"]), st.sampled_from(["poisson", "darcy"]), seeds)
def test_the_matrix_solves_as_the_operator_does(domain, boundary, equation, seed):
    operator, problem = harmonic_operator(equation, boundary), random_problem(domain, equation, boundary, seed)
    u = operator.solve(problem).u
    size = 1 + np.abs(u).max()
    prepared = operator.prepare(problem.operator)
    np.testing.assert_allclose(prepared(problem.right), u, atol=2e-5 * size)
    stacked = prepared.solve(np.stack([problem.f, 0 * problem.f]), np.stack([problem.g, 0 * problem.g]))
    np.testing.assert_allclose(stacked[0], u, atol=2e-5 * size)
    np.testing.assert_array_equal(stacked[1], 0.0)


@pytest.mark.parametrize("kappa", [None, lambda x, y: 1 + x * y], ids=["poisson", "darcy"])
def test_assembling_on_a_domain_is_preparing_for_its_operator(kappa):
    domain = Domain.square(8, [(2, 3), None, None, None])
    kind = np.where(domain.panels.normals[:, 0] > 0, Kind.ROBIN, Kind.DIRICHLET)
    data = {"f": 1.0, "g": 0.5, "kind": kind, "alpha": 2.0}
    problem = poisson(domain, **data) if kappa is None else darcy(domain, kappa, **data)
    operator = harmonic_operator(problem.law.name, "mixed")
    assembled = operator.assemble(domain, kind, 2.0, kappa)
    np.testing.assert_allclose(assembled.solve(1.0, 0.5), operator.solve(problem).u, atol=1e-5)


class TestTensors:
    @every_case
    @pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
    def test_a_tensor_comes_back_as_a_tensor_of_its_kind(self, equation, boundary, dtype):
        prepared, problem = prepared_for(equation, boundary)
        f, g = (torch.as_tensor(values, dtype=dtype) for values in (problem.f, problem.g))
        u = prepared.solve(f, g)
        assert isinstance(u, torch.Tensor) and (u.dtype, u.device) == (dtype, f.device)
        np.testing.assert_allclose(u, prepared(problem.right), atol=1e-4 * (1 + float(u.abs().max())))

    @every_case
    def test_arrays_come_back_as_arrays(self, equation, boundary):
        prepared, problem = prepared_for(equation, boundary)
        u = prepared(problem.right)
        assert isinstance(u, np.ndarray) and u.dtype == np.float64 and u.shape == problem.f.shape

    @every_case
    def test_its_gradients_are_those_of_finite_differences(self, equation, boundary):
        """In f and in g, of a stack of two rows; where a constant is free along right-hand sides in balance."""
        prepared, problem = prepared_for(equation, boundary)
        prepared.matrix = prepared.matrix.double()  # finite differences need the digits
        rows = random_right(problem.operator, seed=1, rows=2)
        f, g = (torch.as_tensor(values).requires_grad_() for values in (rows.f, rows.g))

        def u(f, g):
            return prepared(problem.operator.balanced(problem.operator.right(f, g)))

        assert torch.autograd.gradcheck(u, (f, g), atol=1e-6)

    @every_case
    def test_a_gradient_in_g_alone_needs_no_tensor_for_f(self, equation, boundary):
        prepared, problem = prepared_for(equation, boundary)
        g = torch.as_tensor(problem.g).requires_grad_()
        u = prepared.solve(problem.f, g)
        (slope,) = torch.autograd.grad(u.square().sum(), g)
        assert slope.shape == g.shape and slope.isfinite().all() and slope.any()

    def test_a_source_can_be_found_by_its_gradient(self):
        """A small inverse problem: from u alone back to the u of the f that was hidden."""
        prepared, problem = prepared_for("darcy", "dirichlet")
        f, g = torch.as_tensor(problem.f), torch.zeros(len(problem.g), dtype=torch.float64)
        truth = prepared.solve(f, g)
        guess = torch.zeros_like(f).requires_grad_()
        optimizer = torch.optim.LBFGS([guess], lr=1.0, max_iter=60, line_search_fn="strong_wolfe")

        def loss():
            optimizer.zero_grad()
            off = (prepared.solve(guess, g) - truth).square().sum() / truth.square().sum()
            off.backward()
            return off

        assert float(loss().detach()) == pytest.approx(1.0)
        optimizer.step(loss)
        assert float(loss().detach()) < 1e-4

    @on_a_gpu
    @every_case
    def test_tensors_on_a_gpu_stay_there_and_have_gradients(self, equation, boundary):
        prepared, problem = prepared_for(equation, boundary)
        f, g = (torch.as_tensor(values, device="cuda").requires_grad_() for values in (problem.f, problem.g))
        u = prepared.solve(f, g)
        assert u.device == f.device and u.dtype == f.dtype
        slopes = torch.autograd.grad(u.sum(), (f, g))
        assert all(slope.device == f.device and slope.isfinite().all() for slope in slopes)


class TestStacks:
    def test_a_stack_is_answered_row_by_row(self):
        domain = Domain.square(8)
        assembled = harmonic_operator().assemble(domain)
        f, g = np.ones((3, len(domain.points))), np.ones((3, len(domain.panels)))
        assert assembled.solve(f, g).shape == f.shape
        assert assembled.solve(0.0, torch.ones(len(domain.panels))).shape == (len(domain.points),)
        with pytest.raises(BenoError, match="f has 3 rows and g has 2"):
            assembled.solve(f, g[:2])
        with pytest.raises(BenoError, match=r"f has shape \(1, 3, 64\); the domain has 64 points"):
            assembled.solve(f[None], g)

    @pytest.mark.parametrize("kind", [Kind.NEUMANN, Kind.DIRICHLET], ids=lambda kind: kind.label)
    def test_a_stack_of_no_rows_has_no_answers(self, kind):
        domain = Domain.square(8)
        assembled = harmonic_operator(boundary=kind.label).assemble(domain, kind=kind)
        none = np.zeros((0, len(domain.points))), np.zeros((0, len(domain.panels)))
        assert assembled.solve(*none).shape == none[0].shape
        assert assembled.solve(none[0], 0.0).shape == none[0].shape

    def test_each_row_must_be_in_balance_where_a_constant_is_free(self):
        free = harmonic_operator(boundary="neumann").assemble(Domain.square(8), Kind.NEUMANN)
        with pytest.raises(BenoError, match="integral of f"):
            free.solve(1.0, 0.0)
        assert abs(free.solve(lambda x, y: x - 0.5, 0.0).mean()) < 1e-6


class TestBarePanels:
    def test_unequal_slanted_panels_obey_the_maximum_principle(self):
        assembled = harmonic_operator().assemble(BarePanels.from_panels(*disc()))
        g = np.random.default_rng(1).normal(size=80)
        u = assembled.solve(0.0, g)
        assert g.min() - 1e-5 <= u.min() and u.max() <= g.max() + 1e-5
        np.testing.assert_allclose(assembled.solve(0.0, 2.0), 2.0, rtol=1e-5)

    def test_there_is_no_potential_for_f(self):
        with pytest.raises(BenoError, match="on bare panels there is no potential for f; it must be 0"):
            harmonic_operator().assemble(BarePanels.from_panels(*disc())).solve(1.0, 0.0)

    def test_walls_of_other_kinds_are_answered_as_on_a_grid(self):
        """Where nothing is left of the potential if f is 0 and no flow is given."""
        domain = Domain.square(8, [(2, 3), None, None, None])
        panels, operator = domain.panels, harmonic_operator(boundary="mixed")
        kind = np.where(panels.normals[:, 0] > 0, Kind.ROBIN, Kind.DIRICHLET)
        kind[panels.normals[:, 1] > 0] = Kind.NEUMANN
        g = np.where(kind == Kind.NEUMANN, 0.0, np.sin(np.arange(len(kind))))
        bare = BarePanels.from_panels(domain.points, panels.centres, panels.normals, panels.lengths)
        on_panels, on_grid = (operator.assemble(place, kind, 2.0).solve(0.0, g) for place in (bare, domain))
        np.testing.assert_allclose(on_panels, on_grid, atol=1e-5 * np.abs(on_grid).max())

    def test_what_it_was_not_trained_for_is_refused_there_too(self):
        bare = BarePanels.from_panels(*disc())
        mixed = harmonic_operator(boundary="mixed")
        with pytest.raises(BenoError, match="with some Dirichlet walls among the others"):
            mixed.assemble(bare, Kind.ROBIN, 1.0)
        with pytest.raises(BenoError, match="on bare panels there is no coefficient"):
            mixed.assemble(bare, kappa=1.0)
        kind = np.arange(80) % 3
        with pytest.raises(BenoError, match="trained for dirichlet walls, not for neumann and robin"):
            harmonic_operator().assemble(bare, kind, 2.0)

    def test_there_may_be_no_points(self):
        _, *panels = disc()
        bare = BarePanels.from_panels(np.empty((0, 2)), *panels)
        assert harmonic_operator().assemble(bare).solve(0.0, np.ones(80)).shape == (0,)


class TestRefused:
    @pytest.fixture
    def assembled(self):
        return harmonic_operator().assemble(Domain.square(8))

    def test_values_that_are_not_finite_are_refused(self, assembled):
        with pytest.raises(BenoError, match="g is nan at panel 3; it must be finite"):
            assembled.solve(0.0, np.where(np.arange(32) == 3, np.nan, 0.0))

    def test_values_for_another_domain_are_refused(self, assembled):
        with pytest.raises(BenoError, match=r"f has shape \(5,\); the domain has 64 points"):
            assembled.solve(np.zeros(5), 0.0)

    @pytest.mark.parametrize("size", [1e-300, 1e300])
    def test_numbers_beyond_single_precision_are_no_trouble(self, assembled, size):
        g = np.random.default_rng(0).normal(size=32)
        np.testing.assert_allclose(assembled.solve(0.0, size * g) / size, assembled.solve(0.0, g), rtol=1e-5, atol=1e-6)

    def test_what_is_no_domain_is_refused(self):
        with pytest.raises(BenoError, match="a list is no domain to assemble on; a Domain or BarePanels is needed"):
            inspect.unwrap(LearnedOperator.assemble)(harmonic_operator(), [1, 2])  # without the checks of the tests


def test_many_right_hand_sides_are_a_matrix_product_apart():
    """What is assembled once is not assembled again."""
    problem = Family(resolution=8).problem(0, 0)
    prepared = harmonic_operator().prepare(problem.operator)
    before = prepared.matrix
    prepared(problem.right), prepared(2 * problem.right)
    assert prepared.matrix is before and not before.requires_grad and before.dtype == torch.float32
