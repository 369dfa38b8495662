"""Which solver makes the u of samples."""

from beno.solvers.base import Solver
from beno.solvers.direct import Direct

MOST_CELLS_A_SIDE = 512  # on which the iteration was seen to agree with the direct solver to 1e-9


def solver_for(resolution: int, device: str = "cpu") -> Solver:
    """The direct solver on the CPU, where it is the quickest for one problem at a time and exact to rounding.

    On a GPU it is the batched iteration, which solves a block of problems in the time of a few. Grids on which that
    cannot be brought to agree with the direct solver are left to the direct one.
    """
    if device == "cpu" or resolution > MOST_CELLS_A_SIDE:
        return Direct()
    from beno.solvers.device.gradients import ConjugateGradients  # a second to import, and needed only here

    return ConjugateGradients(device, tolerance(resolution))


def tolerance(resolution: int) -> float:
    """Of residuals, for which u is the direct solver's to 1e-9. Rounding alone leaves some that grow with N²."""
    return max(1e-12, 4e-17 * resolution**2)
