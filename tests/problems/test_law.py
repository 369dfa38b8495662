"""Laws own their coefficients and say what they are on a face; a solver asks nothing else of them."""

from dataclasses import dataclass, make_dataclass

import numpy as np
import pytest
from hypothesis import given

from beno.geometry.base import DIRECTIONS
from beno.geometry.grid import Domain
from beno.problems.fields import FIELDS
from beno.problems.law import LAWS, Darcy, Law, Poisson, law_of, mean_on_face, register
from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind, Walls
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.support.errors import BenoError
from tests.strategies import domains, random_problem, random_walls, seeds


def darcy_on(domain, seed):
    rng = np.random.default_rng(seed)
    return Darcy(*(np.exp(rng.uniform(-1, 1, size=len(places))) for places in (domain.points, domain.panels)))


@given(domains(), seeds)
def test_darcy_with_kappa_one_is_poisson(domain, seed):
    poisson = random_problem(domain, "poisson", "mixed", seed).operator
    law = Darcy(np.ones(len(domain.points)), np.ones(len(domain.panels)))
    darcy = Elliptic(domain, law, poisson.walls)
    np.testing.assert_array_equal(law.on_faces(domain), poisson.law.on_faces(domain))
    np.testing.assert_array_equal(assemble(darcy).matrix.toarray(), assemble(poisson).matrix.toarray())


@given(domains(), seeds)
def test_kappa_on_a_face_is_the_same_from_both_sides_and_none_at_walls(domain, seed):
    on_faces = darcy_on(domain, seed).on_faces(domain)
    cell, direction = np.nonzero(domain.neighbours >= 0)
    near = domain.neighbours[cell, direction]
    np.testing.assert_array_equal(on_faces[near, direction ^ 1], on_faces[cell, direction])
    assert (on_faces[domain.neighbours < 0] == 0).all()


@given(seeds)
def test_mean_on_a_face_lets_the_same_flow_through_both_halves(seed):
    here, there, fall = np.random.default_rng(seed).uniform(0.1, 10, size=3)
    flow = mean_on_face(here, there) * fall
    assert flow / (2 * here) + flow / (2 * there) == pytest.approx(fall)


@pytest.mark.parametrize("name", LAWS)
def test_every_law_comes_back_from_its_values(name):
    law = random_problem(Domain.square(4), name, "dirichlet", 0).law
    again = law_of(law.values)
    assert type(again) is type(law) is LAWS[name] and again.values.keys() == law.values.keys()
    for coefficient, values in law.values.items():
        np.testing.assert_array_equal(again.values[coefficient], values)


def test_coefficients_are_fields_of_the_table():
    known = {field.name for field in FIELDS if field.part_of == "law"}
    assert set().union(*(law.coefficients() for law in LAWS.values())) == known


def test_taken_coefficients_are_those_of_the_places_asked_for():
    law = darcy_on(Domain.square(4), 0)
    points, panels = np.array([3, 1]), np.array([2, 7, 5])
    np.testing.assert_array_equal(law.taken(points, panels).coefficient, law.coefficient[points])
    np.testing.assert_array_equal(law.taken(points, panels).panel_coefficient, law.panel_coefficient[panels])
    assert isinstance(Poisson().taken(points, panels), Poisson)


@pytest.mark.parametrize(
    ("names", "said"),
    [(("coefficient",), "just the coefficients coefficient"), (("coefficient", "speed"), "coefficient, speed")],
)
def test_coefficients_of_no_law_are_refused_with_the_known_laws(names, said):
    with pytest.raises(BenoError, match=f"{said} .*poisson: none; darcy: coefficient, panel_coefficient"):
        law_of(dict.fromkeys(names, np.ones(3)))


@pytest.mark.parametrize(
    ("points", "panels", "message"),
    [
        (np.ones(15), np.ones(16), r"kappa has shape \(15,\); the domain has 16 points"),
        (np.ones(16), np.ones(15), r"kappa has shape \(15,\); the domain has 16 panels"),
        (np.where(np.arange(16) == 3, np.nan, 1.0), np.ones(16), "kappa is not finite at point 3"),
        (np.ones(16), np.where(np.arange(16) == 3, 0.0, 1.0), r"kappa is 0 at \(0\.875, 0\); it must be positive"),
    ],
)
def test_coefficients_that_do_not_fit_the_domain_are_refused(points, panels, message):
    with pytest.raises(BenoError, match=message):
        Elliptic(Domain.square(4), Darcy(points, panels), Walls.uniform(16))


