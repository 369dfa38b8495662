"""Checkpoints give back what was saved, or say in one line why not; nothing in them is run."""

from dataclasses import asdict, replace

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.learned import checkpoints
from beno.learned.checkpoints import Header
from beno.models.registry import names
from beno.problems.families import Family
from beno.support.errors import BenoError
from tests.learning import small_model

DATA = Metadata.of_family(Family(), 0, 10)


def header_of(model, **changes):
    return replace(Header(model.name, asdict(model.config), Scales(2.0, 3.0, 4.0), DATA, epoch=7), **changes)


@pytest.fixture
def saved(tmp_path):
    model = small_model("beno")
    path = tmp_path / "model.safetensors"
    checkpoints.save(path, header_of(model), model.state_dict())
    return path, header_of(model), model


@pytest.mark.parametrize("name", names())
@pytest.mark.parametrize("family", [Family(), Family("darcy", "mixed")], ids=lambda family: family.equation)
def test_a_model_comes_back_with_its_header(name, family, tmp_path):
    model, path = small_model(name, family), tmp_path / "model.safetensors"
    header = header_of(model, data=Metadata.of_family(family, 3, 10), training={"epochs": 9})
    checkpoints.save(path, header, model.state_dict())
    again, loaded = checkpoints.load_model(path)
    assert again == header == checkpoints.load_header(path)
    assert type(loaded) is type(model) and loaded.config == model.config and not loaded.training
    for key, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[key], tensor)
    assert [file.name for file in tmp_path.iterdir()] == [path.name]


def test_half_precision_is_read_as_single(saved):
    path, header, model = saved
    checkpoints.save(path, header, checkpoints.cast_to_half(model.state_dict()))
    _, loaded = checkpoints.load_model(path)
    for name, tensor in model.state_dict().items():
        assert loaded.state_dict()[name].dtype == torch.float32
        torch.testing.assert_close(loaded.state_dict()[name], tensor, atol=1e-3, rtol=1e-3)


def test_scales_and_metadata_keep_their_types(saved):
    header, _ = checkpoints.load(saved[0])
    assert isinstance(header.scales, Scales) and isinstance(header.data, Metadata)
    assert np.isinf(header.validation_loss)


def test_settings_that_a_header_does_not_have_are_the_defaults(saved):
    path, header, model = saved
    kept = {name: value for name, value in header.config.items() if name in ("width", "steps")}
    checkpoints.save(path, replace(header, config=kept), model.state_dict())
    assert checkpoints.load_model(path)[0].config == header.config


def rewritten(path, tensors, **metadata):
    known = {"format": checkpoints.FORMAT, "version": str(checkpoints.VERSION), "header": "{}"}
    save_file(tensors, path, known | metadata)


def assert_refused(path, match):
    with pytest.raises(BenoError, match=match) as caught:
        checkpoints.load_model(path)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


class TestRefused:
    def test_a_file_that_is_not_there(self, tmp_path):
        assert_refused(tmp_path / "none.safetensors", "not a checkpoint file")

    @pytest.mark.parametrize("share", [0.0, 0.01, 0.6])
    def test_a_file_that_was_cut_short(self, saved, share):
        path, whole = saved[0], saved[0].read_bytes()
        path.write_bytes(whole[: int(share * len(whole))])
        assert_refused(path, "cut short")

    def test_a_pickle(self, saved):
        saved[0].write_bytes(b"\x80\x04 a pickle, say")
        assert_refused(saved[0], "not a readable safetensors file")

    def test_weights_of_somebody_else(self, saved):
        save_file({"x": torch.zeros(1)}, saved[0])
        assert_refused(saved[0], "but no beno-checkpoint")

    @pytest.mark.parametrize("version", [str(checkpoints.VERSION + 1), "", "-1", "1.5", "two", "9" * 5000])
    def test_a_version_that_this_one_does_not_read(self, saved, version):
        rewritten(saved[0], {"x": torch.zeros(1)}, version=version)
        assert_refused(saved[0], f"has version {version[:20]}.*this beno reads up to {checkpoints.VERSION}")

    @pytest.mark.parametrize("text", ["{}", "no JSON", "[1, 2]", "[" * 10**5])
    def test_a_header_that_cannot_be_read(self, saved, text):
        rewritten(saved[0], {"x": torch.zeros(1)}, header=text)
        assert_refused(saved[0], "header that cannot be read")

    @pytest.mark.parametrize("scale", ["0.0", "-2.0", "1e999", "NaN"])
    def test_scales_that_are_none(self, saved, scale):
        path, header, _ = saved
        rewritten(path, {"x": torch.zeros(1)}, header=header.to_json().replace('"source": 2.0', f'"source": {scale}'))
        assert_refused(path, "the scale of the source is .*; it must be a positive number")

    def test_weights_of_another_model_than_the_header_says(self, saved):
        path, header, _ = saved
        rewritten(path, {"x": torch.zeros(1)}, header=header.to_json())
        assert_refused(path, "does not fit the beno that its header describes: ")

    def test_weights_of_another_shape_than_the_header_says(self, saved):
        path, header, model = saved
        wider = {name: torch.zeros(*tensor.shape, 2) for name, tensor in model.state_dict().items()}
        rewritten(path, wider, header=header.to_json())
        assert_refused(path, "does not fit the beno that its header describes: ")

    @pytest.mark.parametrize(
        ("old", "new", "message"),
        [
            ('"beno", "config"', '"other", "config"', "there is no model 'other'"),
            ('"width": 8', '"colour": 8', "no setting 'colour'"),
            ('"width": 8', '"width": "8"', "the setting width is '8'; it must be int"),
            ('"width": 8', '"width": 9', "width 9 must be even"),
        ],
    )
    def test_a_header_that_describes_no_model(self, saved, old, new, message):
        path, header, model = saved
        assert old in header.to_json()
        rewritten(path, model.state_dict(), header=header.to_json().replace(old, new))
        assert_refused(path, message)

    def test_a_header_that_promises_a_network_of_any_size_without_making_it(self, saved):
        path, header, model = saved
        rewritten(path, model.state_dict(), header=header.to_json().replace('"width": 8', f'"width": {10**6}'))
        assert_refused(path, "does not fit the beno")

    def test_a_place_that_cannot_be_written(self, saved, tmp_path):
        _, header, model = saved
        with pytest.raises(BenoError, match="cannot write"):
            checkpoints.save(tmp_path / "no" / "model.safetensors", header, model.state_dict())
