"""Attention to the panels: each place for itself, hidden panels not at all."""

import pytest
import torch

from beno.models.harmonic.attention import Attention
from beno.nn.pairs import FEATURES

SAMPLES, PLACES, PANELS, WIDTH = 2, 5, 7, 8
NEVER = -1e4


@pytest.fixture
def given():
    torch.manual_seed(0)
    shapes = ((SAMPLES, PLACES, WIDTH), (SAMPLES, PANELS, WIDTH), (SAMPLES, PLACES, PANELS, FEATURES))
    return Attention(WIDTH, heads=2), *(torch.randn(shape) for shape in shapes)


def test_hidden_panels_are_not_there(given):
    attention, places, panels, seen = given
    hidden = torch.zeros(SAMPLES, PANELS)
    hidden[:, 4:] = NEVER
    with_hidden = attention(places, panels, seen, hidden)
    torch.testing.assert_close(with_hidden, attention(places, panels[:, :4], seen[:, :, :4], None))


def test_each_place_is_answered_for_itself(given):
    attention, places, panels, seen = given
    together = attention(places, panels, seen, None)
    alone = [attention(places[:, i : i + 1], panels, seen[:, i : i + 1], None) for i in range(PLACES)]
    torch.testing.assert_close(together, torch.cat(alone, dim=1))


def test_the_order_of_panels_does_not_matter(given):
    attention, places, panels, seen = given
    order = torch.randperm(PANELS)
    torch.testing.assert_close(
        attention(places, panels[:, order], seen[:, :, order], None), attention(places, panels, seen, None)
    )


def test_what_is_seen_of_a_panel_changes_how_much_it_is_heard(given):
    attention, places, panels, seen = given
    assert not torch.allclose(attention(places, panels, 2 * seen, None), attention(places, panels, seen, None))
