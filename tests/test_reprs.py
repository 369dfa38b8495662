"""Whatever a user prints says in one line what it is; arrays are counted, not listed."""

import numpy as np
import pytest

from beno.batches.interchange import graphs
from beno.datasets.dataset import Dataset
from beno.datasets.doctor import diagnose, examine
from beno.datasets.hdf5 import Block
from beno.datasets.metadata import Metadata
from beno.datasets.published import PublishedSet
from beno.datasets.records import Record
from beno.datasets.scales import Scales
from beno.geometry.bare_panels import BarePanels
from beno.geometry.corners import wall_ends
from beno.models.registry import names
from beno.paper.tables import TABLES
from beno.problems.families import Family
from beno.problems.fields import FIELDS
from beno.problems.right_hand_side import RightHandSide
from beno.solvers.box import Box, box_of
from beno.solvers.direct import Direct
from beno.solvers.finite_volumes import assemble
from beno.solvers.gauss_seidel import GaussSeidel
from beno.solvers.multigrid import Multigrid
from beno.solvers.potential import SourcePotential
from tests.datasets.samples import stored
from tests.learning import batches_for, small_model
from tests.strategies import annulus, disc, random_problem

FAMILY = Family("darcy", "mixed", resolution=16)
PROBLEM = random_problem(annulus(16), "darcy", "mixed", 0)
OPERATOR, DOMAIN, WALLS = PROBLEM.operator, PROBLEM.domain, PROBLEM.walls
SOLUTION = Direct().solve(PROBLEM)
RECORD = Record.of(SOLUTION)
METADATA = Metadata.of_family(FAMILY, 0, 1)
POTENTIAL = SourcePotential(OPERATOR)

PRINTED = (
    *(DOMAIN, DOMAIN.panels, BarePanels.from_panels(*disc())),
    wall_ends(DOMAIN.panels, WALLS.kind, WALLS.slope_weight),
    *(OPERATOR, PROBLEM.law, WALLS, PROBLEM.right, RightHandSide.stack([PROBLEM.right] * 3), PROBLEM, SOLUTION),
    *(SOLUTION.report, FAMILY, FAMILY.problem_class, FIELDS[0], METADATA, Scales(), RECORD),
    *(Block.pack([RECORD]), PublishedSet(METADATA, [RECORD], []), diagnose(RECORD), examine([RECORD])),
    *(assemble(OPERATOR), Direct(), Multigrid(), GaussSeidel(), Box()),
    *(solver.prepare(OPERATOR) for solver in (Direct(), Multigrid(), GaussSeidel())),
    *(Box().prepare(box_of(OPERATOR)), POTENTIAL, POTENTIAL.read_off, POTENTIAL(PROBLEM.f)),
)


@pytest.mark.parametrize("printed", PRINTED, ids=lambda printed: type(printed).__name__)
def test_what_is_printed_is_one_short_line(printed):
    said = repr(printed)
    assert said.startswith(type(printed).__name__) and "\n" not in said and len(said) < 300
    assert "array(" not in said or np.size(getattr(printed, "misfit", ())) == 4  # a diagnosis has four numbers


@pytest.mark.parametrize("name", names())
def test_models_and_what_they_are_fed_are_printed_in_one_line(name):
    model = small_model(name)
    batches = batches_for(model, [SOLUTION])
    for printed in (model, model.config, batches, batches.batch()):
        said = repr(printed)
        assert said.startswith(type(printed).__name__) and "\n" not in said and "tensor(" not in said


@pytest.mark.parametrize("table", TABLES.values(), ids=lambda table: table.name)
def test_tables_are_printed_in_one_line(table):
    assert len(repr(table)) < 100 and len(repr(table.rows[0])) < 200


def test_a_dataset_is_printed_with_its_name(tmp_path):
    with Dataset(stored(tmp_path / "data.h5", FAMILY, [Direct().solve(FAMILY.problem(0, 0))] * 2)) as dataset:
        assert repr(graphs(dataset, "train")) == f"Graphs(2 of {dataset!r})"
        assert repr(dataset) == f"Dataset('{tmp_path / 'data.h5'}': 2 samples, darcy, mixed boundary)"
