"""Random problems are those that their family, seed and number say, and as the paper describes them."""

from collections import Counter
from dataclasses import replace
from itertools import combinations, pairwise

import jaxtyping
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from beno.geometry.grid import Domain
from beno.problems.families import (
    BOUNDARIES,
    CORNERS,
    RANDOM_LAWS,
    VISIBLE_SOURCE,
    WAVE_NUMBERS,
    Family,
    ProblemClass,
    random_kinds,
    random_wave,
)
from beno.problems.law import LAWS
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from tests.strategies import annulus, domains, seeds

EQUATIONS = tuple(LAWS)

indices = st.integers(0, 10_000)


@st.composite
def families(draw, equations=EQUATIONS, boundaries=tuple(BOUNDARIES), corners=CORNERS):
    amplitudes, contrast = st.floats(0.01, 50), draw(st.floats(1, 100))
    lowest = draw(st.floats(0.1, 2))
    return Family(
        equation=draw(st.sampled_from(equations)),
        boundary=draw(st.sampled_from(boundaries)),
        corners=draw(st.sampled_from(corners)),
        resolution=draw(st.integers(8, 40)),
        source_amplitude=draw(st.none() | amplitudes),
        boundary_amplitude=draw(amplitudes),
        contrast=contrast,
        alpha_range=(lowest, lowest + draw(st.floats(0, 5))),
    )


def same(problem, other) -> bool:
    return (
        np.array_equal(problem.domain.mask, other.domain.mask)
        and problem.values.keys() == other.values.keys()
        and all(np.array_equal(values, other.values[name]) for name, values in problem.values.items())
    )


def corners_cut(domain) -> int:
    return int((~domain.mask[[0, 0, -1, -1], [0, -1, 0, -1]]).sum())


def rms(values) -> float:
    return float(np.sqrt((values**2).mean()))


# Seeds


@given(families(), seeds, st.lists(indices, min_size=2, max_size=4, unique=True))
def test_problem_depends_on_seed_and_index_and_not_on_the_order_of_drawing(family, seed, drawn):
    forwards = [family.problem(seed, index) for index in drawn]
    backwards = [replace(family).problem(seed, index) for index in reversed(drawn)]
    assert all(same(one, other) for one, other in zip(forwards, reversed(backwards), strict=True))


@given(families(), seeds, indices)
def test_other_seeds_and_other_indices_give_other_problems(family, seed, index):
    keys = {(seed, index), (seed + 1, index), (seed, index + 1), (seed + 1, index + 1), (index, seed)}
    for one, other in combinations([family.problem(*key) for key in keys], 2):
        assert not np.array_equal(one.f[:4], other.f[:4])
        if family.boundary != "zero":
            assert not np.array_equal(one.g[:4], other.g[:4])


# Shapes


@given(families(), seeds, indices)
def test_shape_has_the_corners_asked_for_and_a_perimeter_of_four(family, seed, index):
    domain = family.problem(seed, index).domain
    assert domain.resolution == family.resolution
    assert corners_cut(domain) == (index % 5 if family.corners == "mixed" else family.corners)
    assert domain.panels.ring_lengths == pytest.approx([4.0])


def test_mixed_corners_cycle_evenly():
    family = Family(corners="mixed", resolution=8)
    seen = Counter(corners_cut(family.problem(3, index).domain) for index in range(25))
    assert seen == dict.fromkeys(range(5), 5)


def test_every_corner_is_cut_in_its_turn():
    cut = [~Family(corners=1).problem(0, index).domain.mask[[0, -1, 0, -1], [0, 0, -1, -1]] for index in range(60)]
    assert (np.sum(cut, axis=0) > 5).all()


# Values


@given(families(), seeds, indices)
def test_amplitudes_are_the_largest_absolute_values(family, seed, index):
    problem = family.problem(seed, index)
    assert np.abs(problem.f).max() == pytest.approx(family.source_amplitude)
    assert np.abs(problem.g).max() == pytest.approx(0 if family.boundary == "zero" else family.boundary_amplitude)


