"""Two processes do what one does, started as a user starts them."""

import json
import os
import subprocess
import sys

import pytest

from beno.support.errors import BenoError
from beno.training.fabric import make_fabric
from beno.training.run_folder import LOG
from tests.places import ROOT
from tests.training.small import CONFIG

SCRIPT = """
import sys
from pathlib import Path

import torch

from beno.training.fabric import make_fabric
from tests.training.small import CONFIG, run_in

torch.set_num_threads(1)
with run_in(Path(sys.argv[1]), Path(sys.argv[2]), CONFIG, fabric=make_fabric("cpu")) as run:
    run.train()
threads = {(task / "comm").read_text().strip() for task in Path("/proc/self/task").iterdir()}
assert not any("gloo" in name for name in threads), "one of them may abort the end of the process"
"""


def test_two_processes_do_what_one_does(unbroken, data, tmp_path):
    """A batch of five in two processes is three and two; the last batch of an epoch, of one, leaves one with none."""
    (tmp_path / "script.py").write_text(SCRIPT)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--standalone"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([*sys.path, str(ROOT)])}
    command = [*torchrun, str(tmp_path / "script.py"), str(tmp_path / "two"), str(data)]
    subprocess.run(command, env=environment, check=True, timeout=300)
    one, two = (
        [json.loads(line) for line in (folder / LOG).read_text().splitlines()]
        for folder in (unbroken, tmp_path / "two")
    )
    assert len(one) == len(two) == CONFIG.epochs
    for ours, theirs in zip(two, one, strict=True):
        assert ours["train_loss"] == pytest.approx(theirs["train_loss"], rel=1e-4)
        assert ours["validation_loss"] == pytest.approx(theirs["validation_loss"], rel=1e-4)


def test_one_process_has_one_device():
    fabric = make_fabric("cpu")
    assert (fabric.world_size, fabric.global_rank, fabric.device.type) == (1, 0, "cpu")


def test_a_device_that_there_is_not_is_refused():
    with pytest.raises(BenoError, match="there is no device 'abacus'; there is auto, cpu, cuda"):
        make_fabric("abacus")
