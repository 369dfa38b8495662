"""A small table that is filled once, for all tests of a process."""

import pytest

from tests.paper.small import SMALL, queue_in


@pytest.fixture(scope="session")
def filled(tmp_path_factory):
    """A folder of runs and results; tests that change it copy it first."""
    folder = tmp_path_factory.mktemp("reproduce")
    standing = queue_in(folder).fill([SMALL], float("inf"))
    assert standing.missing == 0 and standing.cells == 6
    return folder
