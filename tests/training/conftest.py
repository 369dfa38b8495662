"""One small dataset, and one run on it, for all tests of training."""

import pytest

from beno.datasets.making import make
from beno.problems.families import Family
from tests.training.small import run_in


@pytest.fixture(scope="session")
def data(tmp_path_factory):
    """21 samples to train on: in batches of five the last one has a single sample."""
    path = tmp_path_factory.mktemp("data") / "data.h5"
    make(Family(corners="mixed", resolution=8), 0, 25, path)
    return path


@pytest.fixture(scope="session")
def unbroken(data, tmp_path_factory):
    """A run that was never stopped; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("runs") / "unbroken"
    run_in(folder, data).train()
    return folder
