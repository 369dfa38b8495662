"""Small problems and cohorts for the tests of what learns."""

import numpy as np

from beno.batches.graphs import Cohort
from beno.datasets.records import Sample
from beno.datasets.scales import Scales
from beno.geometry.grid import Domain
from beno.problems.families import Family
from beno.problems.problem import poisson
from beno.solvers.finite_volumes import solve


def samples_of(count=5, resolution=8, **choices):
    family = Family(resolution=resolution, **({"corners": "mixed"} | choices))
    return [Sample.of(solve(family.problem(2, index))) for index in range(count)]


def sample_with_hole(resolution=8):
    mask = np.ones((resolution, resolution), dtype=bool)
    mask[3:5, 3:5] = False
    return Sample.of(solve(poisson(Domain.from_mask(mask), f=1.0, g=lambda x, y: np.sin(9 * x) + y)))


def cohort_of(samples, nearest=8):
    return Cohort.of(samples, Scales.fit(samples), nearest)
