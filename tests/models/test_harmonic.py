"""What the harmonic operator obeys by construction, with whatever weights."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.batches.panels import DenseCohort, Reduced
from beno.datasets.dataset import Metadata
from beno.datasets.records import Sample
from beno.datasets.scales import Scales
from beno.evaluation.metrics import relative_l2
from beno.geometry.bare_panels import Shape
from beno.geometry.grid import Domain
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models import make_config
from beno.models.harmonic.model import Harmonic, HarmonicConfig
from beno.problems.families import Family
from beno.problems.problem import Kind, darcy, poisson
from beno.solvers.finite_volumes import solve
from beno.support.errors import BenoError
from tests.learning import sample_with_hole, samples_of
from tests.strategies import domains, random_problem, seeds

SMALL = {"width": 16, "layers": 1, "heads": 2, "pair_width": 8, "rank": 4}


def operator_for(equation="poisson", boundary="dirichlet", seed=0, **changes):
    """With random weights everywhere, those that start at zero included."""
    metadata = Metadata.of_family(Family(equation, boundary, resolution=8), 0, 1)
    config = HarmonicConfig(**{**SMALL, **HarmonicConfig.settings_for(metadata), **changes})
    torch.manual_seed(seed)
    model = Harmonic(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return LearnedOperator(Header("harmonic", vars(config), Scales(solution=0.7), metadata), model)


def samples_for(boundary="dirichlet", equation="poisson", count=3):
    return samples_of(count, equation=equation, boundary=boundary)


@given(domains(2), seeds, seeds)
def test_dirichlet_obeys_the_maximum_principle_and_keeps_constants(domain, seed, weights):
    operator = operator_for(seed=weights)
    g = np.random.default_rng(seed).normal(size=len(domain.panels))
    u = operator.solve(poisson(domain, g=g)).u
    assert g.min() - 1e-5 <= u.min() and u.max() <= g.max() + 1e-5
    np.testing.assert_allclose(operator.solve(poisson(domain, g=3.0)).u, 3.0, rtol=1e-5)
    matrix = operator.assemble(domain).matrix
    assert (matrix >= 0).all() and torch.allclose(matrix.sum(dim=1), torch.ones(len(matrix)), atol=1e-5)


@settings(deadline=None)
@given(
    domains(2),
    st.sampled_from(["dirichlet", "neumann", "robin", "mixed"]),
    st.sampled_from(["poisson", "darcy"]),
    seeds,
)
def test_it_is_linear_in_f_and_g(domain, boundary, equation, seed):
    operator = operator_for(equation, boundary)
    one = random_problem(domain, equation, boundary, seed)
    rng = np.random.default_rng(seed)
    f, g = rng.normal(size=len(one.source)), rng.normal(size=len(one.g))
    other = replace(one, source=f, g=g).balanced()
    both = replace(one, source=2 * one.source - other.source, g=2 * one.g - other.g).balanced()
    expected = 2 * operator.solve(one).u - operator.solve(other).u
    size = 1 + np.abs(operator.solve(one).u).max() + np.abs(operator.solve(other).u).max()
    np.testing.assert_allclose(operator.solve(both).u, expected, atol=3e-4 * size)


@settings(deadline=None)
@given(domains(2), st.sampled_from(["dirichlet", "neumann", "mixed"]), st.sampled_from(["poisson", "darcy"]), seeds)
def test_the_matrix_solves_as_the_operator_does(domain, boundary, equation, seed):
    operator = operator_for(equation, boundary)
    problem = random_problem(domain, equation, boundary, seed)
    if problem.coefficient is None:
        assembled = operator.assemble(domain, problem.kind, problem.alpha)
    else:
        # darcy() reads kappa at the walls off that at the points, so the problem is made to match
        problem = darcy(domain, problem.coefficient, problem.source, problem.g, problem.kind, problem.alpha).balanced()
        assembled = operator.assemble(domain, problem.kind, problem.alpha, problem.coefficient)
    u = operator.solve(problem).u
    size = 1 + np.abs(u).max()
    np.testing.assert_allclose(assembled(problem.source, problem.g), u, atol=2e-5 * size)
    stacked = assembled(np.stack([problem.source, 0 * problem.source]), np.stack([problem.g, 0 * problem.g]))
    np.testing.assert_allclose(stacked[0], u, atol=2e-5 * size)
    np.testing.assert_array_equal(stacked[1], 0.0)


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "robin", "mixed"])
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_a_batch_answers_as_its_samples_do(boundary, equation):
    operator = operator_for(equation, boundary)
    samples = samples_for(boundary, equation)
    if boundary == "dirichlet" and equation == "poisson":
        samples.append(sample_with_hole())
    together = operator.predict(samples)
    for sample, predicted in zip(samples, together, strict=True):
        np.testing.assert_allclose(operator.predict([sample])[0], predicted, atol=1e-5)
        assert operator.predict_branches([sample])[0].shape == (2, len(sample.u))


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "mixed"])
def test_the_order_of_points_and_panels_does_not_matter(boundary):
    operator = operator_for(boundary=boundary)
    reduced = Reduced.of(samples_for(boundary)[1], Scales())
    rng = np.random.default_rng(0)
    points, panels = rng.permutation(len(reduced.u)), rng.permutation(len(reduced.kind))
    at_points = {name: getattr(reduced, name)[points] for name in ("points", "walls", "potential", "medium", "u")}
    names = ("centres", "normals", "lengths", "ends", "left", "kind", "alpha", "medium_at_panels")
    mixed = replace(reduced, **at_points, **{name: getattr(reduced, name)[panels] for name in names})
    with torch.no_grad():
        before, after = (operator.model(DenseCohort([one]).batch())[0] for one in (reduced, mixed))
    assert torch.allclose(before[points], after, atol=1e-5)


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "mixed"])
def test_every_parameter_gets_a_gradient(boundary):
    equation = "darcy" if boundary == "mixed" else "poisson"
    model = operator_for(equation, boundary).model
    batch = DenseCohort.of(samples_for(boundary, equation), Scales()).batch()
    (model(batch) - batch.u).square().sum().backward()
    silent = [name for name, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert not silent


def test_untrained_it_is_the_kernel_of_a_straight_wall():
    """And by that already as close as what the paper reports for its trained model."""
    metadata = Metadata.of_family(Family(), 0, 1)
    config = HarmonicConfig(**SMALL)
    operator = LearnedOperator(Header("harmonic", vars(config), Scales(), metadata), Harmonic(config))
    sample = Sample.of(solve(Family(corners=0).problem(0, 0)))
    assert relative_l2(operator.predict([sample])[0], sample.u) < 0.55


def test_neumann_solutions_have_no_mean_and_points_beside_the_grid_shift_nothing():
    operator = operator_for(boundary="neumann")
    problem = Family(boundary="neumann", resolution=8).problem(1, 0)
    solution = operator.solve(problem)
    assert abs(solution.u.mean()) < 1e-6
    np.testing.assert_allclose(solution.at(problem.domain.points[:5]), solution.u[:5], atol=1e-5)


def test_points_between_the_cells():
    operator = operator_for()
    domain = Domain.square(12, [(3, 4), None, None, (2, 2)])
    solution = operator.solve(poisson(domain, f=5.0, g=lambda x, y: np.sin(5 * x) + y))
    np.testing.assert_allclose(solution.at(domain.points[3:9]), solution.u[3:9], atol=1e-5)
    between = (domain.points[40] + domain.points[41]) / 2
    inside = sorted(solution.u[[40, 41]])
    assert inside[0] - 0.5 < solution.at(between[None])[0] < inside[1] + 0.5
    with pytest.raises(BenoError, match="outside the domain"):
        solution.at(np.array([[0.01, 0.01]]))


class TestPanelsOnNoGrid:
    def disc(self, panels=80, radius=0.4):
        ends = np.linspace(0, 2 * np.pi, panels + 1) + 0.1 * np.sin(3 * np.linspace(0, 2 * np.pi, panels + 1))
        corners = radius * np.stack([np.cos(ends), np.sin(ends)], axis=1)
        along = np.diff(corners, axis=0)
        lengths = np.hypot(*along.T)
        normals = np.stack([along[:, 1], -along[:, 0]], axis=1) / lengths[:, None]
        rng = np.random.default_rng(0)
        angle, r = rng.uniform(0, 2 * np.pi, 50), radius * 0.9 * np.sqrt(rng.uniform(0, 1, 50))
        points = np.stack([r * np.cos(angle), r * np.sin(angle)], axis=1)
        return points, (corners[1:] + corners[:-1]) / 2, normals, lengths

    def test_unequal_slanted_panels(self):
        shape = Shape.from_panels(*self.disc())
        assembled = operator_for().assemble(shape)
        g = np.random.default_rng(1).normal(size=80)
        u = assembled(0.0, g)
        assert g.min() - 1e-5 <= u.min() and u.max() <= g.max() + 1e-5
        np.testing.assert_allclose(assembled(0.0, 2.0), 2.0, rtol=1e-5)
        with pytest.raises(BenoError, match="without a grid"):
            assembled(1.0, g)

    def test_it_sees_the_walls_that_a_grid_would(self):
        domain = Domain.square(8, [(2, 3), None, None, None])
        panels = domain.panels
        shape = Shape.from_panels(domain.points, panels.centres, panels.normals, panels.lengths)
        np.testing.assert_allclose(shape.walls, domain.wall_distance, atol=1e-12)

    def test_what_is_no_shape(self):
        points, centres, normals, lengths = self.disc()
        empty = np.empty((0, 2))
        for arguments, message in (
            ((points, empty, empty, np.empty(0)), "no panels"),
            ((points + 1, centres, normals, lengths), "outside the panels"),
            ((points, centres, normals, lengths * np.linspace(1, 2, 80)), "do not close"),
            ((points, centres, 2 * normals, lengths), "not of unit length"),
            ((points, centres, normals, -lengths), "must be positive"),
            ((points, np.where(centres > 0.39, np.nan, centres), normals, lengths), "not finite"),
            ((points[:, :1], centres, normals, lengths), "shape"),
        ):
            with pytest.raises(BenoError, match=message):
                Shape.from_panels(*arguments)

    def test_walls_of_other_kinds(self):
        """As on a grid, where nothing is left of the potential if f is 0 and no flow is given."""
        domain = Domain.square(8, [(2, 3), None, None, None])
        panels, operator = domain.panels, operator_for(boundary="mixed")
        kind = np.where(panels.normals[:, 0] > 0, Kind.ROBIN, Kind.DIRICHLET)
        kind[panels.normals[:, 1] > 0] = Kind.NEUMANN
        g = np.where(kind == Kind.NEUMANN, 0.0, np.sin(np.arange(len(kind))))
        shape = Shape.from_panels(domain.points, panels.centres, panels.normals, panels.lengths)
        on_shape, on_grid = (operator.assemble(place, kind, 2.0)(0.0, g) for place in (shape, domain))
        np.testing.assert_allclose(on_shape, on_grid, atol=1e-5 * np.abs(on_grid).max())
        with pytest.raises(BenoError, match="needs a Dirichlet wall"):
            operator.assemble(shape, Kind.ROBIN, 1.0)
        with pytest.raises(BenoError, match="no coefficient"):
            operator.assemble(shape, kind, 2.0, kappa=1.0)
        with pytest.raises(BenoError, match="not for neumann, robin"):
            operator_for().assemble(shape, kind, 2.0)

    def test_no_points_at_all(self):
        _, centres, normals, lengths = self.disc()
        shape = Shape.from_panels(np.empty((0, 2)), centres, normals, lengths)
        assert operator_for().assemble(shape)(0.0, np.ones(80)).shape == (0,)
        with pytest.raises(BenoError, match="no panels"):
            Shape(np.zeros((1, 2)), *(np.empty((0, 2)),) * 2, np.empty(0), np.zeros((1, 4)), np.empty(0, dtype=int))


class TestBadInput:
    @pytest.mark.parametrize(
        "equation, boundary, message",
        [
            ("darcy", "dirichlet", "trained for poisson"),
            ("poisson", "robin", "not for robin"),
            ("poisson", "neumann", "not for neumann"),
        ],
    )
    def test_what_it_was_not_trained_for(self, equation, boundary, message):
        problem = Family(equation, boundary, resolution=8).problem(0, 0)
        with pytest.raises(BenoError, match=message):
            operator_for().solve(problem)
        with pytest.raises(BenoError, match=message):
            operator_for().assemble(problem.domain, problem.kind, problem.alpha, problem.coefficient)

    def test_neumann_walls_alone_for_one_that_needs_a_value(self):
        problem = Family("poisson", "neumann", resolution=8).problem(0, 0)
        with pytest.raises(BenoError, match="needs a wall that fixes u"):
            operator_for(boundary="mixed").solve(problem)

    def test_values_that_are_none(self):
        domain = Domain.square(8)
        assembled = operator_for().assemble(domain)
        with pytest.raises(BenoError, match="g is not finite at 3"):
            assembled(0.0, np.where(np.arange(32) == 3, np.nan, 0.0))
        with pytest.raises(BenoError, match="f has 5 values"):
            assembled(np.zeros(5), 0.0)
        with pytest.raises(BenoError, match="must be finite"):
            operator_for().solve(poisson(domain, g=np.nan))

    def test_walls_without_any_of_dirichlets_for_one_that_always_had_some(self):
        problem = Family("poisson", "robin", resolution=8).problem(0, 0)
        with pytest.raises(BenoError, match="no Dirichlet wall"):
            operator_for(boundary="mixed").solve(problem)

    def test_what_is_too_large_or_no_number(self):
        assembled = operator_for().assemble(Domain.square(8))
        with pytest.raises(BenoError, match="not finite"):
            assembled(0.0, 1e300)

    def test_a_problem_changed_into_none(self):
        problem = poisson(Domain.square(8), 1.0)
        with pytest.raises(BenoError, match="f is not finite at 0"):
            replace(problem, source=np.full(64, np.nan))
        with pytest.raises(BenoError, match="needs"):
            replace(problem, source=np.ones(3))

    def test_settings(self):
        for settings_, message in (
            ({"boundary": "periodic"}, "must be one of"),
            ({"heads": 3}, "multiple"),
            ({"layers": 0}, "at least 1"),
        ):
            with pytest.raises(BenoError, match=message):
                make_config("harmonic", settings_)

    def test_beno_has_no_matrix(self, tmp_path):
        from beno.models.beno import BENO, BENOConfig

        config = BENOConfig(width=8, steps=1)
        beno = LearnedOperator(Header("beno", vars(config), Scales(), Metadata.of_family(Family(), 0, 1)), BENO(config))
        with pytest.raises(BenoError, match="has no matrix"):
            beno.assemble(Domain.square(8))


def test_a_robin_wall_without_alpha_is_a_neumann_wall():
    operator = operator_for(boundary="mixed")
    domain = Domain.square(8)
    kind = np.where(domain.panels.normals[:, 0] > 0, Kind.ROBIN, Kind.DIRICHLET)
    as_neumann = np.where(kind == Kind.ROBIN, Kind.NEUMANN, kind)
    one, other = (operator.solve(poisson(domain, 1.0, 0.5, kinds, alpha=0.0)).u for kinds in (kind, as_neumann))
    np.testing.assert_allclose(one, other, atol=1e-6)


@given(domains(3), seeds, st.floats(1e-6, 1e6))
def test_the_unit_of_kappa_does_not_matter(domain, seed, factor):
    operator = operator_for("darcy")
    problem = random_problem(domain, "darcy", "dirichlet", seed)
    scaled = replace(
        problem,
        coefficient=factor * problem.coefficient,
        panel_coefficient=factor * problem.panel_coefficient,
        source=factor * problem.source,
    )
    u = operator.solve(problem).u
    np.testing.assert_allclose(operator.solve(scaled).u, u, atol=2e-4 * (1 + np.abs(u).max()))


@pytest.mark.parametrize("boundary", ["dirichlet", "neumann"])
def test_on_the_walls_themselves(boundary):
    """The walls of the square belong to it, the far ones too; and just inside there is no jump."""
    operator = operator_for(boundary=boundary)
    domain = Domain.square(16)
    g = (lambda x, y: np.sin(3 * x) + y) if boundary == "dirichlet" else (lambda x, y: (x == 1) * 1.0 - (x == 0))
    solution = operator.solve(poisson(domain, g=g, kind=Kind[boundary.upper()]))
    on_walls = domain.panels.centres[[0, 20, 33, 50]]
    inside = on_walls - 1e-5 * domain.panels.normals[[0, 20, 33, 50]]
    np.testing.assert_allclose(solution.at(on_walls), solution.at(inside), atol=1e-3)


def test_stacks_of_right_hand_sides():
    domain = Domain.square(8)
    assembled = operator_for().assemble(domain)
    points, panels = len(domain.points), len(domain.panels)
    f, g = np.ones((3, points)), np.ones((3, panels))
    assert assembled(f, g).shape == (3, points)
    assert assembled(0.0, torch.ones(panels)).shape == (points,)
    with pytest.raises(BenoError, match="3 rows and g has 2"):
        assembled(f, g[:2])
    with pytest.raises(BenoError, match="one row of values"):
        assembled(f[None], g)
    free = operator_for(boundary="neumann").assemble(domain, Kind.NEUMANN)
    with pytest.raises(BenoError, match="integral of f"):
        free(1.0, 0.0)
    assert abs(free(lambda x, y: x - 0.5, 0.0).mean()) < 1e-6


def test_numbers_beyond_single_precision():
    with pytest.raises(BenoError, match="not finite"):
        operator_for().solve(poisson(Domain.square(8), g=1e300))
