"""The steps of conjugate gradients as Triton kernels: each reads and writes every array once.

A program works on some cells of one problem. Sums over a problem are left as one number a program, which the next
kernel adds up: the same to the bit every time, and no kernel in between.
"""

import triton
import triton.language as tl
from torch import Tensor

BLOCK = 1024  # cells that a program works on


@triton.jit
def _cells(cells, BLOCK: tl.constexpr):
    """Which problem this program works on, where its cells lie among those of all problems, and which there are."""
    problem, tile = tl.program_id(0), tl.program_id(1)
    cell = tile * BLOCK + tl.arange(0, BLOCK)
    return problem, tile, problem.to(tl.int64) * cells + cell, cell, cell < cells


@triton.jit
def _total(parts, problem, tiles, TILES: tl.constexpr):
    """What all programs of a problem found, added up."""
    tile = tl.arange(0, TILES)
    return tl.sum(tl.load(parts + problem * tiles + tile, mask=tile < tiles, other=0.0))


@triton.jit
def _stencil(u, diagonal, east, north, own, at, cell, there, n, shape_index, cells):
    """The scheme's matrix times u, at some cells."""
    i, j = cell // n, cell % n
    value = tl.load(diagonal + own, mask=there, other=0.0) * tl.load(u + at, mask=there, other=0.0)
    below, above = there & (i > 0), there & (i < n - 1)
    before, after = there & (j > 0), there & (j < n - 1)
    value -= tl.load(east + own, mask=above, other=0.0) * tl.load(u + at + n, mask=above, other=0.0)
    value -= tl.load(east + own - n, mask=below, other=0.0) * tl.load(u + at - n, mask=below, other=0.0)
    value -= tl.load(north + own, mask=after, other=0.0) * tl.load(u + at + 1, mask=after, other=0.0)
    value -= tl.load(north + own - 1, mask=before, other=0.0) * tl.load(u + at - 1, mask=before, other=0.0)
    return value


