"""What commands write: no file that is there is replaced without --force, and all of it is asked for at the start."""

import json
import os

import numpy as np
import pytest

from beno.datasets.making import make
from beno.learned import shipped
from beno.problems.families import Family
from beno.support.locks import Lock
from tests.cli.test_cli import beno, refused
from tests.places import ROOT

PRECIOUS = b"years of work"
FAMILY = Family(resolution=16)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "four.h5"
    make(FAMILY, 0, 12, path)
    return path


@pytest.fixture
def published(tmp_path):
    folder = tmp_path / "published"
    folder.mkdir()
    for name in ("BC", "RHS", "SOL"):
        np.save(folder / f"{name}_N32_10.npy", np.zeros(1))
    return folder


def commands(made, published):
    """What each command is given, and the file that it writes by default or by its option."""
    return {
        "data make": (("data", "make", "--samples", 3, "--resolution", 8, "--out", "out.h5"), "out.h5"),
        "data import": (("data", "import", published, "--out", "out.h5"), "out.h5"),
        "data check": (("data", "check", made, "--mend", "out.h5"), "out.h5"),
        "data show": (("data", "show", made, "--plot"), "four.png"),
        "data show --to": (("data", "show", made, "--to", "out.svg"), "out.svg"),
        "solve": (("solve", ROOT / "examples" / "cross.toml"), "cross.png"),
        "solve --out": (("solve", ROOT / "examples" / "cross.toml", "--out", "out.svg"), "out.svg"),
        "evaluate": (("evaluate", "poisson-dirichlet", made, "--out", "out.json"), "out.json"),
        "plot": (("plot", "poisson-dirichlet", made), "prediction-0.png"),
        "plot --out": (("plot", "poisson-dirichlet", made, "--sample", 2, "--out", "out.png"), "out.png"),
        "reproduce --pages": (("reproduce", "squares", "--smoke", "--no-train", "--pages", "."), "squares.tex"),
        "reproduce --figures": (("reproduce", "squares", "--smoke", "--no-train", "--figures", "."), "branches.svg"),
    }


ALL = sorted(commands(None, None))


@pytest.mark.parametrize("name", ALL)
def test_a_file_that_is_there_stays_and_no_work_is_done(name, made, published, tmp_path, monkeypatch):
    words, target = commands(made, published)[name]
    (tmp_path / "runs" / "smoke" / "tables").mkdir(parents=True)
    (tmp_path / target).write_bytes(PRECIOUS)
    for work in ("beno.learned.shipped.load", "beno.datasets.making.make", "beno.datasets.published.read_published"):
        monkeypatch.setattr(work, lambda *_: pytest.fail("it began to work"))
    refused(beno(*words, cwd=tmp_path), f"{target} is there already; --force replaces it")
    assert (tmp_path / target).read_bytes() == PRECIOUS


@pytest.mark.parametrize("name", sorted(set(ALL) - {"data import", "reproduce --pages", "reproduce --figures"}))
def test_with_force_it_is_replaced(name, made, published, tmp_path):
    words, target = commands(made, published)[name]
    (tmp_path / target).write_bytes(PRECIOUS)
    result = beno(*words, "--force", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert (tmp_path / target).read_bytes() != PRECIOUS
    assert not list(tmp_path.glob(".*"))


@pytest.mark.parametrize("name", [name for name in ALL if "--" in name or name in ("data make", "evaluate")])
def test_a_place_that_is_none_is_refused_at_the_start(name, made, published, tmp_path, monkeypatch):
    words, target = commands(made, published)[name]
    if name.startswith("reproduce"):
        (tmp_path / "file").touch()
        words = (*words[:-1], "file")
    else:
        words = tuple(f"no/{target}" if word == target else word for word in words)
    (tmp_path / "runs" / "smoke" / "tables").mkdir(parents=True)
    monkeypatch.setattr(shipped, "load", lambda *_: pytest.fail("it began to work"))
    refused(beno(*words, cwd=tmp_path), "cannot write")


def test_a_dataset_is_not_replaced_by_the_figures_of_its_evaluation(made, tmp_path):
    before = made.read_bytes()
    refused(beno("evaluate", "poisson-dirichlet", made, "--out", made), "four.h5 is there already")
    assert made.read_bytes() == before


def test_the_same_dataset_need_not_be_made_again(tmp_path):
    words = ("data", "make", "--samples", 3, "--resolution", 8, "--out", "data.h5")
    assert beno(*words, cwd=tmp_path).returncode == 0
    before = (tmp_path / "data.h5").stat()
    again = beno(*words, cwd=tmp_path)
    assert again.returncode == 0 and "this dataset is there already" in again.stdout
    assert (tmp_path / "data.h5").stat().st_mtime_ns == before.st_mtime_ns
    refused(beno(*words, "--seed", 1, cwd=tmp_path), "data.h5 is there already; --force replaces it")
    assert beno(*words, "--seed", 1, "--force", cwd=tmp_path).returncode == 0
    refused(beno(*words, cwd=tmp_path), "data.h5 is there already")


def test_a_link_as_output_is_followed_and_stays(made, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "out.json").symlink_to(tmp_path / "elsewhere" / "figures.json")
    words = ("evaluate", "poisson-dirichlet", made, "--out", "out.json")
    assert beno(*words, cwd=tmp_path).returncode == 0
    assert json.loads((tmp_path / "elsewhere" / "figures.json").read_text())["figures"]
    assert (tmp_path / "out.json").is_symlink()
    refused(beno(*words, cwd=tmp_path), "out.json is there already")


def test_a_folder_is_trained_in_by_one_command_at_a_time(made, tmp_path):
    words = ("train", "--data", made, "--out", "run", "--set", "width=8", "--set", "steps=1", "--epochs", 2)
    words = (*words, "--device", "cpu", "--time-limit", 0.000001)
    assert beno(*words, cwd=tmp_path).returncode == 0
    with Lock(tmp_path / "run" / "lock") as lock:
        lock.take()
        for more in ((), ("--resume",)):
            result = beno(*words, *more, cwd=tmp_path)
            refused(result, f"another run is training in run: process {os.getpid()} on")
    refused(beno(*words, cwd=tmp_path), "holds a run already; --resume")
    assert beno(*words, "--resume", cwd=tmp_path).returncode == 0
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "best.safetensors", "state.safetensors", "log.jsonl", "tensorboard"
    }  # fmt: skip
