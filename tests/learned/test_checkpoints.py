"""Checkpoints give back what was saved, or say in one line why not; nothing in them is run."""

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from beno.datasets.dataset import Metadata
from beno.datasets.scales import Scales
from beno.learned import checkpoints as checkpoint
from beno.learned.checkpoints import Header
from beno.models import make_config, make_model
from beno.problems.families import Family
from beno.support.errors import BenoError


@pytest.fixture
def saved(tmp_path):
    settings = {"width": 16, "steps": 2}
    torch.manual_seed(0)
    model = make_model("beno", make_config("beno", settings))
    header = Header("beno", settings, Scales(2.0, 3.0, 4.0), Metadata.of_family(Family(), 0, 10), epoch=7)
    path = tmp_path / "model.safetensors"
    checkpoint.save(path, header, model.state_dict())
    return path, header, model


def test_everything_comes_back(saved):
    path, header, model = saved
    again, loaded = checkpoint.load_model(path)
    assert again == header
    for name, tensor in model.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_half_precision_is_read_as_single(saved):
    path, header, model = saved
    checkpoint.save(path, header, checkpoint.cast_to_half(model.state_dict()))
    _, loaded = checkpoint.load_model(path)
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor, atol=1e-3, rtol=1e-3)


def rewritten(path, tensors, **metadata):
    known = {"format": checkpoint.FORMAT, "version": str(checkpoint.VERSION), "header": "{}"}
    save_file(tensors, path, known | metadata)


def refused(path, match):
    with pytest.raises(BenoError, match=match) as caught:
        checkpoint.load_model(path)
    assert str(path) in str(caught.value)


def test_bad_files(saved, tmp_path):
    path, header, model = saved
    refused(tmp_path / "none.safetensors", "not a checkpoint file")
    whole = path.read_bytes()
    for share in (0.0, 0.01, 0.6):
        path.write_bytes(whole[: int(share * len(whole))])
        refused(path, "cut short")
    path.write_bytes(b"\x80\x04 a pickle, say")
    refused(path, "not a readable safetensors file")
    save_file({"x": torch.zeros(1)}, path)
    refused(path, "but no beno-checkpoint")
    rewritten(path, {"x": torch.zeros(1)}, version=str(checkpoint.VERSION + 1))
    refused(path, f"has version {checkpoint.VERSION + 1}")
    rewritten(path, {"x": torch.zeros(1)})
    refused(path, "header that cannot be read")
    rewritten(path, {"x": torch.zeros(1)}, header=header.to_json().replace('"beno", "config"', '"other", "config"'))
    refused(path, "holds a model 'other'")
    rewritten(path, {"x": torch.zeros(1)}, header=header.to_json())
    refused(path, "does not fit the beno")
    wider = {name: torch.zeros(*tensor.shape, 2) for name, tensor in model.state_dict().items()}
    rewritten(path, wider, header=header.to_json())
    refused(path, "does not fit the beno")
    rewritten(path, model.state_dict(), header=header.to_json().replace('"width": 16', '"colour": 16'))
    with pytest.raises(BenoError, match="no setting 'colour'"):
        checkpoint.load_model(path)


def test_an_unwritable_place(saved, tmp_path):
    _, header, model = saved
    with pytest.raises(BenoError, match="cannot write"):
        checkpoint.save(tmp_path / "no" / "model.safetensors", header, model.state_dict())


def test_scales_and_metadata_keep_their_types(saved):
    header, _ = checkpoint.load(saved[0])
    assert isinstance(header.scales, Scales) and isinstance(header.data, Metadata)
    assert np.isinf(header.validation_loss)
