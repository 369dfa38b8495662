"""What every model in the registry obeys, whatever it is made of."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.batches.augmentation import Augmentation, Selection
from beno.batches.base import columns_of
from beno.batches.delaunay import build_ball_graph, build_graph
from beno.batches.graph_inputs import GraphInputs
from beno.batches.graphs import GraphBatches
from beno.batches.panels import PanelBatch, PanelBatches, PanelInputs
from beno.datasets.scales import Scales
from beno.geometry.symmetries import SYMMETRIES, turned_domain
from beno.models.base import GraphModel, LinearModel, ModelConfig, PictureModel
from beno.models.registry import model_class, names
from beno.problems.families import Family
from beno.problems.turned import turned, with_sign
from beno.problems.walls import Kind
from beno.solvers.direct import Direct
from beno.support.errors import BenoError
from beno.training.losses import squared_errors
from tests.learning import batches_for, operator_of, small_model, solution_with_hole, solutions_of, with_values

PLAIN, HARD = Family(resolution=8), Family("darcy", "mixed", resolution=8)
NAMES = names()
every_model = pytest.mark.parametrize("name", NAMES)
on_both_families = pytest.mark.parametrize("family", [PLAIN, HARD], ids=["poisson", "darcy with mixed walls"])
GRAPH_MODELS = [name for name in NAMES if issubclass(model_class(name), GraphModel)]


def solutions_for(family, count=3):
    return solutions_of(count, equation=family.equation, boundary=family.boundary)


def answers(model, posed, **options):
    """u at the points of each problem, in the units of the model."""
    batch = batches_for(model, posed, **options).batch()
    with torch.no_grad():
        return batch.split(model(batch))


@every_model
@on_both_families
def test_a_batch_answers_as_its_problems_do_one_by_one(name, family):
    solutions, model = solutions_for(family), small_model(name, family)
    if family is PLAIN:
        solutions.append(solution_with_hole())
    for solution, predicted in zip(solutions, answers(model, solutions), strict=True):
        (alone,) = answers(model, [solution])
        assert predicted.shape == (len(solution.u),)
        torch.testing.assert_close(predicted, alone, atol=1e-5, rtol=1e-5)


@every_model
@on_both_families
def test_every_parameter_gets_a_gradient(name, family):
    solutions, model = solutions_for(family, 5), small_model(name, family)
    batch = batches_for(model, solutions, Scales.fit(solutions)).batch()
    squared_errors(model(batch), batch).sum().backward()
    sizes = {key: 0.0 if p.grad is None else float(p.grad.abs().max()) for key, p in model.named_parameters()}
    silent = {key for key, size in sizes.items() if not size > 1e-6 * max(sizes.values())}
    # A softmax does not feel what is added for all panels alike.
    assert silent == ({"pair.last.bias", "pair.panel_factor.bias"} if (name, family) == ("harmonic", PLAIN) else set())


@every_model
def test_branches_add_up_to_u(name):
    model = small_model(name)
    batch = batches_for(model, solutions_of(2)).batch()
    with torch.no_grad():
        torch.testing.assert_close(model.branches(batch).sum(dim=0), model(batch))


@every_model
def test_u_is_in_single_precision_and_finite_on_every_resolution(name):
    """Weights do not depend on the grid."""
    model = small_model(name)
    for resolution in (8, 12, 16):
        (u,) = answers(model, solutions_of(1, resolution=resolution))
        assert u.dtype == torch.float32 and u.isfinite().all() and u.std() > 0


@every_model
def test_the_seed_decides_the_weights(name):
    one, again, other = (small_model(name, seed=seed).state_dict() for seed in (0, 0, 1))
    assert all(torch.equal(one[key], again[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


@every_model
@pytest.mark.parametrize(
    ("what", "family"),
    [
        ("f", PLAIN),
        ("g", PLAIN),
        ("coefficient", Family("darcy")),
        ("panel_coefficient", Family("darcy")),
        ("kind", Family(boundary="mixed")),
        ("alpha", Family(boundary="mixed")),
        ("alpha", Family(boundary="robin")),
    ],
    ids=lambda value: value if isinstance(value, str) else f"{value.equation} {value.boundary}",
)
def test_what_is_given_is_seen(name, what, family):
    if what == "panel_coefficient" and name in ("beno", "fno"):
        pytest.skip("it is told of kappa at the points alone")
    solutions = solutions_for(family, 5)
    solution = next((one for one in solutions if Kind.ROBIN in one.problem.walls.kinds), solutions[1])
    model, values = small_model(name, family), solution.values[what]
    kind = solution.problem.walls.kind
    if what == "kind":
        values = np.where(kind == Kind.NEUMANN, Kind.ROBIN, kind)
    elif what == "alpha":
        values = np.where(kind == Kind.ROBIN, values + 1, values)
    else:
        values = values + np.linspace(0.5, 1.5, len(values))
    assert not np.array_equal(values, solution.values[what])
    changed = with_values(solution, **{what: values})
    if what == "kind":  # Robin walls with the alpha that others have
        changed = with_values(changed, alpha=np.where(values == Kind.ROBIN, 2.0, 0.0))
    (before,), (after,) = answers(model, [solution]), answers(model, [changed])
    assert (before - after).abs().max() > 1e-4


@pytest.mark.parametrize("name", ["gkn", "fno", "harmonic"])
@pytest.mark.parametrize("turn", range(SYMMETRIES))
def test_a_turned_view_is_answered_as_the_turned_problem(name, turn):
    """Delaunay's choice of diagonals on a grid is not symmetric, so graphs other than a ball's are not the same."""
    solution, model = solutions_of(3)[2], small_model(name)
    views = batches_for(model, [solution], augmentation=Augmentation(symmetries=True))
    if name in GRAPH_MODELS:
        selection = Selection.of(np.array([turn]), np.array([-1.0]))
    else:
        every = np.arange(len(solution.u))[None]
        selection = Selection(np.array([0]), np.array([-1.0]), np.array([turn]), every)
    batch = views.open(views.feed(selection))
    with torch.no_grad():
        (ours,) = _split(batch, model(batch), solution)
    (theirs,) = answers(model, [with_sign(turned(solution, turn), -1)])
    _, came_from, _ = turned_domain(solution.problem.domain, turn)
    ours = ours if name == "fno" else ours[came_from]
    torch.testing.assert_close(ours, theirs, atol=2e-5, rtol=1e-5)


def _split(batch, values, solution):
    """A picture is read by its mask; what is listed is listed in the order of the problem before it was turned."""
    return [values[0, : len(solution.u)]] if isinstance(batch, PanelBatch) else batch.split(values)


@every_model
@on_both_families
def test_a_feed_that_was_filled_up_is_answered_as_before(name, family):
    solutions, model = solutions_for(family, 5), small_model(name, family)
    batches = batches_for(model, solutions)
    selection = batches.select(np.array([3, 1]), np.random.default_rng(0))
    with torch.no_grad():
        plain, filled = (batches.open(batches.feed(selection, samples)) for samples in (None, 4))
        before, after = (batch.by_sample(model(batch) * batch.truth) for batch in (plain, filled))
    assert len(filled) == 4
    torch.testing.assert_close(before, after[:2], atol=1e-4, rtol=1e-4)


def shuffled(inputs, **order):
    """With its points, its panels or both in another order."""
    columns = columns_of(type(inputs)).items()
    arrays = {name: getattr(inputs, name)[order[about.on]] for name, about in columns if about.on in order}
    return replace(inputs, **arrays)


@pytest.mark.parametrize("name", GRAPH_MODELS)
@on_both_families
def test_the_order_of_nodes_does_not_matter_to_what_passes_messages(name, family):
    solution, model = solutions_for(family, 2)[1], small_model(name, family)
    kind = model.graph_kind(model.config)
    make = GraphInputs.with_boundary_nodes if kind.boundary_nodes else GraphInputs.turned
    inputs = make(solution, Scales(), kind.build(solution.problem), 0)
    points, nodes = len(solution.u), len(inputs.points)
    order = np.concatenate([np.random.default_rng(0).permutation(points), np.arange(points, nodes)])
    mixed = shuffled(inputs, points=order)
    graph = (
        build_graph(mixed.points, kind.nearest) if kind.radius is None else build_ball_graph(mixed.points, kind.radius)
    )
    with torch.no_grad():
        here, there = (model(GraphBatches([one]).batch()) for one in (inputs, replace(mixed, graph=graph)))
    torch.testing.assert_close(there[:points], here[order[:points]], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", [name for name in NAMES if issubclass(model_class(name), LinearModel)])
@pytest.mark.parametrize("boundary", ["dirichlet", "neumann", "mixed"])
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_the_order_of_points_and_panels_does_not_matter_to_a_linear_model(name, equation, boundary):
    family, rng = Family(equation, boundary), np.random.default_rng(0)
    model, inputs = small_model(name, family), PanelInputs.of(solutions_for(family, 2)[1], Scales())
    points, panels = rng.permutation(len(inputs.points)), rng.permutation(len(inputs.kind))
    mixed = shuffled(inputs, points=points, panels=panels)
    with torch.no_grad():
        before, after = (model(PanelBatches([one]).batch())[0] for one in (inputs, mixed))
    torch.testing.assert_close(after, before[points], atol=1e-5, rtol=1e-5)


# Sizes at which each learns in a second or two; for the others the small ones do.
TO_LEARN = {
    "beno": {"width": 16, "steps": 3},
    "gkn": {"width": 8, "kernel_width": 16, "depth": 4},
    "fno": {"width": 8, "layers": 3, "modes": 4},
    "gnn-pde": {"width": 16, "layers": 3, "terms": 5},
    "mp-pde": {"width": 16, "steps": 4},
}


@pytest.fixture(scope="module")
def squares():
    family = Family(corners=0, boundary="zero", resolution=8)
    return [Direct().solve(family.problem(0, index)) for index in range(108)]


@pytest.mark.parametrize("name", TO_LEARN)
def test_each_learns_squares_that_it_has_not_seen(name, squares):
    """To an eighth of the squares that predicting zero leaves: what fails in a table is the method's."""
    shown, unseen = squares[:96], squares[96:]
    scales, model = Scales.fit(shown), small_model(name, noise=0.0, **TO_LEARN[name])
    train(model, batches_for(model, shown, scales), steps=150)
    with torch.no_grad():
        batch = batches_for(model, unseen, scales).batch()
        share = squared_errors(model(batch), batch).sum() / squared_errors(0 * batch.truth, batch).sum()
    assert share < 0.125


