"""A small table, its cells, and a queue that fills it in seconds."""

from dataclasses import asdict, replace

from beno.evaluation.metrics import METRICS, Measured
from beno.paper.budget import Budget
from beno.paper.cells import Cell
from beno.paper.queue import Queue
from beno.paper.tables import TABLES
from beno.paper.trained import Machine, Trained

# A table of three models on few columns.
WHOLE = TABLES["darcy_train_4_corners"]


SMALL = replace(WHOLE, rows=WHOLE.rows[:3], columns={name: WHOLE.columns[name] for name in ("4-Corners", "No-Corner")})
ONE_ROW = replace(SMALL, rows=SMALL.rows[:1])


def figures_of(**means):
    """Figures of a cell: 0.1 unless another mean is given."""
    return {name: Measured(means.get(name, 0.1), 0.01) for name in METRICS}


def cell_of(row, budget, *, predicted=(), figures=None, **of_training):
    """A cell of a row, as a queue with such a budget would write it."""
    training = row.training
    trained = Trained(
        model=training.model,
        settings=budget.settings(training),
        training=asdict(budget.config(training)),
        epochs=2,
        best_epoch=1,
        seconds=3.0,
        device_seconds=3.0,
        parameters=9,
        seed=training.seed,
        device=Machine("one"),
    )
    return Cell(budget.test_samples, figures or figures_of(), replace(trained, **of_training), predicted)


def queue_in(folder, **budget):
    return Queue(folder / "runs", folder / "results", replace(Budget.smallest(), **budget), "cpu")


def trainings():
    return [row.training for table in TABLES.values() for row in table.rows]
