"""What the papers' formulas are made of, in NumPy, for holding the models against them."""

import numpy as np
from scipy.special import expit, ndtr

from beno.batches.delaunay import build_graph
from beno.problems.walls import Kind


def weights_of(model):
    """By name, as double-precision arrays."""
    return {key: weight.detach().double().numpy() for key, weight in model.named_parameters()}


def linear(weights, name, x):
    """Of a layer's weights: outputs by inputs, or one matrix a branch, inputs by outputs, for every part of x."""
    if f"{name}.weight" in weights:
        matrix = weights[f"{name}.weight"]
        matrix = matrix.reshape(matrix.shape[:2]).T
    else:
        matrix = np.concatenate([value[0] for key, value in weights.items() if key.startswith(f"{name}.weights.")])
    return x @ matrix + weights.get(f"{name}.bias", np.zeros(1)).ravel()


def relu(x):
    return x * (x > 0)


def swish(x):
    return x * expit(x)


def gelu(x):
    return x * ndtr(x)


def nodes_and_graph(config, problem, scales):
    """Of points, then of panels: place, f, g, which of the two it is, kappa, the kind of wall and alpha."""
    walls, law, points, panels = problem.walls, problem.law, problem.domain.points, problem.domain.panels

    def column(at_points, at_panels):
        return np.concatenate([np.broadcast_to(at_points, len(points)), np.broadcast_to(at_panels, len(panels))])

    places = np.concatenate([points, panels.centres])
    columns = [(places - 0.5) * 12**0.5]
    columns += [column(problem.f / scales.source, 0), column(0, problem.g / scales.boundary)]
    columns += [column(1, 0), column(0, 1)]
    if config.coefficient:
        columns += [np.log(column(law.coefficient, law.panel_coefficient))]
    if config.kinds:
        columns += [*(column(0, walls.kind == kind) for kind in Kind), column(0, walls.alpha)]
    return np.column_stack(columns), build_graph(places, config.nearest)


def assert_is_the_formula(model, formula, solutions, scales):
    """The model's answers are those of a formula of its weights, its configuration, a problem and scales."""
    batch = model.batches(solutions, scales, model.config).batch()
    weights = weights_of(model)
    for solution, answer in zip(solutions, batch.split(model(batch).detach()), strict=True):
        expected = formula(weights, model.config, solution.problem, scales)
        np.testing.assert_allclose(answer.numpy(), expected, rtol=0, atol=1e-4 * expected.std())
