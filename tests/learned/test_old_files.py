"""Checkpoints of every version of the format answer what they answered when they were written.

The folders of tests/old_files have a readme each that says what their files are.
"""

import json
import shutil
from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from beno.datasets.dataset import Dataset
from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.learned import checkpoints
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models.fno import FNO, FNOConfig
from beno.problems.families import Family
from beno.training.config import PRESETS
from beno.training.run import Run
from beno.training.run_folder import LOG, STATE
from tests.old_files import make_checkpoints
from tests.places import ROOT

OLD_FILES = ROOT / "tests" / "old_files"
VERSION_1, VERSION_2 = OLD_FILES / "version1", OLD_FILES / "version2"
ANSWERS = {folder: dict(np.load(folder / name)) for folder, name in (
    (VERSION_1, "answers.npz"), (VERSION_2, "answers_checkpoints.npz")
)}  # fmt: skip
SEED = 5  # of what they were made from
ON_A_FINE_GRID = "poisson-dirichlet-32"  # no file: one problem
WRONG_ROWS = "wrong-rows/"  # what version 1 answered where it met the weights of other frequencies


def answered(prefix=""):
    """Checkpoint and dataset of all answers of version 1 under a prefix."""
    names = {tuple(key.removeprefix(prefix).split("/")[:2]) for key in ANSWERS[VERSION_1] if key.startswith(prefix)}
    return sorted((stem, data) for stem, data in names if (VERSION_1 / f"{stem}.safetensors").exists())


def problems_of(data):
    if data == ON_A_FINE_GRID:
        return [Family(corners="mixed", resolution=32).problem(SEED, 1)]
    with Dataset(VERSION_1 / f"{data}.h5") as dataset:
        return [solution.problem for solution in dataset]


def distances(stem, data, prefix=""):
    """How far each answer is from the one that is stored, relative to its largest value."""
    operator = LearnedOperator.load(VERSION_1 / f"{stem}.safetensors")
    for index, problem in enumerate(problems_of(data)):
        stored = ANSWERS[VERSION_1][f"{prefix}{stem}/{data}/{index}"]
        (branches,) = operator.predict_branches([problem])
        assert branches.shape == stored.shape
        yield np.abs(branches - stored).max() / np.abs(stored).max()


class TestVersion1:
    def test_every_checkpoint_that_there_is_has_an_answer(self):
        stems = {path.stem for path in VERSION_1.glob("*.safetensors")}
        assert stems == {stem for stem, _ in answered()} and len(stems) == 13

    @pytest.mark.parametrize(("stem", "data"), answered())
    def test_a_checkpoint_answers_as_it_did(self, stem, data):
        assert max(distances(stem, data)) < 1e-6

    @pytest.mark.parametrize(("stem", "data"), answered(WRONG_ROWS))
    def test_what_was_wrong_is_answered_otherwise_now(self, stem, data):
        """An FNO met the weights of other frequencies on grids coarser than those that it was trained on."""
        assert min(distances(stem, data, WRONG_ROWS)) > 1e-3
        assert max(distances(stem, ON_A_FINE_GRID)) < 1e-6, "where it was trained it is as it was"

    def test_a_header_says_what_it_said(self):
        header = checkpoints.load_header(VERSION_1 / "beno-darcy-mixed.safetensors")
        assert (header.model, header.epoch, header.validation_loss) == ("beno", 7, 0.25)
        assert (header.data.equation, header.data.boundary, header.data.resolution) == ("darcy", "mixed", 8)
        assert header.config["width"] == 4 and header.config["kinds"] and header.config["coefficient"]
        assert header.config["known_kinds"] == "dirichlet neumann robin", "those that there were"

    def test_saved_again_a_checkpoint_is_of_this_version_and_answers_the_same(self, tmp_path):
        operator = LearnedOperator.load(VERSION_1 / "mp-pde-poisson-mixed.safetensors")
        checkpoints.save(tmp_path / "again.safetensors", operator.header, operator.model.state_dict())
        again = LearnedOperator.load(tmp_path / "again.safetensors")
        assert again.header == operator.header
        (problem, *_) = problems_of("poisson-mixed")
        np.testing.assert_array_equal(*(one.predict_branches([problem])[0] for one in (operator, again)))


