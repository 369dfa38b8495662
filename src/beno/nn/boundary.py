"""Encoders that turn the boundary, a ring of tokens, into one vector a sample."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from beno.nn.branch import BranchLayerNorm, BranchLinear

FEED_FORWARD_FACTOR = 4


@dataclass(frozen=True, eq=False)
class Tokens:
    """Boundary tokens of several samples, padded to the longest: features differ by copy, geometry does not."""

    features: Float[Tensor, "copies s p features"]
    position: Float[Tensor, "s p"]  # along the ring, in panels of the paper's grid
    before: Int[Tensor, "s p"]  # the panel before each one on its ring
    after: Int[Tensor, "s p"]
    exists: Bool[Tensor, "s p"] | None  # None where nothing is padding


def position_embedding(position: Float[Tensor, "s p"], channels: int) -> Float[Tensor, "s p channels"]:
    """Sines and cosines of wavelengths from a few panels to thousands."""
    rates = 10000.0 ** (-torch.arange(0, channels, 2, device=position.device) / channels)
    angles = position[..., None] * rates
    return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(-2)


class TransformerLayer(nn.Module):
    """Self-attention and a feed-forward network, each added to its input and normalised."""

    def __init__(self, copies: int, width: int, heads: int) -> None:
        super().__init__()
        self.copies, self.heads = copies, heads
        self.to_qkv = BranchLinear(copies, width, 3 * width)
        self.to_out = BranchLinear(copies, width, width)
        self.norm_attention = BranchLayerNorm(copies, width)
        self.widen = BranchLinear(copies, width, FEED_FORWARD_FACTOR * width)
        self.narrow = BranchLinear(copies, FEED_FORWARD_FACTOR * width, width)
        self.norm_feed = BranchLayerNorm(copies, width)

    def forward(self, x: Float[Tensor, "csp c"], tokens: Tokens) -> Float[Tensor, "csp c"]:
        samples, panels = tokens.position.shape
        shape = (self.copies * samples, panels, 3, self.heads, -1)
        q, k, v = self.to_qkv(x).view(shape).permute(2, 0, 3, 1, 4)
        mask = None if tokens.exists is None else tokens.exists.repeat(self.copies, 1)[:, None, None, :]
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = self.norm_attention(x + self.to_out(mixed.transpose(1, 2).reshape(x.shape)))
        return self.norm_feed(x + self.narrow(functional.silu(self.widen(x))))


class ConvolutionLayer(nn.Module):
    """A graph convolution along the ring: each panel takes the mean of itself and its two neighbours."""

    def __init__(self, copies: int, width: int) -> None:
        super().__init__()
        self.copies = copies
        self.linear = BranchLinear(copies, width, width)

    def forward(self, x: Float[Tensor, "csp c"], tokens: Tokens) -> Float[Tensor, "csp c"]:
        rings = x.view(self.copies, *tokens.position.shape, -1)
        row = torch.arange(rings.shape[1], device=x.device)[:, None]
        mean = (rings + rings[:, row, tokens.before] + rings[:, row, tokens.after]) / 3
        return functional.silu(self.linear(mean.view(x.shape)))


class BoundaryEncoder(nn.Module):
    """Tokens to one vector a sample; ``copies`` encoders at once, each with weights of its own."""

    def __init__(
        self, copies: int, features: int, width: int, layers: int, heads: int, convolution: bool, max_pool: bool
    ) -> None:
        super().__init__()
        self.copies, self.width, self.max_pool = copies, width, max_pool
        self.embed = BranchLinear(copies, features, width)
        self.layers = nn.ModuleList(
            ConvolutionLayer(copies, width) if convolution else TransformerLayer(copies, width, heads)
            for _ in range(layers)
        )

    def forward(self, tokens: Tokens) -> Float[Tensor, "copies s width"]:
        x = self.embed(tokens.features.flatten(0, 2))
        x = (x.view(self.copies, -1, self.width) + position_embedding(tokens.position, self.width).flatten(0, 1)).view(
            -1, self.width
        )
        for layer in self.layers:
            x = layer(x, tokens)
        x = x.view(self.copies, *tokens.position.shape, self.width)
        if tokens.exists is None:
            return x.amax(dim=2) if self.max_pool else x.mean(dim=2)
        exists = tokens.exists[..., None]
        if self.max_pool:
            return x.masked_fill(~exists, float("-inf")).amax(dim=2)
        return (x * exists).sum(dim=2) / exists.sum(dim=1)
