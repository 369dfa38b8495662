"""The four baselines: equal inputs, their laws, their papers' formulas, and that each can learn what it can do."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.polynomial.chebyshev import chebvander
from scipy.special import expit, ndtr

from beno.batches.augmentation import Plan, Variety
from beno.batches.delaunay import build_graph
from beno.batches.pictures import CHANNELS, GridCohort
from beno.datasets.dataset import Dataset, Metadata
from beno.datasets.making import make
from beno.datasets.scales import Scales
from beno.evaluation.evaluation import evaluate
from beno.geometry.symmetries import SYMMETRIES, transformed
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models import MODELS, make_config, make_model
from beno.models.gkn import KernelSum
from beno.models.mp_pde import instance_norm
from beno.models.mp_pde import samples_of as norm_samples
from beno.models.nodes import node_features
from beno.problems.families import Family
from beno.problems.problem import Kind
from beno.support.errors import BenoError
from beno.training.config import PRESETS
from beno.training.loop import Run
from tests.learning import sample_with_hole, samples_of

SMALL = {
    "gkn": {"width": 8, "kernel_width": 16, "depth": 2, "radius": 0.3},
    "fno": {"width": 8, "layers": 2, "modes": 3, "projection": 8},
    "gnn-pde": {"width": 16, "layers": 2, "terms": 5},
    "mp-pde": {"width": 16, "steps": 2},
}
GRAPHS = ("gkn", "gnn-pde", "mp-pde")


def model_of(name, **settings):
    torch.manual_seed(0)
    return make_model(name, make_config(name, {**SMALL[name], **settings}))


def cohort_for(model, samples, **options):
    return model.cohort(samples, Scales.fit(samples), model.config, **options)


def in_double(batch):
    return replace(
        batch,
        **{
            key: value.double()
            for key, value in vars(batch).items()
            if torch.is_tensor(value) and value.is_floating_point()
        },
    )


@pytest.mark.parametrize("name", SMALL)
def test_a_batch_answers_as_its_samples_do(name):
    samples, model = [*samples_of(3), sample_with_hole()], model_of(name)
    batch = cohort_for(model, samples).batch()
    with torch.no_grad():
        together = batch.split(model(batch))
        for sample, predicted in zip(samples, together, strict=True):
            alone = model.cohort([sample], Scales.fit(samples), model.config).batch()
            (expected,) = alone.split(model(alone))
            assert predicted.shape == (len(sample.u),)
            assert torch.allclose(predicted, expected, atol=1e-5)


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("equation, boundary", [("poisson", "dirichlet"), ("darcy", "mixed")])
def test_every_parameter_gets_a_gradient(name, equation, boundary):
    samples = samples_of(3, equation=equation, boundary=boundary)
    model = model_of(name, coefficient=equation == "darcy", kinds=boundary == "mixed")
    batch = cohort_for(model, samples).batch()
    batch.by_sample((model(batch) - batch.u).square()).sum().backward()
    silent = [key for key, p in model.named_parameters() if p.grad is None or not p.grad.abs().max() > 0]
    assert not silent


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize(
    "what, equation, boundary",
    [
        ("source", "poisson", "dirichlet"),
        ("g", "poisson", "dirichlet"),
        ("coefficient", "darcy", "dirichlet"),
        ("kind", "poisson", "mixed"),
        ("alpha", "poisson", "mixed"),
        ("alpha", "poisson", "robin"),
    ],
)
def test_they_see_what_is_given(name, what, equation, boundary):
    """With the settings that such a dataset asks for."""
    sample = samples_of(2, equation=equation, boundary=boundary)[1]
    settings = MODELS[name][1].settings_for(Metadata.of_family(Family(equation, boundary), 0, 1))
    model, values = model_of(name, **settings), getattr(sample, what) + 1
    changed = replace(sample, **{what: values % len(Kind) if what == "kind" else values})
    with torch.no_grad():
        before, after = (model(model.cohort([one], Scales(), model.config).batch()) for one in (sample, changed))
    assert (before - after).abs().max() > 1e-4


@pytest.mark.parametrize("name", SMALL)
def test_they_see_where_the_boundary_is(name):
    model = model_of(name)
    batch = model.cohort([samples_of(2)[1]], Scales(), model.config).batch()
    if name in GRAPHS:
        changed = replace(batch, inside=1 - batch.inside)
    else:
        flag = torch.tensor([channel == "on_boundary" for channel in CHANNELS])[:, None, None]
        changed = replace(batch, channels=torch.where(flag, 1 - batch.channels, batch.channels))
    with torch.no_grad():
        assert (model(batch) - model(changed)).abs().max() > 1e-4


@pytest.mark.parametrize("corners", [0, 4])
def test_outside_a_domain_fno_has_a_large_number(corners):
    """As the appendix of BENO's paper has it; a whole square has no outside."""
    model, nothing = model_of("fno"), model_of("fno", outside=0.0)
    batch = cohort_for(model, samples_of(1, corners=corners)).batch()
    assert model.config.outside > batch.channels.abs().max()
    with torch.no_grad():
        change = (model(batch) - nothing(batch))[batch.mask].abs().max()
    assert change > 1e-2 if corners else change == 0


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.parametrize("turn", range(SYMMETRIES))
def test_a_turned_view_is_the_turned_sample(name, turn):
    sample, model = samples_of(3)[2], model_of(name)
    views = model.cohort([sample], Scales(), model.config, variety=Variety(symmetries=True))
    if name in GRAPHS:
        batch = views.feed(Plan(np.array([turn]), np.array([-1.0])))
    else:
        batch = views.open(views.feed(Plan(np.array([0]), np.array([-1.0]), np.array([turn]))))
    turned = transformed(sample, turn)
    turned = replace(turned, source=-turned.source, g=-turned.g, u=-turned.u)
    expected = model.cohort([turned], Scales(), model.config).batch()
    with torch.no_grad():
        ours, theirs = model(batch), model(expected)
    if name in GRAPHS:
        points = len(sample.u)
        # Delaunay's choice of diagonals on a grid is not symmetric, so only a ball's graph is the same after a turn.
        assert torch.allclose(batch.points[:points], expected.points[:points], atol=1e-6)
        assert torch.allclose(batch.u[:points], expected.u[:points])
        if name == "gkn":
            assert torch.allclose(ours[:points], theirs[:points], atol=1e-5)
    else:
        assert torch.equal(batch.mask, expected.mask) and torch.allclose(batch.u, expected.u)
        assert torch.allclose(ours, theirs, atol=1e-5)