@given(families(equations=("darcy",)), seeds, indices)
def test_kappa_lies_between_one_and_the_contrast(family, seed, index):
    problem = family.problem(seed, index)
    for kappa in problem.law.values.values():
        assert kappa.min() >= 1 - 1e-12
        assert kappa.max() <= family.contrast * (1 + 1e-12)


@given(seeds)
def test_kappa_at_the_walls_continues_kappa_at_the_points(seed):
    jumps = []
    for resolution in (32, 64):
        problem = Family("darcy", resolution=resolution).problem(seed, 0)
        law, cell = problem.law, problem.domain.panels.cell
        jumps.append(np.abs(law.panel_coefficient - law.coefficient[cell]).max())
    assert jumps[1] <= 0.6 * jumps[0]


@given(families(equations=("poisson",)), seeds, indices)
def test_poisson_problems_have_no_coefficient(family, seed, index):
    assert family.problem(seed, index).law.name == "poisson"


@given(families(), seeds, indices)
def test_kinds_are_those_of_the_family(family, seed, index):
    problem = family.problem(seed, index)
    low, high = family.alpha_range
    robin = problem.walls.kind == Kind.ROBIN
    assert ((low <= problem.walls.alpha[robin]) & (problem.walls.alpha[robin] <= high)).all()
    assert (problem.walls.alpha[~robin] == 0).all()
    if family.boundary != "mixed":
        one = {"neumann": Kind.NEUMANN, "robin": Kind.ROBIN}.get(family.boundary, Kind.DIRICHLET)
        assert (problem.walls.kind == one).all()


@given(families(boundaries=("mixed",)), seeds, indices)
def test_mixed_kinds_always_hold_a_dirichlet_panel(family, seed, index):
    problem = family.problem(seed, index)
    assert (problem.walls.kind == Kind.DIRICHLET).any()
    problem.require_solvable()


@given(domains(smallest=6), seeds)
def test_mixed_kinds_come_in_few_arcs_around_each_ring(domain, seed):
    kinds = random_kinds(np.random.default_rng(seed), domain.panels)
    for ring in range(len(domain.panels.ring_lengths)):
        here = kinds[domain.panels.ring == ring]
        assert (here != np.roll(here, 1)).sum() <= 7


def test_mixed_kinds_show_every_kind_in_turn():
    kinds = np.concatenate([Family(boundary="mixed").problem(0, index).walls.kind for index in range(20)])
    assert (np.bincount(kinds) > 0.15 * len(kinds)).all()


# The wave along the boundary


@given(
    families(boundaries=("dirichlet", "neumann", "robin", "mixed")),
    seeds,
    indices,
)
def test_g_holds_one_to_five_waves_a_side_and_nothing_else(family, seed, index):
    """Around a ring of length four that is 4 to 20 whole cycles; below eleven cells a side, what its panels resolve."""
    g = family.problem(seed, index).g
    spectrum = np.abs(np.fft.rfft(g)) / len(g)
    cycles = np.flatnonzero(spectrum > 1e-12 * family.boundary_amplitude)
    cycles = cycles[cycles > 0]  # a constant is there under Neumann walls, to balance
    assert 1 <= len(cycles) <= 3
    assert 4 * WAVE_NUMBERS[0] <= cycles.min()
    assert cycles.max() <= 4 * WAVE_NUMBERS[1]
    assert cycles.max() < len(g) / 2


@given(st.integers(8, 10), seeds)
def test_panels_of_coarse_grids_tell_the_drawn_waves_apart(resolution, seed):
    """The fastest wave of a coarse grid is the fastest of a fine one or the fastest that its panels carry."""
    fastest = []
    for cells in (resolution, 32):
        wave = random_wave(np.random.default_rng(seed), Domain.square(cells).panels)
        spectrum = np.abs(np.fft.rfft(wave)) / len(wave)
        fastest.append(np.flatnonzero(spectrum > 1e-12).max())
    assert fastest[0] == min(fastest[1], 2 * resolution - 1)


