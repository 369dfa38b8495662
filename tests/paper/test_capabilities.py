"""Every cell of the capability table, as it stands there, is so."""

import numpy as np
import pytest
import torch

from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.geometry.grid import Domain
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models.registry import model_class, names
from beno.paper.capabilities import CAPABILITIES, OURS, PAPER, as_latex, as_markdown
from beno.problems.families import Family
from beno.problems.problem import darcy, poisson


def operator_of(name, equation="poisson"):
    torch.manual_seed(0)
    metadata, model = Metadata.of_family(Family(equation, resolution=8), 0, 1), model_class(name)
    config = model.Config.from_settings({**model.Config.settings_for(metadata.problem_class), **model.small})
    return LearnedOperator(Header(name, vars(config), Scales(), metadata), model(config))


def problem_on(domain, equation="poisson", f=1.0, g=None, kappa=lambda x, y: 1 + x):
    g = g or (lambda x, y: np.sin(3 * x) - y)
    return poisson(domain, f=f, g=g) if equation == "poisson" else darcy(domain, kappa, f=f, g=g)


def differ(one, other):
    return np.abs(one - other).max() > 1e-5


def new_data(name):
    domain, answers = Domain.square(8, [(2, 3), None, None, None]), []
    for equation, changes in (
        ("poisson", {"f": lambda x, y: 5 * x}),
        ("darcy", {"f": lambda x, y: 5 * x}),
        ("darcy", {"kappa": lambda x, y: 5 - y}),
    ):
        operator = operator_of(name, equation)
        one, other = (operator.solve(problem_on(domain, equation, **given)).u for given in ({}, changes))
        answers.append(differ(one, other))
    return all(answers)


def new_grid(name):
    operator = operator_of(name)
    u = operator.solve(problem_on(Domain.square(16, [(4, 6), None, None, None]))).u
    return np.isfinite(u).all() and np.ptp(u) > 1e-5


def new_places(name):
    solution = operator_of(name).solve(problem_on(Domain.square(8)))
    near = solution.problem.domain.points[27]
    here, beside = solution.at(np.array([near, near + 0.05]))
    return here == solution.u[27] and differ(here, beside)


def any_shape(name):
    mask = np.ones((8, 8), dtype=bool)
    whole = Domain.from_mask(mask)
    mask[3:5, 3:5] = False
    holed = Domain.from_mask(mask)
    operator = operator_of(name)
    with_hole, without = operator.solve(problem_on(holed)).u, operator.solve(problem_on(whole)).u
    return differ(with_hole, without[holed.mask.ravel()])


def boundary_values(name):
    operator, domain = operator_of(name), Domain.square(8, [(2, 3), None, None, None])
    problem = problem_on(domain)
    return differ(operator.solve(problem).u, operator.solve(problem.with_data(g=problem.g + 1.0)).u)


TESTS = {
    "new data": new_data,
    "new grid": new_grid,
    "new places": new_places,
    "any shape": any_shape,
    "boundary values": boundary_values,
}


@pytest.mark.parametrize("capability", CAPABILITIES)
@pytest.mark.parametrize("name", OURS)
def test_a_model_does_what_its_cell_says(name, capability):
    assert TESTS[capability](name) == (capability in OURS[name])


def test_the_table_is_complete():
    assert set(OURS) == set(names()) and set(TESTS) == set(CAPABILITIES)
    assert set(PAPER) == set(names()) - {"harmonic"}
    page, latex = as_markdown(), as_latex()
    assert page.count("✓ / ✓") + page.count("✗ / ✓") + page.count("✓ / ✗") + page.count("- / ✓") == 30
    assert latex.count(r"$\checkmark$") + latex.count(r"$\times$") == page.count("✓") + page.count("✗") == 55
    assert not {"✓", "✗"} & set(latex)