@pytest.mark.parametrize("name", GRAPHS)
def test_padding_changes_nothing(name):
    samples, model = samples_of(5), model_of(name)
    cohort = cohort_for(model, samples)
    plan = Plan(np.array([3, 1]), np.ones(2))
    with torch.no_grad():
        plain, padded = cohort.feed(plan), cohort.feed(plan, samples=4)
        assert len(padded) == 4 and len(padded.u) > len(plain.u)
        before, after = model(plain), model(padded)
    assert torch.allclose(before, after[: len(before)], atol=1e-5)
    assert torch.allclose(plain.by_sample(plain.u.square()), padded.by_sample(padded.u.square())[:2])


@pytest.mark.parametrize("name", GRAPHS)
def test_the_order_of_points_does_not_matter(name):
    sample, model = samples_of(2)[1], model_of(name)
    order = np.random.default_rng(0).permutation(len(sample.u))
    mixed = replace(sample, points=sample.points[order], source=sample.source[order], u=sample.u[order])
    with torch.no_grad():
        one, other = (model(model.cohort([each], Scales(), model.config).batch()) for each in (sample, mixed))
    points = len(order)
    assert torch.allclose(one[:points][order], other[:points], atol=1e-5)


@pytest.mark.parametrize("padded", [False, True])
def test_instance_norm_is_by_sample(padded):
    model = model_of("mp-pde")
    cohort = cohort_for(model, samples_of(3))
    batch = cohort.feed(Plan(np.arange(3), np.ones(3)), 4) if padded else cohort.batch()
    assert (batch.real_point is not None) == padded
    values = torch.randn(len(batch.u), 4) * (1 + batch.sample[:, None]) + batch.sample[:, None]
    if padded:
        values[~batch.real_point] = 1e3
    normed = instance_norm(values, torch.ones(4), torch.zeros(4), norm_samples(batch))
    for number in range(3):
        here = normed[(batch.sample == number) & (batch.real_point if padded else True)]
        assert torch.allclose(here.mean(dim=0), torch.zeros(4), atol=1e-5)
        assert torch.allclose(here.var(dim=0, unbiased=False), torch.ones(4), atol=1e-3)


