"""Evaluation, the paper's figures beside it, and the commands train, evaluate and plot."""

import json
from dataclasses import asdict

import numpy as np
import pytest
import torch

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.evaluation.evaluation import evaluate
from beno.evaluation.metrics import METRICS, Measured, Metric, mean_absolute_error
from beno.learned.averaged import AveragedOperator
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models.gkn import GKN, GKNConfig
from beno.paper.reported import COLUMNS, figures_for, table_for, tables
from beno.problems.families import Family
from beno.problems.norms import relative_l2
from beno.problems.solution import Solution
from beno.problems.turned import turned, with_sign
from beno.support.errors import BenoError
from tests.cli.test_cli import beno, refused


def metadata(**choices):
    return Metadata.of_family(Family(**choices), seed=0, samples=10)


def test_metrics_on_numbers_done_by_hand():
    truth, predicted = np.array([3.0, 4.0]), np.array([3.0, 1.0])
    assert relative_l2(predicted, truth) == pytest.approx(3 / 5)
    assert mean_absolute_error(predicted, truth) == pytest.approx(1.5)
    assert relative_l2(predicted, 0 * truth) == np.inf


def test_a_metric_prints_its_numbers_in_its_unit():
    assert list(METRICS) == ["relative_l2", "mae"], "others come after those that older cells have"
    printed = [metric.printed(Measured(0.25, 0.001)) for metric in METRICS.values()]
    assert printed == ["25.00 ± 0.10", "250.000 ± 1.000"]
    assert [metric.heading for metric in METRICS.values()] == ["Relative L2, %", "Mean absolute error, thousandths"]


class TestThePapersFigures:
    def test_all_nine_tables_are_there(self):
        assert len(tables()) == 9
        for table in tables().values():
            assert "BENO" in table
            for row in table.values():
                assert set(row) == set(COLUMNS.values())

    @pytest.mark.parametrize(
        ("trained", "tested", "table"),
        [
            ({"corners": 4}, {"corners": 2}, "train_4_corners"),
            ({"corners": "mixed"}, {"corners": 0}, "train_mixed"),
            ({"corners": 0}, {"corners": 4}, "train_no_corner"),
            ({"corners": 4}, {"corners": 4, "boundary": "zero"}, "zero_boundary"),
            ({"corners": 4}, {"corners": 4, "boundary": "zero", "resolution": 64}, "resolution_64"),
            ({"corners": 4, "boundary": "neumann"}, {"boundary": "neumann"}, "neumann_train_4_corners"),
            ({"corners": "mixed", "boundary": "neumann"}, {"boundary": "neumann"}, "neumann_train_mixed"),
            ({"corners": 4, "equation": "darcy"}, {"equation": "darcy"}, "darcy_train_4_corners"),
            ({"corners": 3}, {"corners": 3}, None),
            ({"corners": 4}, {"corners": 4, "resolution": 48}, None),
            ({"corners": 4}, {"equation": "darcy"}, None),
        ],
    )
    def test_each_stands_beside_what_it_was_measured_on(self, trained, tested, table):
        assert table_for(metadata(**trained), metadata(**tested)) == table

    def test_a_figure_is_found_by_model_and_data_and_is_in_our_units(self):
        figures = figures_for("BENO", metadata(corners=4), metadata(corners=4))
        assert figures["relative_l2"].mean == 0.3523 and figures["mae"].mean == pytest.approx(0.965e-3)
        assert figures_for("BENO", metadata(corners=4), metadata(corners="mixed")) == {}
        assert figures_for("no such model", metadata(corners=4), metadata(corners=4)) == {}


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    folder = tmp_path_factory.mktemp("trained")
    make(Family(resolution=8), 0, 25, folder / "four.h5")
    command = ("train", "--data", folder / "four.h5", "--out", folder / "run", "--preset", "fast", "--device", "cpu")
    result = beno(*command, "--set", "width=16", "--set", "steps=2", "--epochs", 3, "--batch-size", 4)
    assert result.returncode == 0, result.stderr
    assert "3 of 3 epochs" in result.stdout
    return folder


def test_evaluation_is_the_error_of_each_prediction(trained):
    operator = LearnedOperator.load(trained / "run")
    with Dataset(trained / "four.h5") as dataset:
        whole = evaluate(operator, dataset, "test")
        in_parts = evaluate(operator, dataset, "test", batch_size=2)
        truth = dataset[int(dataset.indices("test")[0])]
    predicted = operator.predict([truth.problem])[0]
    assert list(whole.values) == list(METRICS) and whole.samples == 2
    for name, metric in METRICS.items():
        np.testing.assert_allclose(whole.values[name], in_parts.values[name], rtol=1e-4)
        assert whole.values[name][0] == pytest.approx(metric.measure(predicted, truth.u), rel=1e-4)
        assert whole.summary()[name] == whole.values[name].mean() == whole.figures[name].mean


def test_a_new_metric_is_one_line(trained, tmp_path, monkeypatch):
    largest = Metric(lambda predicted, truth: float(np.abs(predicted - truth).max()), "Largest error", "", 1.0, 3)
    monkeypatch.setitem(METRICS, "largest", largest)
    figures = tmp_path / "figures.json"
    result = beno("evaluate", trained / "run", trained / "four.h5", "--out", figures, "--device", "cpu")
    assert "Largest" in result.stdout
    (stored,) = json.loads(figures.read_text())["figures"]
    assert stored["largest"] > stored["mae"] > 0 and stored["largest_deviation"] > 0


