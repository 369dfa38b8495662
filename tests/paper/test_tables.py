"""The paper's tables, complete as data; test data are never training data."""

import json

from beno.models.registry import model_class
from beno.paper import reported as paper
from beno.paper.tables import TABLES
from tests.paper.small import trainings


def test_every_cell_of_the_paper_has_its_place():
    for name, rows in paper.tables().items():
        table = TABLES[name]
        labels = {row.paper_label for row in table.rows if row.paper_label}
        assert labels == set(rows), name
        for columns in rows.values():
            assert set(columns) == set(table.columns), name
    for table in TABLES.values():
        assert any(row.training.model == "harmonic" for row in table.rows), table.name
        for row in table.rows:
            training = row.training
            model_class(training.model).Config.from_settings(training.settings)
            equation = {family.equation for family in table.columns.values()}
            assert equation == {training.family.equation}
    assert len({training.name for training in trainings()}) == len(set(trainings()))


def test_test_data_are_never_training_data(filled):
    for path in (filled / "results").rglob("*--*.json"):
        cell = json.loads(path.read_text())
        assert cell["tested_on"]["seed"] >= 100
    data = {path.name for path in (filled / "runs" / "data").glob("*.h5")}
    assert data == {"darcy-dirichlet-4-8-0.h5", "darcy-dirichlet-4-8-104.h5", "darcy-dirichlet-0-8-100.h5"}