@pytest.mark.parametrize("seed", range(5))
def test_wave_closes_around_every_ring_holes_too(seed):
    domain = annulus(64)
    wave = random_wave(np.random.default_rng(seed), domain.panels)
    for ring, length in enumerate(domain.panels.ring_lengths):
        here = wave[domain.panels.ring == ring]
        spectrum = np.abs(np.fft.rfft(here)) / len(here)
        cycles = np.flatnonzero(spectrum > 1e-12)
        assert max(1, length * WAVE_NUMBERS[0]) <= cycles.min()
        assert cycles.max() <= length * WAVE_NUMBERS[1]


@settings(max_examples=10)
@given(st.sampled_from(EQUATIONS), st.sampled_from(["dirichlet", "neumann", "robin", "mixed"]), seeds)
def test_g_is_continuous_around_the_ring_and_across_its_start(equation, boundary, seed):
    """Between neighbouring panels, the last and the first among them, the jump shrinks with the panels.

    Bernstein's inequality bounds the slope of a sum of waves by the fastest wave's, as high as the sum.
    """
    jumps = []
    for resolution in (64, 128, 256):
        g = Family(equation, boundary, resolution=resolution).problem(seed, 0).g
        jumps.append(np.abs(g - np.roll(g, 1)).max())
        steepest = 2 * np.pi * WAVE_NUMBERS[1] * np.ptp(g) / 2
        assert jumps[-1] <= 1.1 * steepest / resolution
    assert all(fine <= 0.6 * coarse for coarse, fine in pairwise(jumps))


# Balance and size


@given(families(boundaries=("neumann",)), seeds, indices)
def test_neumann_problems_balance_whole_and_in_parts(family, seed, index):
    problem = family.problem(seed, index)
    for part in (problem, *problem.split()):
        part.require_solvable()
    scale = family.source_amplitude + family.boundary_amplitude * family.contrast
    assert problem.f.mean() == pytest.approx(0, abs=1e-12 * scale)
    put_in, out, _ = problem.operator.flows(problem.right)
    assert put_in == pytest.approx(out, abs=1e-12 * scale)


@pytest.mark.parametrize(("equation", "boundary"), [pair for pair in VISIBLE_SOURCE if pair[1] != "zero"])
def test_default_source_makes_a_visible_part_of_the_solution(equation, boundary):
    forced, driven = np.mean(
        [
            [
                rms(Direct().solve(part).u)
                for part in Family(equation, boundary, corners="mixed").problem(0, index).split()
            ]
            for index in range(20)
        ],
        axis=0,
    )
    assert 0.2 < forced / driven < 1.0


@pytest.mark.parametrize("equation", EQUATIONS)
def test_zero_boundary_leaves_the_forced_part_of_the_dirichlet_family(equation):
    zero, dirichlet = (Family(equation, boundary).problem(2, 3) for boundary in ("zero", "dirichlet"))
    assert (zero.g == 0).all()
    assert same(zero, dirichlet.split()[0])


def test_every_family_has_a_default_source():
    assert set(VISIBLE_SOURCE) == {(equation, boundary) for equation in EQUATIONS for boundary in BOUNDARIES}


# What a solver must know of problems


@given(families(), seeds, indices)
def test_problems_of_a_family_are_of_its_class(family, seed, index):
    assert family.problem_class.lacks(ProblemClass.of(family.problem(seed, index).operator)) is None


@pytest.mark.parametrize(
    ("mine", "other", "said"),
    [
        (("poisson", "dirichlet"), ("poisson", "zero"), None),
        (("poisson", "mixed"), ("poisson", "dirichlet"), None),
        (("darcy", "dirichlet"), ("poisson", "dirichlet"), "for darcy, not for poisson"),
        (("poisson", "mixed"), ("poisson", "neumann"), "with walls that fix u; with Neumann walls alone none does"),
        (("poisson", "dirichlet"), ("poisson", "robin"), "for dirichlet walls, not for robin"),
        (("poisson", "dirichlet"), ("poisson", "mixed"), "for dirichlet walls, not for neumann and robin"),
        (("poisson", "mixed"), ("poisson", "robin"), "with some Dirichlet walls among the others; here is none"),
    ],
)
def test_a_class_says_what_it_lacks_of_another(mine, other, said):
    assert ProblemClass.named(*mine).lacks(ProblemClass.named(*other)) == said