@pytest.mark.parametrize("at_a_time", [2, 100])
def test_a_kernel_after_the_sum_is_a_matrix_for_every_edge(at_a_time, monkeypatch):
    """GKN's answer and gradients, against the plain way: a matrix for every edge, times what is sent along it."""
    monkeypatch.setattr(KernelSum, "NODES_AT_A_TIME", at_a_time)
    model = model_of("gkn").double()
    batch = in_double(cohort_for(model, [*samples_of(2), sample_with_hole()]).batch())

    def edge_by_edge():
        wiring, width = batch.wiring, model.config.width
        features = node_features(batch, False, False)
        hidden = model.kernel(
            model.from_receiver(features)[wiring.receiver] + model.from_sender(features)[wiring.sender]
        )
        last = model.matrix.weight.view(width, -1, width)  # receives, hidden, sends
        matrices = torch.einsum("ohs,eh->eos", last, hidden) + model.mean_matrix.weight
        nodes = model.lift(features)
        for _ in range(model.config.depth):
            sent = (matrices @ nodes[wiring.sender][:, :, None])[:, :, 0]
            total = torch.zeros_like(nodes).index_add(0, wiring.receiver, sent)
            degree = torch.bincount(wiring.receiver, minlength=len(nodes)).clamp(min=1)[:, None]
            nodes = torch.relu(model.root(nodes) + total / degree)
        return model.project(nodes)[:, 0]

    weights = tuple(model.parameters())
    answers = model.branches(batch)[0], edge_by_edge()
    torch.testing.assert_close(answers[0], answers[1].float())
    ours, plain = (torch.autograd.grad(answer.square().sum(), weights) for answer in answers)
    for one, other in zip(ours, plain, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6 * float(other.abs().max()))


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


def nodes_and_graph(config, sample, scales):
    """Of points, then of panels: place, f, g, which of the two it is, kappa, the kind of wall and alpha."""

    def column(at_points, at_panels):
        return np.concatenate([np.broadcast_to(at_points, len(sample.u)), np.broadcast_to(at_panels, len(sample.g))])

    places = np.concatenate([sample.points, sample.centres])
    columns = [(places - 0.5) * 12**0.5]
    columns += [column(sample.source / scales.source, 0), column(0, sample.g / scales.boundary)]
    columns += [column(1, 0), column(0, 1)]
    if config.coefficient:
        columns += [np.log(column(sample.coefficient, sample.panel_coefficient))]
    if config.kinds:
        columns += [*(column(0, sample.kind == kind) for kind in Kind), column(0, sample.alpha)]
    return np.column_stack(columns), build_graph(places, config.nearest)


def gnn_pde(weights, config, sample, scales):
    """Defferrard et al., 2016: Chebyshev polynomials of 2 L / most - 1, where L = 1 - D^-1/2 A D^-1/2 and no eigenvalue
    of it exceeds ``most``. In A stand the lengths of edges, as Lötzsch et al., 2022, have them."""
    nodes, graph = nodes_and_graph(config, sample, scales)
    one, adjacency, most = np.eye(len(nodes)), np.zeros((len(nodes), len(nodes))), 2
    ends = graph.receiver, graph.sender
    adjacency[ends] = np.linalg.norm(nodes[ends[0], :2] - nodes[ends[1], :2], axis=1)
    degree = adjacency.sum(axis=1)
    laplacian = one - adjacency / np.sqrt(np.outer(degree, degree))
    eigenvalues, vectors = np.linalg.eigh(2 * laplacian / most - one)
    polynomials = [vectors * values @ vectors.T for values in chebvander(eigenvalues, config.terms - 1).T]
    nodes = relu(linear(weights, "encode.2", relu(linear(weights, "encode.0", nodes))))
    for layer in range(config.layers):
        terms = enumerate(polynomials)
        nodes = relu(sum(linear(weights, f"layers.{layer}.terms.{k}", matrix @ nodes) for k, matrix in terms))
    return linear(weights, "decode.2", relu(linear(weights, "decode.0", nodes)))[: len(sample.u), 0]


