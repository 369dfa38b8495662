"""A captured step, with a stand-in on the host for CUDA's graphs: what it keeps, and that it checks itself."""

from contextlib import nullcontext
from dataclasses import dataclass

import pytest
import torch

from beno.batches.base import Feed
from beno.support.errors import BenoError
from beno.training.captured import CapturedStep


@dataclass
class Numbers(Feed):
    x: torch.Tensor


class HostGraph:
    """Does again what was done while it was recorded; ``fault`` is what it gets wrong."""

    fault = 0.0
    recorded: "HostGraph | None" = None

    def __init__(self):
        HostGraph.recorded = self
        self.replay_ = None

    def replay(self):
        self.replay_()


@pytest.fixture
def host_cuda(monkeypatch):
    class Stream:
        def wait_stream(self, other):
            pass

    monkeypatch.setattr(torch.cuda, "Stream", Stream)
    monkeypatch.setattr(torch.cuda, "current_stream", Stream)
    monkeypatch.setattr(torch.cuda, "stream", lambda stream: nullcontext())
    monkeypatch.setattr(torch.cuda, "CUDAGraph", HostGraph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: nullcontext())
    monkeypatch.setattr(HostGraph, "fault", 0.0)


def step_on(weight, optimizer):
    out = torch.zeros(())

    def update(feed, scale):
        optimizer.zero_grad()
        loss = (scale * (weight * feed.x - 1).square()).sum()
        loss.backward()
        optimizer.step()
        out.copy_(loss.detach() + HostGraph.fault)
        HostGraph.recorded.replay_ = lambda: update(feed, scale)
        return out

    HostGraph()
    return update


def capture():
    weight = torch.nn.Parameter(torch.tensor(3.0))
    rate = torch.tensor(0.1)
    optimizer = torch.optim.Adam([weight], lr=rate)
    return (
        weight,
        rate,
        lambda: CapturedStep(step_on(weight, optimizer), optimizer, rate, Numbers(torch.arange(1.0, 5.0)), 4),
    )


def test_making_a_captured_step_moves_no_weight_and_replaying_it_does(host_cuda):
    weight, rate, make = capture()
    captured = make()
    assert weight.item() == 3.0 and rate.item() == pytest.approx(0.1)
    feed, scale = Numbers(torch.ones(4)), torch.full((4,), 0.25)
    assert captured.fits(feed) and not captured.fits(Numbers(torch.ones(3)))
    assert captured(feed, scale).item() == pytest.approx(4.0)
    assert weight.item() == pytest.approx(2.9)


def test_a_replay_that_is_not_what_a_plain_step_does_is_refused(host_cuda, monkeypatch):
    _, _, make = capture()
    monkeypatch.setattr(HostGraph, "replay", lambda self: (setattr(HostGraph, "fault", 5.0), self.replay_()))
    with pytest.raises(BenoError, match=r"captured step has a loss of .* where a plain one has"):
        make()


def test_a_replay_that_is_no_number_is_refused(host_cuda, monkeypatch):
    _, _, make = capture()
    monkeypatch.setattr(HostGraph, "replay", lambda self: (setattr(HostGraph, "fault", float("nan")), self.replay_()))
    with pytest.raises(BenoError, match="nan"):
        make()
