"""A run begins with random weights, with trained ones and their scales, or with its own from before."""

import shutil
from dataclasses import replace

import pytest
import torch

from beno.datasets.dataset import Dataset
from beno.datasets.hdf5 import Block, write
from beno.datasets.making import make
from beno.datasets.scales import Scales
from beno.learned import checkpoints
from beno.learned.operator import BEST
from beno.models.beno import BENO, BENOConfig
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.training.run_folder import STATE
from tests.learning import with_values
from tests.training.small import CONFIG, SETTINGS, assert_same, run_in, weights


@pytest.fixture
def louder(data, tmp_path):
    """The same samples with three times as large a u, and so with other scales."""
    with Dataset(data) as dataset:
        samples = [with_values(solution, u=3 * solution.u) for solution in dataset]
        write(tmp_path / "louder.h5", dataset.metadata, [Block.pack([sample]) for sample in samples])
    return tmp_path / "louder.h5"


def test_trained_weights_come_with_their_scales(unbroken, louder, tmp_path):
    config = replace(CONFIG, start=str(unbroken), epochs=1, learning_rate=1e-12)
    run_in(tmp_path / "on", louder, config).train()
    ours, theirs = weights(tmp_path / "on", BEST), weights(unbroken, BEST)
    assert all(torch.allclose(ours[name], theirs[name], atol=1e-9) for name in theirs)
    headers = [checkpoints.load_header(folder / BEST) for folder in (tmp_path / "on", unbroken)]
    assert headers[0].scales == headers[1].scales


def test_a_run_that_began_with_trained_weights_goes_on_without_them(unbroken, louder, tmp_path):
    shutil.copytree(unbroken, tmp_path / "start")
    config = replace(CONFIG, epochs=2, start=str(tmp_path / "start"))
    run_in(tmp_path / "whole", louder, config).train()
    run_in(tmp_path / "resumed", louder, config).train(time_limit=1e-9)
    shutil.rmtree(tmp_path / "start")
    run_in(tmp_path / "resumed", louder, replace(config, start=None), resume=True).train()
    assert_same(weights(tmp_path / "resumed"), weights(tmp_path / "whole"))
    headers = [checkpoints.load_header(tmp_path / name / STATE) for name in ("resumed", "whole")]
    assert headers[0] == headers[1] and headers[0].training["start"] == str(tmp_path / "start")


def test_a_run_that_began_with_random_weights_is_not_taken_up_with_others(unbroken, data, tmp_path):
    shutil.copytree(unbroken, tmp_path / "copy")
    with pytest.raises(BenoError, match="begun with random weights, not with those of poisson-dirichlet"):
        run_in(tmp_path / "copy", data, replace(CONFIG, start="poisson-dirichlet"), resume=True)


class TestWeightsThatDoNotFit:
    """Each refusal leaves nothing behind."""

    @pytest.fixture(autouse=True)
    def _leaves_nothing_behind(self, tmp_path):
        yield
        assert {path.suffix for path in tmp_path.iterdir()} <= {".h5"}

    @pytest.mark.parametrize(
        ("model", "settings", "message"),
        [
            ("beno", {"width": 16}, "have width 8, where 16 is needed"),
            ("fno", {}, "have model beno, where fno is needed"),
        ],
    )
    def test_another_size_or_model_is_refused(self, unbroken, data, tmp_path, model, settings, message):
        with pytest.raises(BenoError, match=message):
            run_in(tmp_path / "run", data, replace(CONFIG, start=str(unbroken)), model, settings=settings)

    def test_a_name_that_there_is_not_is_refused(self, data, tmp_path):
        with pytest.raises(BenoError, match="no operator 'nowhere'"):
            run_in(tmp_path / "run", data, replace(CONFIG, start="nowhere"))

    def test_inputs_that_the_weights_lack_are_refused(self, unbroken, tmp_path):
        make(Family(boundary="mixed", resolution=8), 0, 12, tmp_path / "mixed.h5")
        with pytest.raises(BenoError, match="kinds False, where True"):
            run_in(tmp_path / "run", tmp_path / "mixed.h5", replace(CONFIG, start=str(unbroken)))

    def test_a_coefficient_that_a_harmonic_operator_lacks_is_refused(self, tmp_path):
        make(Family("darcy", resolution=8), 0, 12, tmp_path / "darcy.h5")
        config = replace(CONFIG, start="poisson-dirichlet")
        with pytest.raises(BenoError, match="coefficient False, where True"):
            run_in(tmp_path / "run", tmp_path / "darcy.h5", config, "harmonic", settings={})


def test_a_coefficient_that_weights_do_not_know_counts_for_nothing_at_first(unbroken, tmp_path):
    make(Family("darcy", resolution=8), 0, 12, tmp_path / "darcy.h5")
    run = run_in(tmp_path / "run", tmp_path / "darcy.h5", replace(CONFIG, start=str(unbroken)))
    known = BENO(BENOConfig(**SETTINGS))
    known.load_state_dict(weights(unbroken, BEST))
    batch = run.validation_set.batch()
    assert batch.log_coefficient.abs().max() > 0.1
    torch.testing.assert_close(run.network(batch), known(batch))
    run.train()
    column = run.network.encode_nodes.first.weights[0][:, -1]
    assert column.abs().max() > 0, "it learns what a coefficient is"


def test_for_other_walls_trained_weights_are_a_start_with_scales_of_the_new_data(unbroken, tmp_path):
    path = tmp_path / "neumann.h5"
    make(Family(boundary="neumann", resolution=8), 0, 12, path)
    config = replace(CONFIG, start=str(unbroken), epochs=2)
    run_in(tmp_path / "whole", path, config).train()
    run = run_in(tmp_path / "run", path, config)
    with Dataset(path) as dataset:
        fitted = Scales.fit(dataset[int(index)] for index in dataset.indices("train"))
    theirs = weights(unbroken, BEST)
    assert all(torch.equal(value, theirs[name]) for name, value in run.network.state_dict().items())
    with run:
        run.train(time_limit=1e-9)
    run_in(tmp_path / "run", path, replace(config, start=None), resume=True).train()
    assert_same(weights(tmp_path / "run"), weights(tmp_path / "whole"))
    header = checkpoints.load_header(tmp_path / "run" / BEST)
    assert header.scales == fitted != checkpoints.load_header(unbroken / BEST).scales
    assert header.data.boundary == "neumann" and header.training["start"] == str(unbroken)
