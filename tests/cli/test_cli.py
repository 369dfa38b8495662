"""The command line, run as a user runs it: its exit status, and what it prints where."""

import contextlib
import io
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from beno.cli import main
from tests.datasets.test_published import FOLDER, needs_published_data
from tests.places import ROOT

COMMAND = [sys.executable, "-c", "from beno.cli import main; main()"]


def beno(*arguments, cwd=None):
    """The command in this process: another one would take seconds to start."""
    out, errors = io.StringIO(), io.StringIO()
    words, before = ["beno", *map(str, arguments)], signal.getsignal(signal.SIGTERM)
    with pytest.MonkeyPatch.context() as patch, contextlib.chdir(cwd or "."):
        patch.setattr(sys, "argv", words)
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as ended:
            main()
    signal.signal(signal.SIGTERM, before)
    return subprocess.CompletedProcess(words, ended.value.code or 0, out.getvalue(), errors.getvalue())


def beno_in_its_own_process(*arguments, cwd=None):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, check=False)


def refused(result, *words):
    assert result.returncode == 2, result.stderr
    assert result.stderr.startswith("beno: ") and result.stderr.count("\n") == 1, result.stderr
    assert "Traceback" not in result.stderr
    for word in words:
        assert word in result.stderr


@pytest.fixture
def dataset(tmp_path):
    path = tmp_path / "four.h5"
    result = beno("data", "make", "--samples", 12, "--resolution", 16, "--seed", 3, "--out", path)
    assert result.returncode == 0, result.stderr
    return path


def test_help_loads_no_numerics():
    code = "import sys; from beno.cli import app; print(sorted({'numpy', 'torch', 'scipy', 'h5py'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
    helped = beno_in_its_own_process("--help")
    assert helped.returncode == 0 and "data" in helped.stdout and not helped.stderr
    assert beno("--version").stdout.startswith("beno ")


def test_a_mistake_is_one_line_and_status_2_in_its_own_process(tmp_path):
    refused(beno_in_its_own_process("data", "show", tmp_path / "none.h5"), "does not exist")


def test_make_show_and_check(dataset, tmp_path):
    shown = beno("data", "show", dataset, "--plot", cwd=tmp_path)
    assert shown.returncode == 0, shown.stderr
    for words in ("poisson, dirichlet boundary", "4 corners", "10 train, 1 validation, 1 test", "seed 3"):
        assert words in shown.stdout
    assert (tmp_path / "four.png").read_bytes().startswith(b"\x89PNG")
    checked = beno("data", "check", dataset)
    assert checked.returncode == 0 and "sound" in checked.stdout


@pytest.mark.parametrize("equation", ["poisson", "darcy"])
@pytest.mark.parametrize("boundary", ["zero", "mixed"])
def test_every_family_can_be_made_and_drawn(tmp_path, equation, boundary):
    out = tmp_path / "data.h5"
    arguments = ("--equation", equation, "--boundary", boundary, "--corners", "mixed", "--samples", 5)
    assert beno("data", "make", *arguments, "--resolution", 8, "--workers", 2, "--out", out).returncode == 0
    shown = beno("data", "show", out, "--to", tmp_path / "picture.svg")
    assert shown.returncode == 0, shown.stderr
    assert (tmp_path / "picture.svg").exists()


def test_check_fails_on_a_spoiled_dataset_and_mends_it(dataset, tmp_path):
    with h5py.File(dataset, "r+") as file:
        facing_left = file["panels/normal"][:, 0] == -1
        file["panels/g"][:] = np.where(facing_left, 0.0, file["panels/g"][:])
    result = beno("data", "check", dataset)
    assert result.returncode == 1
    assert "walls that face -x" in result.stdout
    mended = tmp_path / "mended.h5"
    assert beno("data", "check", dataset, "--mend", mended).returncode == 0
    assert beno("data", "check", mended).returncode == 0


def test_mending_keeps_the_splits_and_its_own_input(dataset, tmp_path):
    with h5py.File(dataset, "r+") as file:
        file["split"][...] = [2, 0] * 6
    mended = tmp_path / "mended.h5"
    assert beno("data", "check", dataset, "--mend", mended).returncode == 0
    with h5py.File(mended) as file:
        assert file["split"][:].tolist() == [2, 0] * 6
    for force in ((), ("--force",)):
        refused(beno("data", "check", dataset, "--mend", dataset, *force), "another name")


def test_check_reports_nan_and_show_refuses_it(dataset):
    with h5py.File(dataset, "r+") as file:
        file["points/source"][40] = np.nan
    result = beno("data", "check", dataset)
    assert result.returncode == 1 and "NaN or infinity in f" in result.stdout
    refused(beno("data", "show", dataset), "sample 0", "f is nan in row 40")


def test_a_mend_that_cannot_be_done_leaves_nothing(dataset, tmp_path):
    with h5py.File(dataset, "r+") as file:
        file["points/u"][0] = np.nan
    refused(beno("data", "check", dataset, "--mend", tmp_path / "mended.h5"), "sample 0", "NaN or infinity in u")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["four.h5"]


