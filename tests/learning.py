"""Small problems and cohorts for the tests of what learns."""

import numpy as np

from beno.batch import Cohort
from beno.finite_volume import solve
from beno.geometry import Domain
from beno.problem import poisson
from beno.random_problems import Family
from beno.sample import Sample
from beno.scaling import Scales


def samples_of(count=5, resolution=8, **choices):
    family = Family(resolution=resolution, **({"corners": "mixed"} | choices))
    return [Sample.of(solve(family.problem(2, index))) for index in range(count)]


def sample_with_hole(resolution=8):
    mask = np.ones((resolution, resolution), dtype=bool)
    mask[3:5, 3:5] = False
    return Sample.of(solve(poisson(Domain.from_mask(mask), f=1.0, g=lambda x, y: np.sin(9 * x) + y)))


def cohort_of(samples, nearest=8):
    return Cohort.of(samples, Scales.fit(samples), nearest)