def mp_pde(weights, config, sample, scales):
    """Brandstetter et al., 2022, (8) and (9), edge by edge and node by node; the norm of their code."""
    given, graph = nodes_and_graph(config, sample, scales)
    nodes = swish(linear(weights, "encode.2", swish(linear(weights, "encode.0", given))))
    for step in (f"steps.{number}" for number in range(config.steps)):
        messages = [[] for _ in nodes]
        for i, j in zip(graph.receiver, graph.sender, strict=True):
            first = linear(weights, f"{step}.message.first", given[i, :4] - given[j, :4])  # of places, f and g
            first += linear(weights, f"{step}.from_receiver", nodes[i])
            first += linear(weights, f"{step}.from_sender", nodes[j])
            messages[i].append(swish(linear(weights, f"{step}.message.rest.0", swish(first))))
        updated = []
        for node, received in zip(nodes, messages, strict=True):
            first = linear(weights, f"{step}.update.first", np.concatenate([node, np.mean(received, axis=0)]))
            updated.append(node + swish(linear(weights, f"{step}.update.rest.0", swish(first))))
        normal = (updated - np.mean(updated, axis=0)) / np.sqrt(np.var(updated, axis=0) + 1e-5)
        nodes = weights[f"{step}.gain"] * normal + weights[f"{step}.shift"]
    return linear(weights, "decode.2", swish(linear(weights, "decode.0", nodes)))[: len(sample.u), 0]


def fno(weights, config, sample, scales):
    """Li et al., 2021: a matrix for each of the lowest waves, of positive and negative frequency along x, with a dense
    transform. Those of negative frequency along y are the conjugates of others, for what is real."""
    n, frequency, cell = sample.resolution, np.arange(-config.modes, config.modes), np.arange(sample.resolution)
    inside = tuple(np.floor(sample.points * n).astype(int).T)
    behind = sample.centres - sample.normals / (2 * n)  # the cell behind each panel
    beside = np.linalg.norm(sample.points[:, None] - behind, axis=2) < 0.1 / n

    def mean_of_walls(values):
        return [values[walls].mean() if walls.any() else 0 for walls in beside]

    columns = [sample.source / scales.source, mean_of_walls(sample.g / scales.boundary), beside.any(axis=1)]
    if config.coefficient:
        columns += [np.log(sample.coefficient)]
    if config.kinds:
        columns += [mean_of_walls(values) for values in (sample.alpha, *(sample.kind == kind for kind in Kind))]
    picture = np.full((n, n, len(columns)), config.outside)
    picture[inside] = np.column_stack(columns)
    place = np.stack(np.meshgrid(cell, cell, indexing="ij"), axis=-1)
    x = linear(weights, "lift", np.concatenate([picture, ((place + 0.5) / n - 0.5) * 12**0.5], axis=2))

    along = np.exp(2j * np.pi * np.outer(frequency, cell) / n)
    waves = np.einsum("kx,ly->klxy", along, along[config.modes :])
    with_conjugate = np.where(np.arange(config.modes) == 0, 1, 2)
    for layer in (f"layers.{number}" for number in range(config.layers)):
        x = gelu(x) if layer != "layers.0" else x
        positive, negative = weights[f"{layer}.weight"][0] + 1j * weights[f"{layer}.weight"][1]
        matrices = np.concatenate([negative, positive], axis=2)
        spectrum = np.einsum("klxy,xyi->kli", waves.conj(), x) / n**2
        spectrum = np.einsum("iokl,kli,l->klo", matrices, spectrum, with_conjugate)
        x = np.einsum("klxy,klo->xyo", waves, spectrum).real + linear(weights, f"{layer}.pointwise", x)
    return linear(weights, "project.2", gelu(linear(weights, "project.0", x)))[inside][:, 0]


