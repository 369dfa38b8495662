"""Elliptic PDEs on domains of complex shape, u = L⁻¹ (f, g): by exact solvers and by learned operators.

>>> from beno import Direct, Domain, poisson, solve
>>> domain = Domain.square(16, cuts=[(4, 4), None, None, None])
>>> solve(poisson(domain, g=lambda x, y: x + y), solver=Direct()).at([[0.5, 0.75]]).round(6)
array([1.25])
"""

from importlib import import_module
from typing import TYPE_CHECKING

from beno.version import __version__

if TYPE_CHECKING:
    from beno.datasets.dataset import Dataset
    from beno.geometry.bare_panels import BarePanels
    from beno.geometry.grid import Domain
    from beno.learned.choice import prepare, solve, solve_many
    from beno.learned.shipped import load
    from beno.problems.law import Darcy, Poisson
    from beno.problems.operator import Elliptic
    from beno.problems.problem import Problem, darcy, poisson
    from beno.problems.right_hand_side import RightHandSide
    from beno.problems.solution import Report, Solution
    from beno.problems.walls import Kind, Walls
    from beno.solvers.direct import Direct
    from beno.solvers.multigrid import Multigrid
    from beno.support.errors import BenoError

# Each is imported when it is first asked for: PyTorch takes a second, and the command line must not wait for it.
_HOME = {
    "BarePanels": "beno.geometry.bare_panels",
    "BenoError": "beno.support.errors",
    "Darcy": "beno.problems.law",
    "Dataset": "beno.datasets.dataset",
    "Direct": "beno.solvers.direct",
    "Domain": "beno.geometry.grid",
    "Elliptic": "beno.problems.operator",
    "Kind": "beno.problems.walls",
    "Multigrid": "beno.solvers.multigrid",
    "Poisson": "beno.problems.law",
    "Problem": "beno.problems.problem",
    "Report": "beno.problems.solution",
    "RightHandSide": "beno.problems.right_hand_side",
    "Solution": "beno.problems.solution",
    "Walls": "beno.problems.walls",
    "darcy": "beno.problems.problem",
    "load": "beno.learned.shipped",
    "poisson": "beno.problems.problem",
    "prepare": "beno.learned.choice",
    "solve": "beno.learned.choice",
    "solve_many": "beno.learned.choice",
}

__all__ = [
    "BarePanels",
    "BenoError",
    "Darcy",
    "Dataset",
    "Direct",
    "Domain",
    "Elliptic",
    "Kind",
    "Multigrid",
    "Poisson",
    "Problem",
    "Report",
    "RightHandSide",
    "Solution",
    "Walls",
    "__version__",
    "darcy",
    "load",
    "poisson",
    "prepare",
    "solve",
    "solve_many",
]


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    raise AttributeError(f"module 'beno' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