def test_the_harmonic_operator_learns_what_it_sees():
    """It begins close to the truth, as the kernel of straight walls, so what it learns is held against that."""
    solutions = solutions_of(4, corners=1)
    model = small_model("harmonic", noise=0.0)
    batches = batches_for(model, solutions, Scales.fit(solutions))
    losses = train(model, batches, steps=150)
    assert np.mean(losses[-10:]) < 0.1 * losses[0]


def train(model, batches, steps, rate=0.01, together=4):
    """A plain loop: the losses, as the share of squares that predicting zero leaves."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, rate, total_steps=steps)
    rng, losses = np.random.default_rng(0), []
    for _ in range(steps):
        batch = batches.batch(rng.integers(len(batches), size=min(together, len(batches))))
        loss = squared_errors(model(batch), batch).sum() / batch.by_sample(batch.truth.square()).sum()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    return losses


@every_model
@on_both_families
def test_a_model_solves_problems_as_every_solver_does(name, family):
    problem = family.problem(0, 0)
    operator = operator_of(small_model(name, family), family, Scales(2.0, 3.0, 4.0))
    solution = operator.solve(problem)
    assert solution.report.solver == name and solution.u.shape == problem.f.shape and np.isfinite(solution.u).all()
    between = (problem.domain.points[10] + problem.domain.points[11]) / 2
    assert np.isfinite(solution.at(between[None])).all()
    prepared = operator.prepare(problem.operator)
    np.testing.assert_allclose(prepared(problem.right), solution.u, atol=1e-4 * np.abs(solution.u).max())
    two = prepared.solve(np.stack([problem.f, 2 * problem.f]), np.stack([problem.g, 2 * problem.g]))
    np.testing.assert_allclose(two[0], solution.u, atol=1e-4 * np.abs(solution.u).max())


class TestSettings:
    @every_model
    def test_small_sizes_make_a_small_network(self, name):
        small, usual = small_model(name), model_class(name)()
        sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (small, usual)]
        assert sizes[0] < 0.05 * sizes[1]

    @every_model
    def test_a_setting_that_is_unknown_is_refused(self, name):
        with pytest.raises(BenoError, match=r"no setting 'colour'; there is .*width"):
            model_class(name).Config.from_settings({"colour": 3})

    @every_model
    @pytest.mark.parametrize("value", [16.0, "16", True, None])
    def test_a_setting_of_another_type_is_refused(self, name, value):
        with pytest.raises(BenoError, match=r"the setting width is .*; it must be int"):
            model_class(name).Config.from_settings({"width": value})

    @every_model
    @pytest.mark.parametrize("value", [0, -4])
    def test_no_width_is_refused(self, name, value):
        with pytest.raises(BenoError, match=rf"width is {value}; it must be at least 1"):
            model_class(name).Config.from_settings({"width": value})

    @every_model
    def test_the_kinds_of_walls_are_known_by_name(self, name):
        network = model_class(name)
        told = network.Config.settings_for(HARD.problem_class)
        assert told["known_kinds"] == "dirichlet neumann robin"
        with pytest.raises(BenoError, match="known_kinds is 'dirichlet open'; there is dirichlet, neumann, robin"):
            network(network.Config.from_settings({**told, "known_kinds": "dirichlet open"}))

    @every_model
    def test_a_network_has_inputs_for_the_kinds_that_it_knows_and_no_others(self, name):
        """So that weights do not change when a new kind is made."""
        of_one, of_all = (small_model(name, HARD, known_kinds=kinds) for kinds in ("robin", "robin dirichlet neumann"))
        sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in (of_one, of_all)]
        assert sizes[0] < sizes[1]
        (u,) = answers(of_all, solutions_for(HARD, 1))
        assert u.isfinite().all()

    def test_a_plain_config_asks_for_nothing(self):
        assert ModelConfig.settings_for(HARD.problem_class) == {}
        assert ModelConfig.from_settings({}) == ModelConfig()


def test_all_models_are_there_by_what_they_are_fed_with():
    fed = {GraphModel: {"beno", "gkn", "gnn-pde", "mp-pde"}, PictureModel: {"fno"}, LinearModel: {"harmonic"}}
    for base, expected in fed.items():
        assert {name for name in NAMES if issubclass(model_class(name), base)} == expected
