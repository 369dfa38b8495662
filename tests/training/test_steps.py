"""A step of the optimizer is the same in one piece or several, and on a network in training it is Adam's."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from beno.models.registry import model_class, names
from beno.support.errors import BenoError
from beno.training.losses import LOSS_NAMED
from tests.training.small import CONFIG, run_in


def small_run(folder, data, name="beno", **changes):
    config = replace(CONFIG, **({"clip": None} | changes))
    return run_in(folder, data, config, name, settings=model_class(name).small)


def gradients(run):
    return {name: parameter.grad for name, parameter in run.network.named_parameters()}


@pytest.mark.parametrize(("name", "loss"), [*((name, "mean square") for name in names()), ("beno", "relative")])
def test_a_batch_in_pieces_moves_the_weights_as_the_whole_does(name, loss, data, tmp_path):
    taken, losses = [], []
    for points in (1, 10**9):
        run = small_run(tmp_path / str(points), data, name, loss=loss)
        run.train_set.POINTS_IN_CACHE = points
        losses.append(float(run.steps(run.train_set.select(np.arange(4), np.random.default_rng(0)), rate=1e-3)))
        taken.append(gradients(run))
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    for key, whole in taken[1].items():
        assert torch.allclose(taken[0][key], whole, rtol=1e-4, atol=1e-6 * float(whole.abs().max() + 1)), key


@pytest.mark.parametrize("loss", LOSS_NAMED)
def test_the_loss_of_a_step_is_the_mean_over_points_or_over_samples(loss, data, tmp_path):
    run = small_run(tmp_path / "run", data, loss=loss)
    selection = run.train_set.select(np.array([0, 3, 4]), np.random.default_rng(0))
    batch = run.train_set.batch(np.array([0, 3, 4]))
    with torch.no_grad():
        errors = LOSS_NAMED[loss](run.network(batch), batch)
    count = 3 if loss == "relative" else sum(batch.point_counts)
    assert float(run.steps(selection, rate=1e-3)) == pytest.approx(float(errors.sum()) / count, rel=1e-5)


def test_a_gradient_is_clipped_to_its_largest_norm(data, tmp_path):
    norms = []
    for clip in (None, 0.01):
        run = small_run(tmp_path / str(clip), data, clip=clip)
        run.steps(run.train_set.select(np.arange(4), np.random.default_rng(0)), rate=1e-3)
        norms.append(float(torch.stack([gradient.norm() for gradient in gradients(run).values()]).norm()))
    assert norms[0] > 0.01 and norms[1] == pytest.approx(0.01, rel=1e-3)


def test_a_rate_of_zero_moves_nothing_and_the_rate_is_the_one_given(data, tmp_path):
    run = small_run(tmp_path / "run", data, weight_decay=0.0)
    before = {name: tensor.clone() for name, tensor in run.network.state_dict().items()}
    selection = run.train_set.select(np.arange(4), np.random.default_rng(0))
    run.steps(selection, rate=0.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in run.network.state_dict().items())
    run.steps(selection, rate=1e-3)
    moved = max(float((tensor - before[name]).abs().max()) for name, tensor in run.network.state_dict().items())
    assert 0.5e-3 < moved < 1.5e-3, "Adam's steps are as long as its rate"


@pytest.mark.parametrize("decoupled", [False, True])
def test_decay_is_of_the_weights_or_of_the_gradient(decoupled, data, tmp_path):
    run = small_run(tmp_path / "run", data, decoupled_decay=decoupled)
    assert type(run.steps.optimizer.optimizer) is (torch.optim.AdamW if decoupled else torch.optim.Adam)


def test_a_state_that_is_put_back_goes_on_with_the_same_steps(data, tmp_path):
    one, other = (small_run(tmp_path / name, data) for name in ("one", "other"))
    selection = one.train_set.select(np.arange(4), np.random.default_rng(0))
    one.steps(selection, rate=1e-3)
    other.steps.load_state({name: tensor.clone() for name, tensor in one.steps.state().items()}, "there")
    for run in (one, other):
        run.steps(selection, rate=1e-3)
    ours, theirs = one.steps.state(), other.steps.state()
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_a_state_without_the_optimizers_is_refused(data, tmp_path):
    run = small_run(tmp_path / "run", data)
    weights = {f"model.{name}": tensor for name, tensor in run.network.state_dict().items()}
    with pytest.raises(BenoError, match=r"there is no state of a run: optimizer\.exp_avg\..* is missing"):
        run.steps.load_state(weights, "there")


def test_half_precision_is_used_where_it_is_asked_for_and_of_use(data, tmp_path, monkeypatch):
    for precision, useful, expected in (
        ("32-true", True, False),
        ("bf16-mixed", True, True),
        ("bf16-mixed", False, False),
    ):
        monkeypatch.setattr("beno.training.steps.multiplies_in_half", lambda device, useful=useful: useful)
        run = small_run(tmp_path / f"{precision}-{useful}", data, precision=precision)
        with run.steps.autocast():
            assert torch.is_autocast_enabled("cpu") == expected
