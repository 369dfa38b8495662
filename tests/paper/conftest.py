"""A small table that is filled once."""

import pytest

from tests.paper.small import SMALL, queue_in


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("reproduce")
    lines = []
    standing = queue_in(folder).fill([SMALL], float("inf"), lines.append)
    assert standing.missing == 0 and standing.cells == 6
    return folder
