"""The encoder of the boundary: padding does not count, and each copy has weights of its own."""

from dataclasses import replace

import pytest
import torch

from beno.nn.boundary import BoundaryEncoder, Tokens, position_embedding

COPIES, SAMPLES, PANELS, FEATURES, WIDTH = 3, 2, 7, 4, 8


def tokens_of(panels=PANELS, exists=None):
    torch.manual_seed(0)
    here = torch.arange(panels).expand(SAMPLES, -1)
    features = torch.randn(COPIES, SAMPLES, panels, FEATURES)
    return Tokens(features, here.float(), (here - 1) % panels, (here + 1) % panels, exists)


def encoder_of(**options):
    torch.manual_seed(1)
    plain = {"layers": 2, "heads": 2, "convolution": False, "max_pool": False}
    return BoundaryEncoder(COPIES, FEATURES, width=WIDTH, **(plain | options))


every_kind = pytest.mark.parametrize("options", [{}, {"max_pool": True}, {"convolution": True}], ids=str)


@every_kind
def test_padding_does_not_count(options):
    tokens, encoder = tokens_of(), encoder_of(**options)

    def longer(values, dim, by):
        return torch.cat([values, torch.full_like(values.narrow(dim, 0, 2), by)], dim=dim)

    padded = Tokens(
        longer(tokens.features, 2, 9.0),
        longer(tokens.position, 1, 50.0),
        longer(tokens.before, 1, PANELS),
        longer(tokens.after, 1, PANELS),
        torch.arange(PANELS + 2).expand(SAMPLES, -1) < PANELS,
    )
    torch.testing.assert_close(encoder(padded), encoder(tokens))


@every_kind
def test_each_copy_hears_its_own_features_alone(options):
    tokens, encoder = tokens_of(), encoder_of(**options)
    changed = tokens.features.clone()
    changed[1] += 1
    before, after = encoder(tokens), encoder(replace(tokens, features=changed))
    assert before.shape == (COPIES, SAMPLES, WIDTH)
    assert [torch.equal(one, other) for one, other in zip(before, after, strict=True)] == [True, False, True]


@every_kind
def test_equal_features_make_different_vectors_in_different_copies(options):
    tokens = tokens_of()
    vectors = encoder_of(**options)(replace(tokens, features=tokens.features[:1].repeat(COPIES, 1, 1, 1)))
    assert not torch.allclose(vectors[0], vectors[1], atol=1e-3)


def test_positions_that_differ_by_a_panel_can_be_told_apart():
    embedding = position_embedding(torch.arange(200.0)[None], WIDTH)[0]
    distance = torch.cdist(embedding, embedding) + 9 * torch.eye(200)
    assert embedding.shape == (200, WIDTH) and distance.min() > 0.01
