"""Several processes end together, and quietly."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from beno.cli.reproduce import reproduce
from beno.paper.processes import fitting
from beno.support.files import clear_left_behind
from tests.places import TABLES_FOLDER

RESULTS = TABLES_FOLDER


@pytest.mark.parametrize("free, cores, fit", [(138, 16, 9), (138, 4, 4), (31, 16, 2), (14, 16, 1), (138, None, 1)])
def test_as_many_run_beside_each_other_as_fit_a_gpu(monkeypatch, free, cores, fit):
    monkeypatch.setattr("torch.cuda.mem_get_info", lambda: (free * 2**30, 140 * 2**30))
    monkeypatch.setattr("os.cpu_count", lambda: cores)
    assert fitting("cuda") == fit
    assert fitting("cpu") == 1


def test_a_gpu_that_cannot_tell_what_it_has_left_is_for_one(monkeypatch):
    def too_full():
        raise torch.OutOfMemoryError("CUDA out of memory")

    monkeypatch.setattr("torch.cuda.mem_get_info", too_full)
    assert fitting("cuda") == 1


@pytest.mark.parametrize(
    "asked, fit, started", [(None, 3, 3), (2, 3, 2), (5, 1, 5), (99, 9, 12), (None, 99, 12)], ids=str
)
def test_no_more_processes_than_fit_or_were_asked_for_or_have_a_row(monkeypatch, tmp_path, asked, fit, started):
    begun = []

    def fill(queue, tables, time_limit, processes, say):
        begun.append(processes)
        return queue.standing(tables), True

    monkeypatch.setattr("beno.paper.processes.fill", fill)
    monkeypatch.setattr("beno.paper.processes.fitting", lambda device: fit)
    tables = ["train_mixed", "resolution_64"]
    reproduce(tables, folder=tmp_path / "runs", results=tmp_path / "cells", processes=asked, device="cpu")
    filled = {"folder": tmp_path / "runs", "results": RESULTS, "device": "cpu", "only": ["harmonic"]}
    reproduce(["train_mixed"], processes=asked, **filled)
    reproduce(tables, folder=tmp_path / "runs", smoke=True, device="cpu")
    assert begun == [started, 1, 1], "with results that are filled, or in small, one"


def test_a_process_beside_ends_with_the_one_that_started_it(tmp_path):
    parent = two_at_work(tmp_path)
    try:
        beside = the_process_beside(parent, tmp_path)
    finally:
        parent.kill()
        parent.communicate()
    wait_until(lambda: not is_running(beside))


@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize("when", ["as it starts", "a little later", "at work"])
def test_an_interruption_of_several_processes_says_so_in_one_line(tmp_path, sent, when):
    parent = two_at_work(tmp_path)
    children = Path(f"/proc/{parent.pid}/task/{parent.pid}/children")
    try:
        if when == "at work":
            the_process_beside(parent, tmp_path)
        else:
            wait_until(lambda: len(children.read_text().split()) == 2, every=0.001)  # with that which tracks resources
            time.sleep(0.05 * (when == "a little later"))
        begun = children.read_text().split()
        for _ in range(3):  # as a terminal does it, to all of them
            os.killpg(parent.pid, sent)
        _, said = parent.communicate(timeout=60)
    finally:
        parent.kill()
    assert (parent.returncode, said) == (130, "stopped; what is finished is kept\n")
    wait_until(lambda: not any(map(is_running, begun)))
    # Three interruptions in a row may catch a writer as it tidies up: the next one to write there does it then.
    for left in tmp_path.rglob("*.unfinished"):
        clear_left_behind(left.parent)
    assert not list(tmp_path.rglob("*.unfinished"))


def two_at_work(folder):
    """For as long as they are let."""
    words = [sys.executable, "-m", "beno", "reproduce", "train_mixed", "--smoke", "--epochs", str(10**6)]
    words += ["--side-by-side", "2", "--device", "cpu", "--only", "fno", "--only", "mp-pde"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, cwd=folder, text=True, process_group=0, **pipes)


def the_process_beside(parent, folder):
    """When both are at work."""
    at_work = folder / "runs" / "smoke" / "at_work" / "cpu"
    wait_until(lambda: at_work.exists() and len(list(at_work.iterdir())) == 2)
    (beside,) = {int(path.name.partition("-")[0]) for path in at_work.iterdir()} - {parent.pid}
    return beside


def wait_until(holds, every=0.1):
    end = time.monotonic() + 60
    while time.monotonic() < end:
        if holds():
            return
        time.sleep(every)
    raise AssertionError


def is_running(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