@dataclass(frozen=True, eq=False, repr=False)
class Screened(Law):
    """``laplace u - u / length**2 = f``: a law that only this test knows."""

    name = "screened"
    length: float

    def at_points(self, domain):
        return np.ones(len(domain.points))

    def at_panels(self, domain):
        return np.ones(len(domain.panels))

    def reaction(self, domain):
        return np.full(len(domain.points), -1 / self.length**2)


@pytest.mark.parametrize("kind", Kind)
def test_a_law_with_a_reaction_is_solved_at_second_order_and_leaves_no_constant_free(kind):
    """The solution of ``laplace u = u / length**2`` is an exponential across the square."""
    errors = []
    for resolution in (16, 32, 64):
        domain = Domain.square(resolution)
        operator = Elliptic(domain, Screened(0.3), Walls.uniform(len(domain.panels), kind, 2.0))
        assert not operator.leaves_constant_free
        at_walls, x = np.exp(domain.panels.centres[:, 0] / 0.3), domain.points[:, 0]
        g = operator.walls.trace(at_walls, at_walls / 0.3 * domain.panels.normals[:, 0])
        u = Direct().prepare(operator)(RightHandSide(np.zeros(len(x)), g))
        errors.append(np.sqrt(np.mean((u - np.exp(x / 0.3)) ** 2)))
    assert np.log2(np.array(errors[:-1]) / errors[1:]) == pytest.approx([2, 2], abs=0.1)


@given(domains(), seeds)
def test_a_reaction_stands_on_the_diagonal_alone(domain, seed):
    walls = random_walls(np.random.default_rng(seed), "mixed", len(domain.panels))
    screened, poisson = (assemble(Elliptic(domain, law, walls)).matrix.toarray() for law in (Screened(0.5), Poisson()))
    np.testing.assert_allclose(screened - poisson, 4 * domain.spacing**2 * np.eye(len(poisson)), atol=1e-12)


@given(domains(2), seeds)
def test_what_flows_out_of_a_cell_is_kappa_on_its_faces_times_the_rise_of_u(domain, seed):
    """The matrix away from the walls, put together from `on_faces` a face at a time."""
    law, u = darcy_on(domain, seed), np.random.default_rng(seed).normal(size=len(domain.points))
    walls = Walls.uniform(len(domain.panels), Kind.NEUMANN)
    expected = np.zeros(len(u))
    for cell in range(len(u)):
        for direction in range(len(DIRECTIONS)):
            near = domain.neighbours[cell, direction]
            if near >= 0:
                expected[cell] += law.on_faces(domain)[cell, direction] * (u[cell] - u[near])
    np.testing.assert_allclose(assemble(Elliptic(domain, law, walls)).matrix @ u, expected, atol=1e-10)


def test_registered_law_is_known_by_its_name(monkeypatch):
    monkeypatch.setattr("beno.problems.law.LAWS", dict(LAWS))

    @register
    @dataclass(frozen=True, eq=False)
    class Layered(Poisson):
        name = "layered"
        coefficient: np.ndarray

    assert type(law_of({"coefficient": np.ones(3)})) is Layered
    assert register(Darcy) is Darcy


@pytest.mark.parametrize(
    ("name", "coefficients", "words"),
    [
        ("poisson", ("coefficient",), "a law 'poisson' already"),
        ("second", ("coefficient", "panel_coefficient"), "the same coefficients"),
        ("third", ("porosity",), "'porosity', which problems.fields does not list"),
    ],
)
def test_law_that_files_could_not_tell_from_others_is_refused(name, coefficients, words):
    law = make_dataclass("Own", [(each, np.ndarray) for each in coefficients], bases=(Law,), frozen=True, eq=False)
    law.name = name
    with pytest.raises(BenoError, match=words):
        register(law)
    assert name not in LAWS or LAWS[name] is Poisson