def test_other_equations_and_empty_splits_are_refused(trained, tmp_path):
    make(Family("darcy", resolution=8), 0, 3, tmp_path / "darcy.h5")
    make(Family(resolution=8), 0, 3, tmp_path / "few.h5")
    operator = LearnedOperator.load(trained / "run")
    with Dataset(tmp_path / "darcy.h5") as dataset, pytest.raises(BenoError, match="for poisson, not for darcy"):
        evaluate(operator, dataset)
    with Dataset(tmp_path / "few.h5") as dataset, pytest.raises(BenoError, match="no samples in its test split"):
        evaluate(operator, dataset)


def test_boundaries_that_the_weights_have_not_seen_are_refused(tmp_path):
    make(Family(boundary="neumann", resolution=8), 0, 10, tmp_path / "neumann.h5")
    for command in ("evaluate", "plot"):
        refused(beno(command, "poisson-dirichlet", tmp_path / "neumann.h5"), "neumann.h5: ", "with walls that fix u")
        refused(beno(command, "poisson-mixed", tmp_path / "neumann.h5"), "neumann.h5: ", "with walls that fix u")


def test_the_command_evaluate_prints_and_writes_its_figures(trained, tmp_path):
    result = beno(
        "evaluate", trained / "run", trained / "four.h5", "--out", tmp_path / "figures.json", "--device", "cpu"
    )
    assert result.returncode == 0, result.stderr
    assert "four.h5" in result.stdout and "±" in result.stdout
    stored = json.loads((tmp_path / "figures.json").read_text())
    assert stored["figures"][0]["samples"] == 2 and stored["model"]["config"]["width"] == 16


@pytest.mark.parametrize("symmetry", [0, 3, 6])
@pytest.mark.parametrize("equation, boundary", [("poisson", "dirichlet"), ("darcy", "mixed")])
def test_an_averaged_operator_has_the_symmetries(symmetry, equation, boundary):
    problem = Family(equation, boundary, "mixed", 8).problem(2, 1)
    torch.manual_seed(0)
    # A ball's graph turns with its points; Delaunay's choice of diagonals on a grid would not.
    settings = {"width": 8, "kernel_width": 16, "depth": 2, "radius": 0.3}
    data = Metadata.of_family(Family(equation, boundary=boundary), 0, 1)
    model = GKN(GKNConfig.from_settings(settings | GKNConfig.settings_for(data.problem_class)))
    operator = LearnedOperator(Header("gkn", asdict(model.config), Scales(), data), model)
    opposite = with_sign(turned(problem, symmetry), -1)
    plain, averaged = (one.predict([problem, opposite]) for one in (operator, AveragedOperator.of(operator)))
    expected = [-turned(Solution(problem, one[0]), symmetry).u for one in (plain, averaged)]
    size = np.abs(averaged[0]).max()
    np.testing.assert_allclose(averaged[1], expected[1], atol=1e-4 * size)
    assert np.abs(plain[1] - expected[0]).max() > 1e-2 * size


def test_the_command_plot_draws(trained, tmp_path):
    result = beno("plot", trained / "run", trained / "four.h5", "--sample", 3, "--device", "cpu", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "prediction-3.png").read_bytes().startswith(b"\x89PNG")


def test_the_command_train_goes_on(trained):
    command = ("train", "--data", trained / "four.h5", "--out", trained / "run", "--device", "cpu", "--resume")
    result = beno(*command, "--set", "width=16", "--set", "steps=2", "--epochs", 4, "--batch-size", 4)
    assert result.returncode == 0, result.stderr
    assert "4 of 4 epochs" in result.stdout


def test_the_command_train_starts_from_another_run(trained, tmp_path):
    command = ("train", "--data", trained / "four.h5", "--out", tmp_path / "run", "--device", "cpu", "--no-captured")
    result = beno(*command, "--start-from", trained / "run", "--epochs", 1, "--batch-size", 4)
    assert result.returncode == 0, result.stderr
    before, after = (LearnedOperator.load(folder / "run").header for folder in (trained, tmp_path))
    assert after.config == before.config and after.training["start"] == str(trained / "run")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--preset", "slow"), "no preset 'slow'"),
        (("--model", "gru"), "no model 'gru'"),
        (("--set", "colour=3"), "no setting 'colour'"),
        (("--set", "width"), "not NAME=VALUE"),
        (("--time-limit", "soon"), "not a duration"),
        (("--epochs", 0), "epochs is 0"),
        (("--device", "abacus"), "device"),
        (("--precision", "8-bit"), "precision"),
        (("--start-from", "nowhere"), "no operator 'nowhere'"),
        (("--start-from", ""), "no trained weights"),
        (("--start-from", "poisson-dirichlet"), "have model harmonic, where beno is needed"),
        (("--start-from", "beno-4-corners", "--set", "width=16"), "have width 128, where 16 is needed"),
    ],
)
def test_bad_training_options_are_refused_before_anything_is_done(trained, tmp_path, arguments, words):
    command = ("train", "--data", trained / "four.h5", "--out", tmp_path / "run", "--device", "cpu")
    refused(beno(*command, *arguments), words)
    assert not (tmp_path / "run").exists()


def test_evaluations_and_plots_that_cannot_be_are_refused(trained, tmp_path):
    refused(beno("evaluate", tmp_path, trained / "four.h5", "--device", "cpu"), "no trained weights")
    refused(beno("evaluate", trained / "run", tmp_path / "none.h5", "--device", "cpu"), "does not exist")
    refused(beno("evaluate", trained / "run", trained / "four.h5", "--split", "best", "--device", "cpu"), "no split")
    refused(beno("plot", trained / "run", trained / "four.h5", "--sample", 99, "--device", "cpu"), "samples 0 to 24")
