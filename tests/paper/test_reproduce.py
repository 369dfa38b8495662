"""The command: all tables, in several processes, from what there is."""

import json

import pytest

from beno.paper.figures import FIGURES as FIGURE_NAMES
from beno.paper.tables import TABLES
from tests.cli.test_cli import beno, beno_in_its_own_process, refused
from tests.paper.small import SMALL


def test_the_command_does_all_of_it_in_two_processes(tmp_path):
    result = beno_in_its_own_process(
        "reproduce", "all", "--smoke", "--side-by-side", 2, "--device", "cpu",
        "--pages", "pages", "--figures", "figures", cwd=tmp_path,
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    cells = sum(len(table.rows) * len(table.columns) for table in TABLES.values())
    assert cells == 357 and f"{cells} of {cells} cells are filled" in result.stdout
    assert {path.stem for path in (tmp_path / "pages").glob("*.md")} == {*TABLES, "capabilities"}
    drawn = {path.name for path in (tmp_path / "figures").iterdir()}
    assert drawn == {f"{name}{suffix}" for name in FIGURE_NAMES for suffix in (".svg", ".png")}
    listed = beno("reproduce", "list").stdout.splitlines()
    assert len(listed) == len(TABLES) and "train_mixed: Trained on mixed shapes, the paper's Table 3;" in listed[1]


def test_rows_of_one_model_are_filled_in_several_tables(tmp_path):
    words = ("reproduce", "darcy_train_mixed", "kinds_train_mixed", "--only", "harmonic", "--epochs", 2, "--smoke")
    result = beno(*words, "--device", "cpu", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert "10 of 10 cells are filled" in result.stdout
    cells = [json.loads(path.read_text()) for path in (tmp_path / "runs" / "smoke" / "tables").rglob("*--*.json")]
    assert not (tmp_path / "results").exists(), "smoke stays away from real results"
    assert {cell["trained"]["epochs"] for cell in cells} == {2}
    refused(beno(*words, "--only", "beno2", cwd=tmp_path), "no model 'beno2'")
    refused(beno("reproduce", "sensitivity", "--only", "fno", cwd=tmp_path), "sensitivity has no row of fno")


def test_pages_have_all_rows_whatever_was_trained(filled):
    words = ("reproduce", SMALL.name, "--smoke", "--only", "harmonic", "--no-train")
    result = beno(*words, "--folder", "runs", "--results", "results", "--pages", "whole", cwd=filled)
    assert result.returncode == 0, result.stderr
    assert "**BENO**" in (filled / "whole" / f"{SMALL.name}.md").read_text()


def test_a_device_that_is_not_there_is_refused_at_once(tmp_path):
    refused(beno("reproduce", "all", "--smoke", "--device", "tpu", cwd=tmp_path), "there is no device 'tpu'")
    assert not list(tmp_path.iterdir())


class TestBadInput:
    def test_an_unknown_table_is_refused(self, tmp_path):
        refused(beno("reproduce", "table_2", cwd=tmp_path), "no table 'table_2'", "train_4_corners")
        assert not list(tmp_path.iterdir())

    def test_more_epochs_than_the_tables_have_are_refused(self, tmp_path):
        refused(beno("reproduce", "squares", "--epochs", 1001, cwd=tmp_path), "--epochs 1001", "1000 at most")
        assert not list(tmp_path.iterdir())

    @pytest.mark.parametrize("option", ["--time-limit", "--for-now"])
    def test_what_is_no_duration_is_refused(self, tmp_path, option):
        for text in ("0s", "soon", ""):
            refused(beno("reproduce", "squares", "--smoke", option, text, cwd=tmp_path), f"{option} '{text}' is not a")
        assert not list(tmp_path.iterdir())

    def test_places_that_cannot_be_written_are_refused(self, tmp_path):
        (tmp_path / "file").write_text("")
        for option in ("--pages", "--figures", "--folder", "--results"):
            refused(beno("reproduce", "squares", "--smoke", option, "file", cwd=tmp_path), "cannot write", "file")