def test_a_robin_wall_without_alpha_counts_as_a_neumann_wall():
    problem = Family(boundary="mixed", alpha_range=(0.0, 0.0)).problem(0, 0)
    assert Kind.ROBIN in problem.walls.kinds
    assert ProblemClass.of(problem.operator).kinds == {Kind.DIRICHLET, Kind.NEUMANN}


@pytest.mark.parametrize("boundary", BOUNDARIES)
def test_the_kind_of_a_panel_must_be_told_where_it_varies_or_has_an_alpha(boundary):
    assert ProblemClass.named("poisson", boundary).varies_in_kind == (boundary in ("robin", "mixed"))


# What is refused


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("equation", "heat", "equation is 'heat'.*poisson, darcy"),
        ("boundary", "periodic", "boundary is 'periodic'.*dirichlet"),
        ("corners", 5, "corners is 5"),
        ("corners", -1, "corners is -1"),
        ("corners", "some", "corners is 'some'"),
        ("resolution", 7, "resolution is 7.*at least 8"),
        ("source_amplitude", -1.0, "source amplitude is -1"),
        ("source_amplitude", np.nan, "source amplitude is nan"),
        ("boundary_amplitude", -0.5, "boundary amplitude is -0.5"),
        ("boundary_amplitude", np.inf, "boundary amplitude is inf"),
        ("contrast", 0.5, "contrast is 0.5"),
        ("contrast", np.nan, "contrast is nan"),
        ("alpha_range", (-1.0, 2.0), "alpha's lower end is -1"),
        ("alpha_range", (2.0, 1.0), "alpha's upper end is 1"),
        ("alpha_range", (1.0, np.inf), "alpha's upper end is inf"),
    ],
)
def test_bad_arguments_are_refused_by_name_and_value(argument, value, said):
    with pytest.raises(BenoError, match=said):
        Family(**{argument: value})


@pytest.mark.parametrize(
    ("argument", "value", "said"),
    [
        ("resolution", 32.5, "resolution is 32.5; it must be a whole number"),
        ("resolution", np.nan, "resolution is nan; it must be a whole number"),
        ("alpha_range", (1.0,), r"alpha_range is \(1.0,\); it must be two numbers"),
        ("alpha_range", 1.0, "alpha_range is 1.0; it must be two numbers"),
    ],
)
def test_arguments_of_the_wrong_type_are_refused_also_where_no_types_are_checked(monkeypatch, argument, value, said):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)
    with pytest.raises(BenoError, match=said):
        Family(**{argument: value})


@pytest.mark.parametrize(("seed", "index", "said"), [(-1, 0, "seed is -1"), (0, -2, "index is -2")])
def test_negative_seeds_and_indices_are_refused(seed, index, said):
    with pytest.raises(BenoError, match=f"{said}; it must be a whole number of at least 0"):
        Family().problem(seed, index)


def test_robin_walls_without_alpha_are_refused():
    """They would be pure Neumann walls, out of balance; mixed walls have a Dirichlet panel to hold u."""
    with pytest.raises(BenoError, match="alpha's upper end is 0"):
        Family(boundary="robin", alpha_range=(0.0, 0.0))
    Family(boundary="robin", alpha_range=(0.0, 1.0)).problem(0, 0).require_solvable()
    Family(boundary="mixed", alpha_range=(0.0, 0.0)).problem(0, 0).require_solvable()


def test_every_law_can_be_drawn():
    assert set(RANDOM_LAWS) == set(LAWS)
