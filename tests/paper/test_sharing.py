"""A training beside others counts its share of the device."""

import fcntl
from dataclasses import replace

import pytest

from beno.paper.sharing import Share
from beno.support.errors import BenoError
from tests.paper.small import SMALL, queue_in


def test_a_training_beside_others_counts_its_share(tmp_path):
    path, at_work = tmp_path / "share.json", tmp_path / "at_work"
    share = Share(path, at_work, "cuda")
    with share.working(5.0):
        share.count_until(6.0)
        (at_work / "killed").touch()
        with open(at_work / "another", "w") as other:
            fcntl.flock(other, fcntl.LOCK_EX)
            share.count_until(10.0)
        share.count_until(13.0)
    assert share.seconds == 1.0 + 4.0 / 2 + 3.0 and not list(at_work.iterdir())
    assert Share(path, at_work, "cuda").seconds == share.seconds
    other = Share(path, at_work, "cpu")
    assert other.seconds == 0.0, "seconds of another device are others"
    with other.working(13.0):
        other.count_until(15.0)
    assert Share(path, at_work, "cpu").seconds == 2.0 and Share(path, at_work, "cuda").seconds == share.seconds
    for damage in ("[]", "{", '{"cuda": NaN}', '{"cuda": -1}', '{"cuda": "x"}'):
        path.write_text(damage)
        with pytest.raises(BenoError, match=r"cannot be read|is damaged"):
            Share(path, at_work, "cuda")


def test_a_training_ends_when_it_has_had_its_share(tmp_path):
    table = replace(SMALL, rows=SMALL.rows[-1:])
    queue = queue_in(tmp_path, epochs=10**6, seconds=1.0)  # more than an epoch takes, on a busy machine too
    assert queue.fill([table], 0.1).missing == len(table.columns)  # too little time for it
    at_work = tmp_path / "runs" / "at_work" / "cpu"
    at_work.mkdir(parents=True, exist_ok=True)
    with open(at_work / "another", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert queue.fill([table], float("inf")).missing == 0
    for cell in queue.cells.of_row(table, table.rows[0]).values():
        assert 1.0 <= cell.trained.device_seconds < 0.8 * cell.trained.seconds