@needs_published_data
def test_the_published_sample_from_import_to_mended(tmp_path):
    raw, mended = tmp_path / "raw.h5", tmp_path / "mended.h5"
    from_folder = beno("data", "check", FOLDER)
    assert from_folder.returncode == 1
    for words in ("BC column 3", "swapped", "walls that face -x"):
        assert words in from_folder.stdout
    assert beno("data", "import", FOLDER, "--out", raw).returncode == 0
    from_file = beno("data", "check", raw, "--mend", mended)
    assert from_file.returncode == 0
    assert "swapped" in from_file.stdout and "walls that face -x" in from_file.stdout
    assert beno("data", "check", mended, "--tolerance", 1e-4).returncode == 0
    assert beno("data", "show", mended).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--samples", 0), "at least 1"),
        (("--samples", "many"), "--samples"),
        (("--corners", 5), "one of 0, 1, 2, 3, 4, mixed"),
        (("--equation", "heat"), "poisson, darcy"),
        (("--boundary", "open"), "dirichlet"),
        (("--resolution", 2), "resolution"),
        (("--contrast", 0), "contrast"),
        (("--contrast", -3), "contrast"),
        (("--source-amplitude", "nan"), "source amplitude"),
        (("--seed", -1), "seed"),
        (("--workers", 0), "workers"),
    ],
)
def test_bad_options(tmp_path, arguments, words):
    refused(beno("data", "make", "--out", tmp_path / "data.h5", *arguments), words)
    assert list(tmp_path.iterdir()) == []


def test_bad_places_and_files(tmp_path):
    refused(beno("data", "make", "--samples", 2, "--out", tmp_path / "no" / "data.h5"), "cannot write")
    refused(beno("data", "make", "--samples", 2), "--out")
    refused(beno("data", "show", tmp_path / "none.h5"), "does not exist")
    refused(beno("data", "check", tmp_path / "none.h5"), "does not exist")
    refused(beno("data", "import", tmp_path, "--out", tmp_path / "x.h5"), "RHS")
    (tmp_path / "foreign.h5").write_text("hello")
    refused(beno("data", "check", tmp_path / "foreign.h5"), "not a readable HDF5 file")
    refused(beno("data", "nonsense"), "nonsense")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["foreign.h5"]


def test_a_picture_that_cannot_be_written(dataset, tmp_path):
    refused(beno("data", "show", dataset, "--to", tmp_path / "no" / "picture.png"), "cannot write", "picture.png")
    refused(beno("data", "show", dataset, "--to", tmp_path / "picture.nonsense"), "cannot write the picture")


@pytest.mark.parametrize(("sent", "workers"), [(signal.SIGINT, 1), (signal.SIGTERM, 2)])
def test_interrupted_it_stops_quietly(tmp_path, sent, workers):
    target = tmp_path / "data.h5"
    command = ["data", "make", "--samples", "100000", "--workers", str(workers), "--out", str(target)]
    process = subprocess.Popen([*COMMAND, *command], stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob(".data.h5.parts/0*.h5")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(process.pid, sent)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    # The process that tidies up after joblib may have a word of its own to say.
    assert "stopped; what is finished is kept" in errors.splitlines() and "Traceback" not in errors
    assert not Path(target).exists()


def test_solve_prints_error_and_time_and_draws(tmp_path):
    example = ROOT / "examples" / "cross.toml"
    result = beno("solve", str(example), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    rows = {line.split()[1]: line.split()[3::2] for line in result.stdout.splitlines() if " ms " in line}
    assert set(rows) == {"direct", "beno-4-corners", "poisson-dirichlet", "poisson-mixed"}
    assert rows["direct"][0] == "-" and float(rows["direct"][1]) < 1e-10 and float(rows["direct"][2]) < 1e-6
    error = float(rows["poisson-dirichlet"][0])
    assert 0 < error < 1
    assert (tmp_path / "cross.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    "text, arguments, message",
    [
        ("resolution = 'many'\n", [], "resolution"),
        ("[boundary]\nvalues = {family = 'constant', value = 1}\n", ["--weights", "nothing"], "no operator 'nothing'"),
        (
            "[boundary]\nvalues = {family = 'constant', value = 1}\n",
            ["--weights", "poisson-neumann"],
            "trained for neumann",
        ),
        ("[boundary]\nvalues = {family = 'constant', value = 1}\n", ["--out", "no/where.png"], "no/where.png"),
        ("[boundary]\nvalues = {family = 'constant', value = 1}\n", ["--out", "a.xyz"], "a.xyz"),
    ],
)
def test_solve_complains_in_one_line(tmp_path, text, arguments, message):
    (tmp_path / "a.toml").write_text(text)
    result = beno("solve", "a.toml", *arguments, cwd=tmp_path)
    assert result.returncode == 2
    assert message in result.stderr and result.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [tmp_path / "a.toml"]
