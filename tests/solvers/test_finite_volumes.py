"""The scheme: second order, and the laws of the equation hold for it exactly."""

from itertools import pairwise, product

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.problem import Problem, darcy, poisson
from beno.problems.right_hand_side import RightHandSide
from beno.problems.walls import Kind, Walls
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from tests.strategies import BOUNDARIES, annulus, domains, kinds, problems, random_right, seeds, with_operator

RESOLUTIONS = (32, 64, 128)
ORDER = 2.0

# The eight symmetries of the square, as matrices that act on positions about its centre.
SYMMETRIES = [
    np.array([[sign_x, 0], [0, sign_y]])[list(order)]
    for sign_x, sign_y, order in product((1, -1), (1, -1), ((0, 1), (1, 0)))
]


def cut_square(resolution: int) -> Domain:
    """One shape at every resolution: an eighth of the square is the unit of its cuts."""
    unit = resolution // 8
    return Domain.square(resolution, [(2 * unit, unit), None, (unit, 3 * unit), (3 * unit, 2 * unit)])


def solve(problem):
    return Direct().solve(problem)


def close(actual, expected, tolerance=1e-10):
    np.testing.assert_allclose(actual, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


def observed_orders(problem_at, exact) -> list[float]:
    """The order in the L2 norm from each resolution to the next; under pure Neumann walls apart from the mean."""
    errors = []
    for resolution in RESOLUTIONS:
        problem = problem_at(resolution)
        error = problem.operator.without_constant(solve(problem).u - exact(*problem.domain.points.T))
        errors.append(np.sqrt((error**2).sum()) * problem.domain.spacing)
    return [np.log2(coarse / fine) for coarse, fine in pairwise(errors)]


def wall_flux(problem: Problem, u: np.ndarray) -> np.ndarray:
    """What enters through each panel: kappa du/dn times its length, du/dn over the half cell to the wall."""
    panels, half = problem.domain.panels, problem.domain.spacing / 2
    here = u[panels.cell]
    at_wall = np.select(
        [problem.walls.kind == Kind.DIRICHLET, problem.walls.kind == Kind.NEUMANN],
        [problem.g, here + half * problem.g],
        (here + half * problem.g) / (1 + half * problem.walls.alpha),
    )
    return problem.law.at_panels(problem.domain) * panels.lengths * (at_wall - here) / half


# Order of accuracy, on a solution that is no polynomial


def exact_u(x, y):
    return np.exp(x) * np.sin(2 * y) + np.cos(3 * x - y)


def exact_gradient(x, y):
    along_x = np.exp(x) * np.sin(2 * y) - 3 * np.sin(3 * x - y)
    along_y = 2 * np.exp(x) * np.cos(2 * y) + np.sin(3 * x - y)
    return np.stack([along_x, along_y], axis=-1)


def exact_laplacian(x, y):
    return -3 * np.exp(x) * np.sin(2 * y) - 10 * np.cos(3 * x - y)


def exact_kappa(x, y):
    return 2 + np.sin(2 * x + y)


def exact_divergence(x, y):
    kappa_gradient = np.stack([2 * np.cos(2 * x + y), np.cos(2 * x + y)], axis=-1)
    return exact_kappa(x, y) * exact_laplacian(x, y) + (kappa_gradient * exact_gradient(x, y)).sum(axis=-1)


def manufactured(resolution: int, equation: str, boundary: str) -> Problem:
    domain = cut_square(resolution)
    panels = domain.panels
    x, y = panels.centres.T
    if boundary == "mixed":
        kind = np.floor(8 * panels.arc_length).astype(int) % 3  # a new kind every eighth of a side
    else:
        kind = np.full(len(panels), Kind[boundary.upper()])
    alpha = 1 + x
    slope = (exact_gradient(x, y) * panels.normals).sum(axis=1)
    g = np.choose(kind, [exact_u(x, y), slope, alpha * exact_u(x, y) + slope])
    if equation == "poisson":
        return poisson(domain, exact_laplacian, g, kind, alpha).balanced()
    return darcy(domain, exact_kappa, exact_divergence, g, kind, alpha).balanced()


@pytest.mark.parametrize("boundary", BOUNDARIES)
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_order_of_accuracy_is_two(equation, boundary):
    orders = observed_orders(lambda resolution: manufactured(resolution, equation, boundary), exact_u)
    assert orders == pytest.approx([ORDER] * 2, abs=0.1)


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_order_of_accuracy_is_two_with_kappa_known_only_at_the_points(boundary):
    def problem_at(resolution):
        known = manufactured(resolution, "darcy", boundary)
        kappa, walls = known.law.at_points(known.domain), known.walls
        return darcy(known.domain, kappa, known.f, known.g, walls.kind, walls.alpha).balanced()

    orders = observed_orders(problem_at, exact_u)
    assert orders == pytest.approx([ORDER] * 2, abs=0.1)


@pytest.mark.parametrize(
    "harmonic",
    [lambda x, y: x**2 - y**2, lambda x, y: np.exp(x) * np.cos(y), lambda x, y: np.log((x + 0.3) ** 2 + y**2)],
    ids=["saddle", "exponential", "logarithm"],
)
@pytest.mark.parametrize("shape", [cut_square, annulus])
def test_harmonic_functions_come_back_at_second_order_from_their_boundary_values(shape, harmonic):
    orders = observed_orders(lambda resolution: poisson(shape(resolution), g=harmonic), harmonic)
    assert orders == pytest.approx([ORDER] * 2, abs=0.1)


@given(domains(), st.sampled_from(BOUNDARIES), seeds)
@example(annulus(), "mixed", 0)
def test_linear_functions_are_exact_under_every_kind_of_wall(domain, boundary, seed):
    rng = np.random.default_rng(seed)
    slope, level, panels = rng.normal(size=2), rng.normal(), domain.panels
    kind, alpha = kinds(rng, boundary, len(panels)), rng.uniform(0.1, 5, size=len(panels))
    value, derivative = panels.centres @ slope + level, panels.normals @ slope
    g = np.choose(kind, [value, derivative, alpha * value + derivative])
    exact = domain.points @ slope + level
    if boundary == "neumann":
        exact -= exact.mean()
    close(solve(poisson(domain, g=g, kind=kind, alpha=alpha)).u, exact)


def test_flow_across_layers_is_exact():
    """The flux is one number in all layers, and in each u climbs by its share of the resistance."""
    domain = Domain.square(16)
    panels = domain.panels
    layer = np.exp(np.random.default_rng(0).uniform(-3, 3, size=16))
    kappa = layer[domain.cells[:, 0]]
    kind = np.where(panels.normals[:, 0] == 0, Kind.NEUMANN, Kind.DIRICHLET)
    g = np.where(panels.normals[:, 0] > 0, 1.0, 0.0)
    u = solve(darcy(domain, kappa, g=g, kind=kind, kappa_at_panels=kappa[panels.cell])).u
    resistance = 1 / layer
    climb = (np.cumsum(resistance) - resistance / 2) / resistance.sum()
    close(u, climb[domain.cells[:, 0]])


# Laws of the equation


@given(problems(), seeds)
def test_superposition_holds(problem, seed):
    other = Problem(problem.operator, random_right(problem.operator, seed))
    a, b = np.random.default_rng(seed).normal(size=2)
    both = Problem(problem.operator, a * problem.right + b * other.right)
    close(solve(both).u, a * solve(problem).u + b * solve(other).u)


@given(problems(boundaries=("dirichlet",)))
def test_without_a_source_u_lies_between_the_boundary_values(problem):
    u = solve(problem.split()[1]).u
    assert problem.g.min() - 1e-10 <= u.min()
    assert u.max() <= problem.g.max() + 1e-10


@given(problems(boundaries=("mixed",)))
def test_without_a_source_insulated_walls_add_no_extremes(problem):
    kind = np.where(problem.walls.kind == Kind.ROBIN, Kind.NEUMANN, problem.walls.kind)
    fixed = kind == Kind.DIRICHLET
    g = np.where(fixed, problem.g, 0)
    insulated = with_operator(problem, walls=Walls(kind, np.zeros(len(kind))))
    u = solve(insulated.with_data(f=0.0, g=g)).u
    assert g[fixed].min() - 1e-10 <= u.min()
    assert u.max() <= g[fixed].max() + 1e-10


@given(problems(boundaries=("dirichlet", "robin", "mixed")))
def test_more_heat_is_nowhere_colder(problem):
    """A smaller f, which stands for more production, and a larger g raise u everywhere."""
    warmer = problem.with_data(f=problem.f - 1, g=problem.g + 1)
    assert (solve(warmer).u >= solve(problem).u).all()


@given(problems())
def test_what_enters_through_the_walls_is_the_integral_of_the_source(problem):
    flux = wall_flux(problem, solve(problem).u)
    production = problem.f.sum() * problem.domain.spacing**2
    assert flux.sum() == pytest.approx(production, abs=1e-10 * max(1.0, np.abs(flux).sum()))


@given(problems(boundaries=("neumann",)))
def test_pure_neumann_solution_has_zero_mean_and_solves_the_scheme(problem):
    solution = solve(problem)
    assert solution.u.mean() == pytest.approx(0, abs=1e-12 * max(1.0, np.abs(solution.u).max()))
    close(assemble(problem.operator).residual(problem.right, solution.u), 0 * solution.u)


def carried(symmetry, places, new_places, values, resolution):
    """Values at places, in the order of the places that the symmetry takes them to."""
    lattice = (np.round(2 * resolution * places).astype(int) - resolution) @ symmetry.T
    at = dict(zip(map(tuple, lattice.tolist()), values, strict=True))
    wanted = np.round(2 * resolution * new_places).astype(int) - resolution
    return np.array([at[tuple(place)] for place in wanted.tolist()])


@pytest.mark.parametrize("symmetry", SYMMETRIES, ids=lambda matrix: str(matrix.tolist()))
@given(domains(), st.sampled_from(BOUNDARIES), st.booleans(), seeds)
@example(annulus(), "mixed", True, 0)
def test_solution_turns_with_the_square(symmetry, domain, boundary, is_darcy, seed):
    rng, n = np.random.default_rng(seed), domain.resolution
    cells = ((2 * domain.cells + 1 - n) @ symmetry.T + n - 1) // 2
    mask = np.zeros_like(domain.mask)
    mask[tuple(cells.T)] = True
    turned = Domain.from_mask(mask)

    panels = len(domain.panels)
    at_points = np.stack([rng.normal(size=len(cells)), np.exp(rng.uniform(-1, 1, size=len(cells)))], axis=1)
    at_panels = np.stack([rng.normal(size=panels), kinds(rng, boundary, panels), rng.uniform(0.1, 5, panels)], axis=1)
    turned_points = carried(symmetry, domain.points, turned.points, at_points, n)
    turned_panels = carried(symmetry, domain.panels.centres, turned.panels.centres, at_panels, n)

    def answer(domain, at_points, at_panels):
        (f, kappa), (g, kind, alpha) = at_points.T, at_panels.T
        arguments = (f, g, kind.astype(int), alpha)
        # The values of kappa at the walls are left to be extrapolated, which has to turn as well.
        problem = darcy(domain, kappa, *arguments) if is_darcy else poisson(domain, *arguments)
        return solve(problem.balanced()).u

    u = answer(domain, at_points, at_panels)
    close(answer(turned, turned_points, turned_panels), carried(symmetry, domain.points, turned.points, u, n))


# The matrix


@given(problems())
def test_matrix_is_a_symmetric_m_matrix(problem):
    matrix = assemble(problem.operator).matrix.toarray()
    off_diagonal = matrix - np.diag(np.diag(matrix))
    np.testing.assert_array_equal(matrix, matrix.T)
    assert (off_diagonal <= 0).all()
    assert (matrix.sum(axis=1) >= -1e-12).all()
    if problem.operator.leaves_constant_free:
        close(matrix.sum(axis=1), np.zeros(len(matrix)))
    else:
        assert (np.linalg.inv(matrix) >= 0).all()


@given(problems())
def test_matrix_joins_each_cell_to_its_neighbours_and_to_no_other(problem):
    matrix, near = assemble(problem.operator).matrix, problem.domain.neighbours
    assert matrix.has_sorted_indices
    joined = matrix.toarray() < 0
    expected = np.zeros_like(joined)
    cell, direction = np.nonzero(near >= 0)
    expected[cell, near[cell, direction]] = True
    np.testing.assert_array_equal(joined, expected)


@given(problems())
def test_residual_vanishes_at_the_solution_and_only_there(problem):
    system, u = assemble(problem.operator), solve(problem).u
    close(system.residual(problem.right, u), np.zeros_like(u))
    wrong = u.copy()
    wrong[0] += 1
    expected = -system.matrix.toarray()[:, 0]
    close(system.residual(problem.right, wrong), expected)


@given(problems(), seeds)
def test_right_sides_and_residuals_of_stacks_are_those_of_their_rows(problem, seed):
    system, stack = assemble(problem.operator), random_right(problem.operator, seed, rows=3)
    u = np.random.default_rng(seed).normal(size=stack.f.shape)
    for row, (vector, residual) in enumerate(zip(system.vector(stack), system.residual(stack, u), strict=True)):
        np.testing.assert_array_equal(vector, system.vector(stack[row]))
        np.testing.assert_allclose(residual, system.residual(stack[row], u[row]), atol=1e-12)


@given(problems())
def test_the_matrix_that_is_solved_is_regular_and_has_the_same_solutions(problem):
    system = assemble(problem.operator)
    u = np.linalg.solve(system.solvable_matrix.toarray(), system.vector(problem.right))
    close(problem.operator.without_constant(u), solve(problem).u, 1e-9)
    changed = (system.solvable_matrix != system.matrix).nnz
    assert changed == int(problem.operator.leaves_constant_free)


@given(problems(), seeds)
def test_the_system_is_linear_in_the_right_hand_side(problem, seed):
    system, other = assemble(problem.operator), random_right(problem.operator, seed)
    expected = 2 * system.vector(problem.right) - system.vector(other)
    close(system.vector(2 * problem.right - other), expected, 1e-12)
    nothing = RightHandSide(0 * problem.f, 0 * problem.g)
    assert not system.vector(nothing).any()
