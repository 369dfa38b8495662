"""What answers that know a part alone are wrong by, on the tables' own test samples: to read trained models by.

The source alone (solved exactly, with g = 0), the walls alone (solved exactly, with f = 0), the harmonic operator's
kernel with nothing learned, and the exact solver that is given the walls of the published sample's fault.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import torch
from record import record
from rich.console import Console
from rich.table import Table

from beno.datasets.metadata import Metadata
from beno.datasets.published import with_published_fault
from beno.datasets.scales import Scales
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models.harmonic.model import Harmonic, HarmonicConfig
from beno.paper.reported import COLUMNS
from beno.paper.tables import TRAINING_SEED, testing_seed
from beno.problems.families import Family
from beno.problems.norms import relative_l2
from beno.problems.problem import Problem
from beno.solvers.direct import Direct

SAMPLES = 100
FAMILIES = {
    "Poisson, Dirichlet": Family(),
    "Poisson, Neumann": Family(boundary="neumann"),
    "Darcy, Dirichlet": Family("darcy"),
    "A source as faint as the published sample's, Poisson, Dirichlet": Family(source_amplitude=0.1),
}


def with_nothing_learned(family: Family) -> LearnedOperator:
    torch.manual_seed(0)
    data = Metadata.of_family(family, TRAINING_SEED, 1)
    config = HarmonicConfig.from_settings(HarmonicConfig.settings_for(data.problem_class))
    return LearnedOperator(Header(Harmonic.name, vars(config), Scales(), data), Harmonic(config))


def answers(problem: Problem, kernel: LearnedOperator) -> Iterator[tuple[str, np.ndarray]]:
    solve = Direct().solve
    forced, driven = problem.split()
    yield "the source alone", solve(forced).u
    yield "the walls alone", solve(driven).u
    yield "the harmonic kernel, nothing learned", kernel.predict([problem])[0]
    if problem.law.is_uniform and not problem.operator.leaves_constant_free:  # what the published sample is of
        wrong = with_published_fault(solve(problem)).problem
        yield "exact, with the published sample's walls", solve(wrong).u


def main() -> None:
    figures: dict[str, dict[str, dict[str, list[float]]]] = {}
    for name, family in FAMILIES.items():
        kernel = with_nothing_learned(family)
        for corners, column in COLUMNS.items():
            of_column, errors = replace(family, corners=corners), {}
            for index in range(SAMPLES):
                problem = of_column.problem(testing_seed(of_column), index)
                truth = Direct().solve(problem).u
                for answer, u in answers(problem, kernel):
                    errors.setdefault(answer, []).append(relative_l2(u, truth))
            for answer, values in errors.items():
                mean_and_deviation = [float(np.mean(values)), float(np.std(values))]
                figures.setdefault(name, {}).setdefault(answer, {})[column] = mean_and_deviation
        table = Table(name, *COLUMNS.values())
        for answer, row in figures[name].items():
            table.add_row(answer, *(f"{100 * mean:.1f} ± {100 * deviation:.1f}" for mean, deviation in row.values()))
        Console().print(table)
    seeds = {column: testing_seed(Family(corners=corners)) for corners, column in COLUMNS.items()}
    config = {"samples": SAMPLES, "resolution": 32, "seeds": seeds}
    record("references", config, figures)


if __name__ == "__main__":
    main()
