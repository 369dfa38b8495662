"""What is gathered sample by sample agrees with what the whole would say."""

import numpy as np
import pytest

from beno.datasets.dataset import Dataset
from beno.datasets.summaries import Spread, summarise
from beno.problems.families import Family
from tests.datasets.samples import solutions_of, stored


@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_a_summary_agrees_with_the_whole(tmp_path, equation):
    family = Family(equation, corners="mixed", resolution=8)
    solutions = solutions_of(family)
    with Dataset(stored(tmp_path / "data.h5", family, solutions)) as dataset:
        summary = summarise(dataset)
    for name, values in (("f", "f"), ("g", "g"), ("u", "u"), ("kappa", "coefficient")):
        if name not in summary:
            assert equation == "poisson" and name == "kappa"
            continue
        everything = np.concatenate([solution.values[values] for solution in solutions])
        assert summary[name].rms == pytest.approx(np.sqrt(np.mean(everything**2)))
        assert (summary[name].smallest, summary[name].largest) == (everything.min(), everything.max())
    assert summary["points a sample"].largest == max(len(solution.u) for solution in solutions)
    assert summary["panels a sample"].smallest == min(len(solution.problem.g) for solution in solutions)


def test_a_spread_is_written_as_a_person_would_read_it():
    spread = Spread()
    spread.see(np.array([3.0, -4.0]))
    assert str(spread) == "-4 to 3, root mean square 3.536"