def forward_of_version_1(model, problem, scales):
    """What FNO of version 1 answered: on a coarse grid the first rows were met by the negative frequencies."""
    plain = FNO(model.config)
    plain.load_state_dict(model.state_dict())
    had = problem.domain.resolution // 2
    for layer in plain.layers:
        weight = layer.weight.detach()
        layer.weight = torch.nn.Parameter(weight.clone())
        layer.weight.data[:, 1, ..., -had:, :] = weight[:, 1, ..., :had, :]
    batch = plain.batches([problem], scales, plain.config).batch()
    with torch.no_grad():
        return batch.split(plain(batch))[0].double().numpy() * scales.solution


@pytest.mark.parametrize("resolution", [8, 16])
def test_an_fno_of_version_1_that_was_trained_on_a_coarse_grid_answers_there_as_it_did(resolution, tmp_path):
    torch.manual_seed(0)
    model, scales = FNO(FNOConfig(width=2, layers=2, modes=12, projection=4)), Scales(2.0, 3.0, 4.0)
    family = Family(resolution=resolution)
    header = Header("fno", asdict(model.config), scales, Metadata.of_family(family, 0, 1))
    path = tmp_path / "fno.safetensors"
    metadata = {"format": checkpoints.FORMAT, "version": "1", "header": header.to_json()}
    save_file(model.state_dict(), path, metadata)
    problem = family.problem(0, 0)
    expected = forward_of_version_1(model, problem, scales)
    np.testing.assert_allclose(LearnedOperator.load(path).predict([problem])[0], expected, atol=1e-5)
    save_file(model.state_dict(), path, metadata | {"version": "2"})
    assert np.abs(LearnedOperator.load(path).predict([problem])[0] - expected).max() > 1e-2


def test_a_run_of_version_1_goes_on_and_ends_as_the_unbroken_one_did(tmp_path):
    shutil.copytree(VERSION_1 / "run", tmp_path / "run")
    config = replace(
        PRESETS["harmonic"], epochs=3, batch_size=4, precision="32-true", captured=False, warm_up=2, validate_every=1,
        symmetries=True, parts=1, points=16,
    )  # fmt: skip
    small = {"width": 8, "layers": 1, "heads": 2, "pair_width": 8, "rank": 2}
    with Dataset(VERSION_1 / "poisson-dirichlet.h5") as dataset:
        run = Run(tmp_path / "run", dataset, "harmonic", small, config, resume=True)
    assert run.epoch == 1
    with run:
        run.train()
    ours, theirs = (
        [json.loads(line) for line in path.read_text().splitlines()]
        for path in (tmp_path / "run" / LOG, VERSION_1 / "run-unbroken-log.jsonl")
    )
    assert len(ours) == len(theirs) == 3
    for one, other in zip(ours, theirs, strict=True):
        for name in one.keys() - {"seconds"}:
            assert one[name] == pytest.approx(other[name], rel=1e-5), name
    state = checkpoints.load(tmp_path / "run" / STATE)[1]
    weights = np.concatenate([state[name].numpy().ravel() for name in sorted(state) if name.startswith("model.")])
    np.testing.assert_allclose(weights, np.load(VERSION_1 / "run-unbroken-weights.npy"), atol=1e-6)


class TestVersion2:
    STEMS = tuple(make_checkpoints.CHECKPOINTS)

    @pytest.mark.parametrize("stem", STEMS)
    def test_a_checkpoint_answers_as_it_did(self, stem):
        _, family, _ = make_checkpoints.CHECKPOINTS[stem]
        operator = LearnedOperator.load(VERSION_2 / f"{stem}.safetensors")
        family = replace(family, resolution=8, corners="mixed")
        for index in range(2):
            stored = {name: ANSWERS[VERSION_2][f"{stem}/{name}/{index}"] for name in ("f", "g", "branches")}
            problem = family.problem(SEED, index)
            np.testing.assert_allclose(problem.f, stored["f"], atol=1e-12)
            np.testing.assert_allclose(problem.g, stored["g"], atol=1e-12)
            (branches,) = operator.predict_branches([problem])
            np.testing.assert_allclose(branches, stored["branches"], atol=1e-6 * np.abs(stored["branches"]).max())

    def test_all_models_have_one(self):
        stored = {checkpoints.load_header(VERSION_2 / f"{stem}.safetensors").model for stem in self.STEMS}
        assert stored == {"beno", "fno", "gkn", "gnn-pde", "mp-pde", "harmonic"}

    def test_they_are_small(self):
        files = [*VERSION_2.glob("*.safetensors"), VERSION_2 / "answers_checkpoints.npz"]
        assert sum(file.stat().st_size for file in files) < 200_000
