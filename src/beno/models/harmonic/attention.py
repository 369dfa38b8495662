"""Attention to the panels, from themselves or from points, biased by how each sees the other."""

from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional

from beno.nn.pairs import FEATURES
from beno.nn.segments import fused_kernels


class Attention(nn.Module):
    """To the panels, from themselves or from points, biased by how each sees the other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm, self.norm_panels = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * width)
        self.bias = nn.Linear(FEATURES, heads, bias=False)
        self.out = nn.Linear(width, width)
        self.norm_after = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.SiLU(), nn.Linear(2 * width, width))

    def forward(
        self,
        x: Float[Tensor, "s a c"],
        panels: Float[Tensor, "s b c"],
        seen: Float[Tensor, "s a b f"],
        hidden: Float[Tensor, "s b"] | None,
    ) -> Float[Tensor, "s a c"]:
        query = self._by_head(self.query(_normed(self.norm, x)))
        key, value = map(self._by_head, self.key_value(_normed(self.norm_panels, panels)).chunk(2, dim=-1))
        # As a product from the left it comes out by heads, in the order that fused attention asks for.
        bias = (self.bias.weight @ seen.flatten(1, 2).transpose(1, 2)).unflatten(2, seen.shape[1:3])
        if hidden is not None:
            bias = bias.add_(hidden[:, None, None, :])
        mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=bias.to(query.dtype))
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.mlp(_normed(self.norm_after, x))

    def _by_head(self, x: Float[Tensor, "s a c"]) -> Float[Tensor, "s h a d"]:
        return x.unflatten(2, (self.heads, -1)).transpose(1, 2)


def _normed(norm: nn.LayerNorm, x: Float[Tensor, "s m c"]) -> Float[Tensor, "s m c"]:
    """On a GPU by a kernel of our own: the library's takes nine times as long as reading and writing so narrow rows."""
    fused = fused_kernels() if x.is_cuda else None
    if fused is None or not fused.fits(x.shape[-1]):
        return norm(x)
    rows = fused.FusedNorm.apply(x.flatten(0, 1), norm.weight[None, None], norm.bias[None, None], None)
    return rows.view(x.shape)
