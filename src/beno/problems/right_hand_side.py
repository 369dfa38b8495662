"""(f, g): the right-hand side of a problem, a vector, of which there may be many for one operator."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from beno.problems.values import Rows
from beno.support.errors import BenoError


@dataclass(frozen=True, eq=False, repr=False)
class RightHandSide:
    """One right-hand side, or a stack of k rows of them. Both arrays and tensors may be given.

    >>> one = RightHandSide(np.array([1.0, 2.0]), np.array([3.0]))
    >>> (2 * one - one).f
    array([1., 2.])
    >>> RightHandSide.stack([one, -one])
    RightHandSide(2 rows of 2 points and 1 panels)
    """

    f: Rows  # (*k, n), at the points
    g: Rows  # (*k, p), at the panels

    __array_ufunc__ = None  # so that a NumPy number on the left leaves the product to __rmul__

    def __post_init__(self) -> None:
        if tuple(self.f.shape[:-1]) != tuple(self.g.shape[:-1]) or self.f.ndim not in (1, 2):
            raise BenoError(
                f"f has the shape {tuple(self.f.shape)} and g {tuple(self.g.shape)}; "
                "each must be one row, or both stacks of equally many"
            )

    def __repr__(self) -> str:
        rows = f"{len(self)} rows of " if self.is_stack else ""
        return f"RightHandSide({rows}{self.f.shape[-1]} points and {self.g.shape[-1]} panels)"

    @property
    def is_stack(self) -> bool:
        return self.f.ndim == 2

    def __len__(self) -> int:
        """How many rows there are."""
        return self.f.shape[0] if self.is_stack else 1

    def __getitem__(self, row: int) -> "RightHandSide":
        return RightHandSide(self.f[row], self.g[row])

    def __add__(self, other: "RightHandSide") -> "RightHandSide":
        return RightHandSide(self.f + other.f, self.g + other.g)

    def __sub__(self, other: "RightHandSide") -> "RightHandSide":
        return RightHandSide(self.f - other.f, self.g - other.g)

    def __mul__(self, factor: int | float) -> "RightHandSide":
        return RightHandSide(self.f * factor, self.g * factor)

    __rmul__ = __mul__

    def __neg__(self) -> "RightHandSide":
        return RightHandSide(-self.f, -self.g)

    @staticmethod
    def stack(rows: Sequence["RightHandSide"]) -> "RightHandSide":
        return RightHandSide(
            np.stack([np.asarray(row.f) for row in rows]), np.stack([np.asarray(row.g) for row in rows])
        )

    @property
    def sources(self) -> "RightHandSide":
        """f alone."""
        return RightHandSide(self.f, 0 * self.g)

    @property
    def boundary_values(self) -> "RightHandSide":
        """g alone."""
        return RightHandSide(0 * self.f, self.g)

    def of_size_one(self) -> tuple["RightHandSide", Int[np.ndarray, "*k 1"]]:
        """The same over a power of two, which loses nothing, and its exponent: one for each row of a stack.

        So numbers whose squares would be too large or too small for double precision are nothing special.
        """
        f, g = np.asarray(self.f), np.asarray(self.g)
        largest = np.maximum(*(np.abs(rows).max(axis=-1, keepdims=True, initial=0.0) for rows in (f, g)))
        exponent = np.where(largest > 0, np.frexp(largest)[1], 0)
        # In two steps, for neither the largest numbers nor the smallest have an inverse.
        half = exponent // 2
        scaled = (np.ldexp(np.ldexp(rows, -half), half - exponent) for rows in (f, g))
        return RightHandSide(*scaled), exponent

    def rows(self) -> tuple[Float[np.ndarray, "k n"], Float[np.ndarray, "k p"]]:
        """As stacks of arrays, also where there is one row."""
        f, g = np.asarray(self.f), np.asarray(self.g)
        return f.reshape(-1, f.shape[-1]), g.reshape(-1, g.shape[-1])