PLAIN = {"gnn-pde": gnn_pde, "mp-pde": mp_pde, "fno": fno}


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("equation, boundary", [("poisson", "dirichlet"), ("darcy", "mixed")])
def test_each_is_what_its_paper_says(name, equation, boundary):
    samples = samples_of(2, equation=equation, boundary=boundary)
    model, scales = model_of(name, coefficient=equation == "darcy", kinds=boundary == "mixed"), Scales.fit(samples)
    batch = cohort_for(model, samples).batch()
    with torch.no_grad():
        for weight in model.parameters():  # biases and gains at zero and one would not show
            weight += 0.1 * torch.randn_like(weight)
        answers = batch.split(model(batch))
    weights = {key: weight.detach().double().numpy() for key, weight in model.named_parameters()}
    for sample, answer in zip(samples, answers, strict=True):
        expected = PLAIN[name](weights, model.config, sample, scales)
        np.testing.assert_allclose(answer.numpy(), expected, rtol=0, atol=1e-4 * expected.std())


@pytest.fixture(scope="module")
def squares(tmp_path_factory):
    path = tmp_path_factory.mktemp("squares") / "squares.h5"
    make(Family(corners=0, boundary="zero", resolution=8), 0, 300, path)
    return path


@pytest.mark.parametrize("name", SMALL)
def test_each_can_learn(name, squares, tmp_path):
    """Squares with g = 0, to less than 10 % on samples that it has not seen: what fails in a table is the method's."""
    settings = {
        "gkn": {"width": 16, "kernel_width": 64, "depth": 6, "radius": 0.2},
        "fno": {"width": 16, "modes": 4},
        "gnn-pde": {"width": 32, "layers": 3, "terms": 5},
        "mp-pde": {"width": 32, "steps": 4},
    }[name]
    changes = {"learning_rate": 5e-3, "first_restart": 0, "warm_up": 50, "precision": "32-true"}
    config = replace(PRESETS["fast"], epochs=50, **changes)
    with Dataset(squares) as dataset:
        Run(tmp_path, dataset, name, settings, config).train()
        figures = evaluate(LearnedOperator.load(tmp_path), dataset).summary()
    assert figures["samples"] == 30 and figures["relative_l2"] < 0.1


def test_what_they_cannot_take():
    samples = samples_of(2)
    with pytest.raises(BenoError, match="whole samples"):
        GridCohort.of(samples, Scales(), variety=Variety(parts=1))
    finer = [*samples, *samples_of(1, resolution=12)]
    with pytest.raises(BenoError, match="one resolution"):
        GridCohort.of(finer, Scales())
    with pytest.raises(BenoError, match="radius"):
        make_config("gkn", {"radius": -0.1})
    with pytest.raises(BenoError, match="at least 1"):
        make_config("fno", {"modes": 0})


def test_a_finer_grid_has_room_for_all_modes():
    """FNO's weights do not depend on the grid; a coarse one uses fewer modes."""
    model = model_of("fno", modes=6)
    for resolution in (8, 16):
        sample = samples_of(1, resolution=resolution)
        batch = model.cohort(sample, Scales(), model.config).batch()
        assert model(batch).shape == (1, resolution, resolution)


@pytest.mark.parametrize("name", SMALL)
def test_they_solve_problems_as_every_solver_does(name):
    problem = Family(resolution=8).problem(0, 0)
    model = model_of(name)
    header = Header(name, vars(model.config), Scales(), Metadata.of_family(Family(resolution=8), 0, 1))
    solution = LearnedOperator(header, model).solve(problem)
    assert solution.solver == name and np.isfinite(solution.u).all()
    between = (problem.domain.points[10] + problem.domain.points[11]) / 2
    assert np.isfinite(solution.at(between[None])).all()


def test_all_are_there():
    assert set(MODELS) == {"beno", "harmonic", *SMALL}
