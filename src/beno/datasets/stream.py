"""Samples without end: drawn and solved as a training goes, instead of read from a file.

A sample follows from (seed, index), and an index is used once. So no sample is seen twice, and a run that was stopped
and goes on sees what the unbroken one does.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import joblib

from beno.datasets.making import draw
from beno.datasets.metadata import Metadata
from beno.datasets.solver import solver_for
from beno.problems.families import Family
from beno.problems.problem import Problem
from beno.problems.solution import Solution

FIRST_SEED = 2**96  # of streams: no dataset has such a seed, so no sample of one is in a test set
PROBLEMS_A_TASK = 64


@dataclass(frozen=True)
class Stream:
    """A family's problems of one seed, so many an epoch."""

    family: Family
    seed: int
    samples: int  # an epoch
    device: str = "cpu"

    @classmethod
    def like(cls, data: Metadata, seed: int, samples: int, device: str = "cpu") -> "Stream":
        """Samples like a dataset's, by the seed of a training, and none that any dataset has."""
        return cls(data.family, FIRST_SEED + seed, samples, device)

    def indices(self, epoch: int) -> range:
        """Of an epoch's samples among those of the seed."""
        return range(epoch * self.samples, (epoch + 1) * self.samples)

    def problems(self, epoch: int) -> list[Problem]:
        """Drawn on the host, by as many processes as `joblib.parallel_config` says."""
        indices = self.indices(epoch)
        tasks = [indices[first : first + PROBLEMS_A_TASK] for first in range(0, len(indices), PROBLEMS_A_TASK)]
        jobs = (joblib.delayed(draw)(self.family, self.seed, task.start, task.stop) for task in tasks)
        return [problem for drawn in joblib.Parallel()(jobs) for problem in drawn]

    def solved(self, problems: Sequence[Problem]) -> list[Solution]:
        """With the solver that `data make` takes for this size and device, all of them together."""
        return solver_for(self.family.resolution, self.device).solve_many(problems)

    def solutions(self, epoch: int) -> list[Solution]:
        """The samples of an epoch."""
        return self.solved(self.problems(epoch))