@triton.jit
def _image_kernel(
    u, diagonal, east, north, image, parts, n, cells, tiles, one_operator: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    problem, tile, at, cell, there = _cells(cells, BLOCK)
    own = cell if one_operator else at
    value = _stencil(u, diagonal, east, north, own, at, cell, there, n, problem, cells)
    tl.store(image + at, value, mask=there)
    product = value * tl.load(u + at, mask=there, other=0.0)
    tl.store(parts + problem * tiles + tile, tl.sum(product))


@triton.jit
def _update_kernel(
    u, residual, scaled, direction, image, scale, product, curvature, sizes, cells, tiles,
    one_operator: tl.constexpr, TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    problem, tile, at, cell, there = _cells(cells, BLOCK)
    own = cell if one_operator else at
    below = _total(curvature, problem, tiles, TILES)
    alpha = tl.where(below == 0, 0.0, _total(product, problem, tiles, TILES) / tl.where(below == 0, 1.0, below))
    tl.store(u + at, tl.load(u + at, mask=there) + alpha * tl.load(direction + at, mask=there), mask=there)
    left = tl.load(residual + at, mask=there, other=0.0) - alpha * tl.load(image + at, mask=there, other=0.0)
    tl.store(residual + at, left, mask=there)
    tl.store(scaled + at, left * tl.load(scale + own, mask=there, other=0.0), mask=there)
    tl.store(sizes + problem * tiles + tile, tl.sum(left * left))


@triton.jit
def _product_kernel(
    residual, solved, scale, product, cells, tiles, one_operator: tl.constexpr, BLOCK: tl.constexpr
):  # fmt: skip
    problem, tile, at, cell, there = _cells(cells, BLOCK)
    own = cell if one_operator else at
    z = tl.load(solved + at, mask=there, other=0.0) * tl.load(scale + own, mask=there, other=0.0)
    tl.store(product + problem * tiles + tile, tl.sum(z * tl.load(residual + at, mask=there, other=0.0)))


@triton.jit
def _turn_kernel(
    direction, solved, scale, product, before, cells, tiles,
    one_operator: tl.constexpr, TILES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    problem, _, at, cell, there = _cells(cells, BLOCK)
    own = cell if one_operator else at
    old = _total(before, problem, tiles, TILES)
    beta = tl.where(old == 0, 0.0, _total(product, problem, tiles, TILES) / tl.where(old == 0, 1.0, old))
    z = tl.load(solved + at, mask=there, other=0.0) * tl.load(scale + own, mask=there, other=0.0)
    tl.store(direction + at, z + beta * tl.load(direction + at, mask=there, other=0.0), mask=there)


@triton.jit
def _residual_kernel(
    u, vectors, diagonal, east, north, residual, sizes, n, cells, tiles,
    one_operator: tl.constexpr, KEEP: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    problem, tile, at, cell, there = _cells(cells, BLOCK)
    own = cell if one_operator else at
    left = tl.load(vectors + at, mask=there, other=0.0) - _stencil(
        u, diagonal, east, north, own, at, cell, there, n, problem, cells
    )
    left = tl.where(tl.load(diagonal + own, mask=there, other=0.0) == 0, 0.0, left)
    if KEEP:
        tl.store(residual + at, left, mask=there)
    tl.store(sizes + problem * tiles + tile, tl.sum(left * left))


class Kernels:
    """For problems of one size; the stencil is of one operator, or of one for each problem."""

    def __init__(self, diagonal: Tensor, east: Tensor, north: Tensor, problems: int) -> None:
        self._of_stencil = (diagonal, east, north)
        self._one = len(diagonal) == 1
        self._n, self._cells = diagonal.shape[-1], diagonal.shape[-1] ** 2
        self._tiles = triton.cdiv(self._cells, BLOCK)
        self._grid = (problems, self._tiles)
        self._sums = {"TILES": triton.next_power_of_2(self._tiles), "BLOCK": BLOCK, "one_operator": self._one}

    def parts(self) -> Tensor:
        """Room for one number a program."""
        return self._of_stencil[0].new_empty(self._grid)

    def image(self, direction: Tensor, image: Tensor, curvature: Tensor) -> None:
        """``image = A direction``, and the parts of their product."""
        _image_kernel[self._grid](
            direction, *self._of_stencil, image, curvature, self._n, self._cells, self._tiles,
            one_operator=self._one, BLOCK=BLOCK,
        )  # fmt: skip

    def update(
        self, u: Tensor, residual: Tensor, scaled: Tensor, direction: Tensor, image: Tensor, scale: Tensor,
        product: Tensor, curvature: Tensor, sizes: Tensor,
    ) -> None:  # fmt: skip
        """A step along the direction: u, its residual, that times the scale, and the parts of its square."""
        _update_kernel[self._grid](
            u, residual, scaled, direction, image, scale, product, curvature, sizes, self._cells, self._tiles,
            **self._sums,
        )  # fmt: skip

    def product(self, residual: Tensor, solved: Tensor, scale: Tensor, product: Tensor) -> None:
        """The parts of the product of the residual with what the preconditioner makes of it."""
        _product_kernel[self._grid](
            residual, solved, scale, product, self._cells, self._tiles, one_operator=self._one, BLOCK=BLOCK
        )

    def turn(self, direction: Tensor, solved: Tensor, scale: Tensor, product: Tensor, before: Tensor) -> None:
        """The next direction."""
        _turn_kernel[self._grid](direction, solved, scale, product, before, self._cells, self._tiles, **self._sums)

    def residual(self, u: Tensor, vectors: Tensor, residual: Tensor | None = None) -> Tensor:
        """The squares of what is missing in the equations of each problem; what is missing itself, if there is room."""
        sizes = self.parts()
        _residual_kernel[self._grid](
            u, vectors, *self._of_stencil, vectors if residual is None else residual, sizes, self._n, self._cells,
            self._tiles, one_operator=self._one, KEEP=residual is not None, BLOCK=BLOCK,
        )  # fmt: skip
        return sizes.sum(dim=1)
