"""A model of another package joins by its name, and then does all that those of this package do."""

import json
import sys
from dataclasses import replace

import numpy as np
import pytest

from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.evaluation.evaluation import evaluate
from beno.evaluation.metrics import METRICS
from beno.learned.operator import LearnedOperator
from beno.models import registry
from beno.models.fno import FNO
from beno.models.registry import model_class, names, register
from beno.paper.pages import as_markdown
from beno.paper.tables import Row, Table, Training
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.training.config import PRESETS
from beno.training.run import Run
from tests.cli.test_cli import beno, refused
from tests.paper.small import queue_in

# All that a stranger writes: a file of a package, whose metadata have one line more.
SOURCE = '''
from dataclasses import dataclass

from torch import nn

from beno.models.base import ModelConfig, PictureModel


@dataclass(frozen=True)
class PointwiseConfig(ModelConfig):
    width: int = 64


class Pointwise(PictureModel):
    """u at each point from what is given there, and nothing else."""

    name = "pointwise"
    Config = PointwiseConfig
    small = {"width": 4}

    def __init__(self, config=None):
        super().__init__(config)
        width = self.config.width
        self.layers = nn.Sequential(nn.Conv2d(3, width, 1), nn.SiLU(), nn.Conv2d(width, 1, 1))

    def branches(self, batch):
        return self.layers(batch.channels[:, :3]).transpose(0, 1)
'''


@pytest.fixture(autouse=True)
def own_registry(monkeypatch):
    """What is registered here is forgotten afterwards."""
    monkeypatch.setattr(registry, "_KNOWN", dict(registry._KNOWN))


def install(folder, monkeypatch, module, source, entry):
    """What pip would leave behind: a module, and its metadata."""
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (folder / f"{module}.py").write_text(source)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[beno.models]\n{entry}\n")
    monkeypatch.syspath_prepend(folder)


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with an entry point."""
    site = tmp_path / "site"
    site.mkdir()
    install(site, monkeypatch, "pointwise_package", SOURCE, "pointwise = pointwise_package:Pointwise")
    yield site
    sys.modules.pop("pointwise_package", None)


def test_the_models_of_this_package_are_there():
    assert names() == ["beno", "harmonic", "gkn", "fno", "gnn-pde", "mp-pde"]
    assert all(model_class(name).name == name for name in names())


def test_an_unknown_model_is_refused_with_all_names():
    with pytest.raises(
        BenoError, match=r"there is no model 'gru'; there is beno, harmonic, gkn, fno, gnn-pde, mp-pde$"
    ):
        model_class("gru")


def test_a_model_may_be_registered_once_or_twice_but_its_name_is_its_own():
    class Mine(FNO):
        name = "mine"

    assert register(Mine) is Mine is register(Mine) is model_class("mine")
    assert names()[-1] == "mine"

    class Other(FNO):
        name = "mine"

    with pytest.raises(BenoError, match=r"there is a model 'mine' already: .*Mine"):
        register(Other)
    with pytest.raises(BenoError, match=r"there is a model 'fno' already: beno.models.fno.FNO"):
        register(type("Another", (FNO,), {"name": "fno"}))


def test_a_package_brings_a_model_by_its_entry_point(installed):
    assert names()[-1] == "pointwise"
    assert model_class("pointwise").__module__ == "pointwise_package"
    assert model_class("pointwise") is model_class("pointwise")


def test_an_entry_point_that_is_no_model_is_refused(tmp_path, monkeypatch):
    install(tmp_path, monkeypatch, "no_model_package", "something = 3\n", "nothing = no_model_package:something")
    with pytest.raises(BenoError, match="entry point no_model_package:something for the model 'nothing' is no beno"):
        model_class("nothing")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "data.h5"
    make(Family(resolution=8), 0, 20, path)
    return path


def test_it_trains_loads_and_is_evaluated(installed, data, tmp_path):
    config = replace(PRESETS["fast"], epochs=2, batch_size=4, precision="32-true")
    with Dataset(data) as dataset:
        with Run(tmp_path / "run", dataset, "pointwise", {"width": 8}, config) as run:
            assert run.train().finished
        operator = LearnedOperator.load(tmp_path / "run")
        figures = evaluate(operator, dataset).figures
    assert type(operator.model).__name__ == "Pointwise" and operator.model.config.width == 8
    assert set(figures) == set(METRICS) and np.isfinite(figures["relative_l2"].mean)
    assert operator.solve(Family(resolution=8).problem(9, 0)).report.solver == "pointwise"


def test_the_commands_know_it(installed, data, tmp_path):
    run = tmp_path / "run"
    trained = beno("train", "--data", data, "--out", run, "--model", "pointwise", "--epochs", 1, "--device", "cpu")
    assert trained.returncode == 0, trained.stderr
    evaluated = beno("evaluate", run, data, "--device", "cpu", "--out", tmp_path / "figures.json")
    assert evaluated.returncode == 0, evaluated.stderr
    assert json.loads((tmp_path / "figures.json").read_text())["model"]["model"] == "pointwise"
    plotted = beno("plot", run, data, "--device", "cpu", "--out", tmp_path / "picture.png")
    assert plotted.returncode == 0, plotted.stderr
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    command = ("train", "--data", data, "--out", tmp_path / "other", "--model", "pointwise", "--device", "cpu")
    refused(beno(*command, "--set", "depth=3"), "no setting 'depth'; there is width")


def test_without_its_package_its_weights_are_refused(installed, data, tmp_path):
    with Dataset(data) as dataset, Run(tmp_path / "run", dataset, "pointwise", {"width": 8}) as run:
        run.train(time_limit=0.0)
    sys.path.remove(str(installed))
    registry._KNOWN.pop("pointwise")
    with pytest.raises(BenoError, match="there is no model 'pointwise'"):
        LearnedOperator.load(tmp_path / "run")


def test_it_is_a_row_of_a_table(installed, tmp_path):
    table = Table("mine", "Mine", {"4-Corners": Family()}, (Row("stranger", Training("pointwise", Family())),))
    queue = queue_in(tmp_path)
    standing = queue.fill([table], float("inf"))
    assert (standing.missing, standing.failed) == (0, ())
    (cell,) = queue.cells.of_row(table, table.rows[0]).values()
    assert cell.trained.model == "pointwise" and cell.trained.settings == {"width": 4}
    assert cell.trained.parameters == 3 * 4 + 4 + 4 + 1
    assert "| stranger |" in as_markdown(table, {row: queue.cells.of_row(table, row) for row in table.rows})
