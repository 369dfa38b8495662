"""A run's folder is held by one run at a time, and what is not its own is neither read nor written."""

import gc
import json
import os
import shutil
from dataclasses import replace

import pytest
from lightning_fabric import Fabric

from beno.datasets.making import make
from beno.learned import checkpoints
from beno.learned.operator import BEST
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.training.run_folder import LOG, STATE, outcome_so_far, read_log
from tests.training.small import CONFIG, run_in


class TestOneRunAtATime:
    """Of two that train in one folder, each would undo what the other one writes."""

    @pytest.mark.parametrize("resume", [False, True])
    def test_a_second_training_is_refused_and_touches_nothing(self, data, tmp_path, resume):
        folder = tmp_path / "run"
        with run_in(folder, data) as first:
            before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
            with pytest.raises(BenoError, match=f"another run is training in .*run: process {os.getpid()} on"):
                run_in(folder, data, resume=resume)
            assert {path: path.stat().st_mtime_ns for path in folder.iterdir()} == before
            first.train(time_limit=1e-9)
        assert run_in(folder, data, resume=True).epoch == 1

    def test_a_folder_is_free_again_after_an_error(self, data, tmp_path):
        with pytest.raises(ZeroDivisionError), run_in(tmp_path / "run", data):
            raise ZeroDivisionError
        run_in(tmp_path / "run", data).close()

    def test_a_folder_is_free_again_when_its_run_is_forgotten(self, data, tmp_path):
        run_in(tmp_path / "run", data)
        gc.collect()
        run_in(tmp_path / "run", data).close()

    def test_what_the_first_process_refuses_the_others_refuse_too(self, data, tmp_path, monkeypatch):
        monkeypatch.setattr(Fabric, "is_global_zero", False)
        monkeypatch.setattr(Fabric, "broadcast", lambda fabric, text: f"{text}another run is training there")
        with pytest.raises(BenoError, match=r"^another run is training there"):
            run_in(tmp_path / "run", data)
        assert not list(tmp_path.iterdir())

    def test_a_folder_that_holds_a_run_is_refused_without_resume(self, unbroken, data):
        with pytest.raises(BenoError, match=r"holds a run already; --resume goes on with it"):
            run_in(unbroken, data)

    def test_a_place_that_is_no_folder_is_refused(self, data, tmp_path):
        (tmp_path / "run").write_text("")
        with pytest.raises(BenoError, match="cannot write"):
            run_in(tmp_path / "run", data)


