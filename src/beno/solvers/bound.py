"""How far an answer is at most from the solution of the scheme: a bound that is proven, rounding included.

The scheme's matrix A has nothing positive off its diagonal. If one vector w > 0 has A w > 0 in every row, then the
inverse of A has no negative entry, and the error e of any answer, whose residual is r = A e, obeys::

    |e_i| <= w_i max_j |r_j| / (A w)_j.

Where w comes from does not matter, since A w > 0 is checked row by row. (A. Berman, R. J. Plemmons, Nonnegative
Matrices in the Mathematical Sciences, SIAM 1994, doi:10.1137/1.9781611971262, chapter 6; S. M. Rump, Verification
methods, Acta Numerica 19 (2010), doi:10.1017/S096249291000005X.)

One w, the solution of A w = 1, serves all right-hand sides. The bound is then some hundred times the error of a smooth
answer and more for a rough one. For a sharp bound the error is solved for as well: any v with v near e leaves the
residual r - A v, which is smaller by as much as v is good, so ``|e| <= |v| + (bound of the rest)`` is nearly an
equality.

**Walls that hold u weakly, or not at all** (Robin of small alpha, Neumann). There w is huge, and the bound with it. But
A = N + diag(s), where N has the Neumann walls of the same domain and s >= 0 is what the walls add, and the columns of N
add up to nothing. So the mean of e, weighted by s, is ``sum(r) / sum(s)``; under Neumann walls alone the mean of e is
minus that of the answer. It is known without solving. What is left, d, has mean zero and the residual q = r - s mean.
For a vector y that is 0 at one cell p, y > 0 and (A y)_i > 0 in all other rows, the same argument without row p gives::

    |d_i - d_p| <= y_i M,   |d_p| <= Y M,   M = max_j (|q_j| + s_j |d_p|) / (A y)_j,   Y the mean of y.

So ``|e_i| <= |mean| + (y_i + Y) M`` with ``M <= max_j |q_j| / (A y)_j / (1 - Y max_j s_j / (A y)_j)``, where that is
positive.

`extended` has the residuals, and counts what is lost in rounding.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from jaxtyping import Bool, Float, Shaped

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.values import Rows, is_tensor
from beno.problems.walls import Kind, Walls
from beno.solvers.base import Prepared, Solver
from beno.solvers.direct import Direct
from beno.solvers.extended import LOSS, LOSS_OF_SUMS, Counted, CountedSum, Extended, ExtendedRows, sum_by_halves, upward
from beno.support.errors import BenoError

LEAST = 1e-280  # of scaled numbers: more than all that underflows together
WEAK = 0.1  # where the smallest w is more than this share of the largest, walls hold u weakly
GOOD_ENOUGH = 0.5  # of A w = 1
MOST_PASSES = 5  # of corrections, of w and of the error
WORTH_A_PASS = 0.5  # of the bound that was left: a pass that leaves more was the last


@dataclass(frozen=True, eq=False, repr=False)
class Remaining:
    """The equation A e = r of an error, and the mean of e, where that is known."""

    residual: Counted
    mean: CountedSum | None = None

    def without(
        self, rows: ExtendedRows, part: Shaped[np.ndarray, " n"], weights: Shaped[np.ndarray, " n"] | None
    ) -> "Remaining":
        """What is left when a part of the error is taken away."""
        product = rows.product(part)
        off = self.residual.off + product.off + LOSS * (np.abs(self.residual.value) + np.abs(product.value))
        residual = Counted(self.residual.value - product.value, off)
        if self.mean is None or weights is None:
            return Remaining(residual)
        taken = sum_by_halves(weights * part)
        mean = CountedSum(self.mean.value - taken.value, self.mean.off + taken.off + LOSS * abs(self.mean.value))
        return Remaining(residual, mean)


@dataclass(frozen=True, eq=False, repr=False)
class HeldComparison:
    """w > 0 with A w > 0.

    A constant c adds ``c s`` to A w. So the bound may be made of two parts, ``a w + c`` with ``a A w + c s >= |r|``:
    the constant answers for the rows that walls hold firmly, whose residuals count for little, and w for all others.
    """

    w: Shaped[np.ndarray, " n"]
    least: Shaped[np.ndarray, " n"]  # a number below A w in each row
    held: Shaped[np.ndarray, " n"]  # a number below s

    @cached_property
    def firm(self) -> Bool[np.ndarray, " n"]:
        """Where a constant as large as w does more than w."""
        return self.held * self.w.max() > self.least

    def __call__(self, left: Remaining) -> Shaped[np.ndarray, " n"]:
        size, firm = left.residual.size, self.firm
        share = np.max(size[~firm] / self.least[~firm], initial=0) * (1 + LOSS)
        lacking = np.maximum(size[firm] * (1 + LOSS) - share * self.least[firm] * (1 - LOSS), 0)
        constant = np.max(lacking / self.held[firm], initial=0) * (1 + LOSS)
        return share * self.w + constant


@dataclass(frozen=True, eq=False, repr=False)
class FloatingComparison:
    """y >= 0, zero at one cell, with A y > 0 in all other rows; and the weights of the mean that is known."""

    y: Shaped[np.ndarray, " n"]
    least: Shaped[np.ndarray, " n"]  # a number below A y in each row, infinite at the cell
    weights: Shaped[np.ndarray, " n"]
    held: Shaped[np.ndarray, " n"]  # s

    @cached_property
    def mean(self) -> np.longdouble:
        """Y, rounded up."""
        return Extended(sum_by_halves(self.weights * self.y).size * (1 + LOSS))

    @cached_property
    def share(self) -> np.longdouble:
        """``Y max s / (A y)``, which must be less than one."""
        return Extended(self.mean * np.max(self.held / self.least) * (1 + 2 * LOSS))

    def __call__(self, left: Remaining) -> Shaped[np.ndarray, " n"]:
        assert left.mean is not None
        uneven = np.abs(left.residual.value - self.held * left.mean.value)
        off = left.residual.off + self.held * left.mean.off
        off = off + LOSS * (np.abs(left.residual.value) + self.held * abs(left.mean.value))
        most = np.max((uneven + off) / self.least) / (1 - self.share) * (1 + LOSS)
        return left.mean.size + most * (self.y + self.mean)


class ErrorBound:
    """For one operator, prepared with any of its solvers; then for any answers to any right-hand sides.

    The solver may be inexact: it makes w, and sharp bounds, and what it gives is checked. By default it is `Direct`.

    >>> from beno.geometry.grid import Domain
    >>> from beno.problems.operator import poisson_operator
    >>> operator = poisson_operator(Domain.square(16, [(4, 4), None, None, None]))
    >>> right = operator.right(f=1.0, g=lambda x, y: x)
    >>> prepared = Direct().prepare(operator)
    >>> wrong = prepared(right) + 1e-3  # all values are off by this
    >>> bound = ErrorBound(operator, prepared)
    >>> bool(1e-3 <= bound(wrong, right).max() < 1), bool(1e-3 <= bound(wrong, right, sharp=True).max() < 1.0001e-3)
    (True, True)
    """

    def __init__(self, operator: Elliptic, prepared: Prepared | None = None, solver: Solver | None = None) -> None:
        """``prepared`` is for this operator; the solver prepares what else is needed, where walls hold u weakly."""
        self.operator, self._solver = operator, solver or Direct()
        self._rows = ExtendedRows(operator)
        self._held: HeldComparison | None = None
        self._floating: FloatingComparison | None = None
        self.reason = ""  # why there is no bound
        try:
            self._prepared = prepared or self._solver.prepare(operator)
            self._prepare_comparisons()
        except BenoError as error:
            self.reason = f"nothing to compare with was found: {error}"
        if self._held is None and self._floating is None and not self.reason:
            self.reason = (
                "no comparison function passed the check of its rows: the operator may have no positive inverse, or "
                "its coefficients may span too many powers of ten"
            )

    def __repr__(self) -> str:
        kinds = [name for name, one in (("held", self._held), ("floating", self._floating)) if one is not None]
        return f"ErrorBound({' and '.join(kinds) or 'none'}, {self.operator!r})"

    def __call__(self, u: Rows, right: RightHandSide, sharp: bool = False) -> Float[np.ndarray, "*k n"]:
        """Upper bounds of ``|u - (solution of the scheme)|`` at every point; infinite where none can be given.

        Where a constant is free the solution is the one of zero mean, for the right-hand side less its imbalance.
        Sharp bounds cost one more solution for every row.
        """
        return self._corrected(u, right, MOST_PASSES if sharp else 0, enough=1e-3)[1]

    def corrected(self, u: Rows, right: RightHandSide) -> tuple[Float[np.ndarray, "*k n"], Float[np.ndarray, "*k n"]]:
        """A better answer, by the residual in extended precision, and the bound of its own error."""
        improved, _, bound = self._corrected(u, right, MOST_PASSES, enough=0.0)
        return improved, bound

    def _corrected(
        self, u: Rows, right: RightHandSide, passes: int, enough: float
    ) -> tuple[Float[np.ndarray, "*k n"], Float[np.ndarray, "*k n"], Float[np.ndarray, "*k n"]]:
        """The answer corrected so often, the bound of the error it had, and that of the error it has now."""
        self.operator.require_solvable(right)
        f, g = (_as_array(rows) for rows in (right.f, right.g))
        given = _as_array(u)
        if given.shape != f.shape:
            raise BenoError(f"the answer has the shape {given.shape}, and the right-hand side {f.shape}")
        n, p = f.shape[-1], g.shape[-1]
        rows = zip(given.reshape(-1, n), f.reshape(-1, n), g.reshape(-1, p), strict=True)
        found = [self._of_row(*row, passes, enough) for row in rows]
        improved, before, after = (np.stack(parts).reshape(given.shape) for parts in zip(*found, strict=True))
        return improved, before, after

    def _of_row(
        self,
        u: Float[np.ndarray, " n"],
        f: Float[np.ndarray, " n"],
        g: Float[np.ndarray, " p"],
        passes: int,
        enough: float,
    ) -> tuple[Float[np.ndarray, " n"], Float[np.ndarray, " n"], Float[np.ndarray, " n"]]:
        nothing = np.full(len(u), np.inf)
        if self.reason or not np.isfinite(u).all():
            return u, nothing, nothing
        power = self._rows.exponent(u, f, g)
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            scaled, *data = (np.ldexp(one.astype(Extended), -power) for one in (u, f, g))
            whole = self._remaining(scaled, *data)
            error, left = np.zeros(len(u), dtype=Extended), whole
            rest = self._most(left)
            for _ in range(passes):
                better = self._with_mean(error + self._solved(left), whole)
                of_better = whole.without(self._rows, better, self._weights)
                rest_of_better = self._most(of_better)
                if not rest_of_better.max() < WORTH_A_PASS * rest.max():
                    break
                error, left, rest = better, of_better, rest_of_better
                if rest.max() < enough * np.abs(error).max():
                    break
            improved = np.ldexp(scaled + error, power).astype(float)
            lost = np.abs(np.ldexp(improved.astype(Extended), -power) - scaled - error)
            after = rest + (lost + LOSS * np.abs(scaled)) * (1 + LOSS)
            return improved, upward(np.abs(error) + rest, power), upward(after, power)

    def _remaining(
        self, u: Shaped[np.ndarray, " n"], f: Shaped[np.ndarray, " n"], g: Shaped[np.ndarray, " p"]
    ) -> Remaining:
        vector, product = self._rows.vector(f, g), self._rows.product(u)
        if self.operator.leaves_constant_free:  # the equation that the solvers solve
            spare = sum_by_halves(vector.value)
            off = (spare.off + sum_by_halves(vector.off).size + LOSS * abs(spare.value)) / len(u)
            value = vector.value - spare.value / len(u)
            vector = Counted(value, vector.off + off + LOSS * (np.abs(value) + abs(spare.value) / len(u)))
        value = vector.value - product.value
        off = vector.off + product.off + LOSS * np.abs(value) + LEAST * (1 + self._rows.diagonal)
        residual = Counted(value, off)
        if self._floating is None:
            return Remaining(residual)
        if self.operator.leaves_constant_free:
            mean = sum_by_halves(-u / len(u))
        else:  # the flows between cells cancel in the sum, here by not being computed
            held = self._rows.held
            total, sum_held = sum_by_halves(vector.value - held * u), sum_by_halves(held).value
            off = total.off + sum_by_halves(vector.off + LOSS * (np.abs(vector.value) + held * np.abs(u))).size
            ratio = total.value / sum_held
            mean = CountedSum(ratio, off / sum_held * (1 + LOSS) + LOSS_OF_SUMS * abs(ratio))
        return Remaining(residual, CountedSum(mean.value, mean.off + LEAST))

    def _most(self, left: Remaining) -> Shaped[np.ndarray, " n"]:
        """The lesser of the bounds that there are."""
        bounds = [compare(left) for compare in (self._held, self._floating) if compare is not None]
        least = np.minimum.reduce(bounds) * (1 + LOSS)
        return np.where(np.isnan(least), np.inf, least)

    @property
    def _weights(self) -> Shaped[np.ndarray, " n"] | None:
        return self._floating.weights if self._floating else None

    def _with_mean(self, error: Shaped[np.ndarray, " n"], whole: Remaining) -> Shaped[np.ndarray, " n"]:
        """With the mean that is known."""
        if self._weights is None or whole.mean is None:
            return error
        return error + (whole.mean.value - sum_by_halves(self._weights * error).value)

    def _solved(self, left: Remaining) -> Shaped[np.ndarray, " n"]:
        """About A⁻¹ of the residual; nothing, where the solver has no answer."""
        return _applied(self._prepared, left.residual.value, self._rows.area)

    def _prepare_comparisons(self) -> None:
        rows, domain = self._rows, self.operator.grid
        largest = rows.diagonal.max()
        if not (largest == 0 or 1e-150 < largest < 1e150):  # zero only for a single cell that nothing holds
            self.reason = "the coefficients are too large or too small"
            return
        if (rows.conductance < 0).any():
            self.reason = "a coefficient on a face is negative"
            return
        ones = np.ones(len(domain.points), dtype=Extended)
        is_weak = self.operator.leaves_constant_free
        if not is_weak:
            w, least = _compared(rows, self._prepared, ones, slice(None))
            if (w > 0).all() and (least > 0).all():
                self._held = HeldComparison(w, least, rows.held - LOSS * rows.held_size)
            is_weak = self._held is None or w.min() > WEAK * w.max()
        if not is_weak or (rows.held < 0).any() or self.operator.law.reaction(domain) is not None:
            return
        insulated, prepared = self.operator, self._prepared
        if not self.operator.leaves_constant_free:
            walls = Walls.uniform(len(domain.panels), Kind.NEUMANN)
            insulated = replace(self.operator, walls=walls)
            prepared = self._solver.prepare(insulated)
        pin = int(np.argmin(((domain.points - domain.centroid) ** 2).sum(axis=1)))
        target = ones.copy()
        target[pin] -= len(ones)
        y, least = _compared(ExtendedRows(insulated) if insulated is not self.operator else rows, prepared, target, pin)
        others = np.arange(len(y)) != pin
        if not ((y > 0) & (least > 0))[others].all():
            return
        weight = ones if self.operator.leaves_constant_free else rows.held
        weights = weight / sum_by_halves(weight).value
        floating = FloatingComparison(y, np.where(others, least, np.inf), weights, rows.held)
        if floating.share < 1 - WEAK:
            self._floating = floating


def _compared(
    rows: ExtendedRows, prepared: Prepared, target: Shaped[np.ndarray, " n"], pin: int | slice
) -> tuple[Shaped[np.ndarray, " n"], Shaped[np.ndarray, " n"]]:
    """A vector with about this product, less its value at the pin if that is a cell; and what A w is at least."""
    w = np.zeros_like(target)
    for _ in range(MOST_PASSES):
        w = w + _applied(prepared, target - rows.product(w).value, rows.area)
        if isinstance(pin, int):
            w = w - w[pin]
        product = rows.product(w)
        least = (product.value - product.off) * (1 - LOSS)
        off_target = least < GOOD_ENOUGH * target
        if not off_target.any():
            break
    return w, least


def _applied(prepared: Prepared, vector: Shaped[np.ndarray, " n"], area: np.longdouble) -> Shaped[np.ndarray, " n"]:
    """About A⁻¹ of a vector, by right-hand sides of sources alone; zero, where the solver has no answer."""
    operator = prepared.operator
    size = np.abs(vector).max()
    if not (0 < size < np.inf):
        return np.zeros_like(vector)
    power = int(np.frexp(size)[1])
    f = np.ldexp(-vector, -power).astype(float)
    if operator.leaves_constant_free:
        f -= f.mean()
    try:
        found = _as_array(prepared(RightHandSide(f, np.zeros(len(operator.domain.panels)))))
    except BenoError:
        return np.zeros_like(vector)
    return np.ldexp(np.nan_to_num(found).astype(Extended) / area, power)


def _as_array(rows: Rows) -> Float[np.ndarray, "*k n"]:
    values = rows.detach().cpu().numpy() if is_tensor(rows) else np.asarray(rows)
    return values.astype(float)
