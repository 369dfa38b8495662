"""Small solved problems, models and operators for the tests of what learns."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache

import numpy as np
import torch

from beno.batches.augmentation import Augmentation
from beno.batches.base import Batch, Batches, Posed
from beno.batches.graph_inputs import GraphKind
from beno.batches.graphs import GraphBatches
from beno.datasets.metadata import Metadata
from beno.datasets.scales import Scales
from beno.learned.checkpoints import Header
from beno.learned.operator import LearnedOperator
from beno.models.base import Model
from beno.models.registry import model_class
from beno.problems.families import Family
from beno.problems.problem import poisson
from beno.problems.solution import Solution
from beno.solvers.direct import Direct
from tests.strategies import annulus


def solutions_of(count: int = 5, resolution: int = 8, **choices: object) -> list[Solution]:
    """Of a family with all numbers of corners, unless told otherwise."""
    family = Family(resolution=resolution, **({"corners": "mixed"} | choices))
    return [Direct().solve(family.problem(2, index)) for index in range(count)]


def solution_with_hole(resolution: int = 8) -> Solution:
    return Direct().solve(poisson(annulus(resolution), f=1.0, g=lambda x, y: np.sin(9 * x) + y))


def with_values(solution: Solution, **values: np.ndarray) -> Solution:
    """The same with some arrays replaced, by their names in `fields`; it solves no problem any more."""
    return Solution.from_values(solution.problem.domain, solution.values | values)


def batches_of(posed: Sequence[Posed], nearest: int = 8) -> GraphBatches:
    return GraphBatches.of(posed, Scales.fit(posed), GraphKind(nearest))


def small_model(
    name: str, family: Family | None = None, seed: int = 0, noise: float = 0.1, **settings: object
) -> Model:
    """Of a size that runs in moments, told what the family asks for; noise moves weights that begin at zero or one."""
    network = model_class(name)
    told = network.Config.settings_for((family or Family()).problem_class)
    torch.manual_seed(seed)
    model = network(network.Config.from_settings({**told, **network.small, **settings}))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(noise * torch.randn_like(parameter))
    return model.eval()


def batches_for(
    model: Model, posed: Sequence[Posed], scales: Scales | None = None, augmentation: Augmentation | None = None
) -> Batches[Batch]:
    return model.batches(posed, scales or Scales(), model.config, augmentation=augmentation)


def operator_of(model: Model, family: Family | None = None, scales: Scales | None = None) -> LearnedOperator:
    """As if the model had been trained on the family."""
    data = Metadata.of_family(replace(family or Family(), resolution=8), 0, 1)
    return LearnedOperator(Header(model.name, asdict(model.config), scales or Scales(), data), model)


@cache
def harmonic_operator(equation: str = "poisson", boundary: str = "dirichlet", seed: int = 0) -> LearnedOperator:
    """A harmonic operator with random weights everywhere, far from those with which it begins."""
    family = Family(equation, boundary, resolution=8)
    return operator_of(small_model("harmonic", family, seed, noise=0.3), family, Scales(solution=0.7))
