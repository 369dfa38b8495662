"""Gradients through solving: the scheme's matrix is symmetric, so the adjoint of its inverse is the inverse itself."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from beno.problems.operator import Elliptic
from beno.problems.right_hand_side import RightHandSide
from beno.problems.values import Rows
from beno.solvers.device.stencil import Equations, as_given, as_tensors

Solve = Callable[[Tensor], Tensor]  # from rows of the equations' right-hand sides, at the points, to rows of u

if TYPE_CHECKING:

    class SolveContext(Protocol):
        solve: Solve

else:
    SolveContext = Any  # whose solve is not there yet when the forward pass is checked


class SelfAdjoint(torch.autograd.Function):
    """A symmetric inverse as a function of vectors that may require gradients, of any order."""

    @staticmethod
    def forward(ctx: SolveContext, vectors: Float[Tensor, "k n"], solve: Solve) -> Float[Tensor, "k n"]:
        ctx.solve = solve
        return solve(vectors)

    @staticmethod
    def backward(ctx: SolveContext, *gradients: Tensor) -> tuple[Tensor, None]:
        return SelfAdjoint.apply(gradients[0], ctx.solve), None


def solved(equations: Equations, right: RightHandSide, solve: Solve) -> Rows:
    """From (f, g) to u by way of the cells' equations, with gradients in f and g where these are tensors.

    Where walls leave a constant free the mean of the vectors is taken off, and that of u: with both it does not matter
    what ``solve`` does to constants, and the whole is symmetric.
    """
    vectors = equations.without_mean(equations.vectors(*as_tensors(right, equations.device, equations.dtype)))
    return as_given(equations.without_mean(SelfAdjoint.apply(vectors, solve)), right)


def solved_as_arrays(operator: Elliptic, right: RightHandSide, solve: Callable[[np.ndarray], np.ndarray]) -> Rows:
    """The same for solvers on the host."""
    equations = Equations(operator, torch.device("cpu"))
    return solved(equations, right, lambda vectors: torch.as_tensor(solve(vectors.numpy())))