class TestLinks:
    @pytest.mark.parametrize("name", [STATE, BEST, LOG, "tensorboard", "lock"])
    def test_a_link_in_the_place_of_what_is_ours_is_refused(self, data, tmp_path, name):
        (tmp_path / "precious").mkdir()
        (tmp_path / "run").mkdir()
        (tmp_path / "run" / name).symlink_to(tmp_path / "precious")
        with pytest.raises(BenoError, match=r"is a link|holds a run already|cannot lock"):
            run_in(tmp_path / "run", data)
        assert not list((tmp_path / "precious").iterdir())

    def test_the_folder_itself_may_be_a_link(self, data, tmp_path):
        (tmp_path / "elsewhere").mkdir()
        (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
        run_in(tmp_path / "run", data).close()
        assert (tmp_path / "elsewhere" / LOG).exists()


class TestResume:
    def test_a_folder_without_a_run_is_refused(self, data, tmp_path):
        with pytest.raises(BenoError, match="no run to resume"):
            run_in(tmp_path / "none", data, resume=True)

    def test_a_run_that_was_killed_in_its_first_epoch_begins_again(self, data, tmp_path):
        folder = tmp_path / "run"
        run_in(folder, data).close()
        assert not (folder / STATE).exists()
        (folder / ".state.safetensors.7.unfinished").mkdir()
        assert run_in(folder, data, resume=True).epoch == 0
        assert not list(folder.glob(".*.unfinished"))

    @pytest.mark.parametrize(
        ("lost", "message"), [("seconds", "seconds is missing"), ("model.decode.first.bias", "model.decode.first.bias")]
    )
    def test_a_state_that_lacks_something_is_refused(self, unbroken, data, tmp_path, lost, message):
        folder = tmp_path / "run"
        shutil.copytree(unbroken, folder)
        header, tensors = checkpoints.load(folder / STATE)
        del tensors[lost]
        checkpoints.save(folder / STATE, header, tensors)
        with pytest.raises(BenoError, match=rf"is no state of a run: {message}"):
            run_in(folder, data, resume=True)

    def test_the_best_weights_in_the_place_of_the_state_are_refused(self, unbroken, data, tmp_path):
        folder = tmp_path / "run"
        shutil.copytree(unbroken, folder)
        shutil.copy(folder / BEST, folder / STATE)
        with pytest.raises(BenoError, match="is no state of a run"):
            run_in(folder, data, resume=True)

    def test_another_configuration_is_refused(self, unbroken, data):
        with pytest.raises(BenoError, match=r"begun with another training: learning_rate 0.*where 1\.0"):
            run_in(unbroken, data, replace(CONFIG, learning_rate=1.0), resume=True)

    def test_other_settings_are_refused(self, unbroken, data):
        with pytest.raises(BenoError, match=r"begun with another settings: width 8, where 16 is asked for"):
            run_in(unbroken, data, settings={"width": 16, "steps": 2}, resume=True)

    def test_another_model_is_refused(self, unbroken, data):
        with pytest.raises(BenoError, match=r"begun with another model: beno, where fno is asked for"):
            run_in(unbroken, data, model="fno", settings={"width": 8}, resume=True)

    def test_other_data_are_refused(self, unbroken, tmp_path):
        make(Family(corners=0, resolution=8), 1, 25, tmp_path / "other.h5")
        with pytest.raises(BenoError, match="begun with another data: corners"):
            run_in(unbroken, tmp_path / "other.h5", resume=True)

    @pytest.mark.parametrize("change", [{"epochs": 9}, {"checkpoint_every": 2}, {"captured": True}])
    def test_what_changes_no_step_may_change(self, unbroken, data, tmp_path, change):
        shutil.copytree(unbroken, tmp_path / "run")
        with run_in(tmp_path / "run", data, replace(CONFIG, **change), resume=True) as run:
            assert run.epoch == CONFIG.epochs


class TestLog:
    def test_half_a_line_at_its_end_is_left_out(self, tmp_path):
        (tmp_path / LOG).write_text('{"epoch": 1}\n{"epoch": 2, "trai')
        assert read_log(tmp_path) == [{"epoch": 1}]

    @pytest.mark.parametrize("text", ['{"broken"}\n', "[1]}\n", '{"loss": 1}\n'])
    def test_a_damaged_line_is_refused(self, unbroken, data, tmp_path, text):
        folder = tmp_path / "run"
        shutil.copytree(unbroken, folder)
        with open(folder / LOG, "a") as log:
            log.write(text)
        with pytest.raises(BenoError, match=r"log\.jsonl is damaged"):
            run_in(folder, data, resume=True)

    def test_epochs_after_the_state_are_dropped(self, unbroken, data, tmp_path):
        folder = tmp_path / "run"
        shutil.copytree(unbroken, folder)
        with open(folder / LOG, "a") as log:
            log.write(json.dumps({"epoch": 5}) + "\n")
        run_in(folder, data, resume=True).close()
        assert [record["epoch"] for record in read_log(folder)] == [1, 2, 3, 4]

    def test_a_folder_without_one_has_no_records(self, tmp_path):
        assert read_log(tmp_path) == []


def test_how_a_run_stands_is_told_by_its_folder(unbroken):
    outcome = outcome_so_far(unbroken, epochs=4)
    assert (outcome.epochs, outcome.finished) == (4, True) and outcome.seconds > 0
    assert not outcome_so_far(unbroken, epochs=5).finished
    best = min(record["validation_loss"] for record in read_log(unbroken))
    assert outcome.best_validation_loss == best
