"""A small table, its cells, and a queue that fills it in seconds."""

from dataclasses import asdict, replace

from beno.paper.budget import Effort
from beno.paper.queue import Queue
from beno.paper.tables import TABLES

# A table of three models on few columns.
WHOLE = TABLES["darcy_train_4_corners"]


SMALL = replace(WHOLE, rows=WHOLE.rows[:3], columns={name: WHOLE.columns[name] for name in ("4-Corners", "No-Corner")})


FIGURES = {"samples": 2, "relative_l2": 0.1, "relative_l2_deviation": 0.01, "mae": 0.1, "mae_deviation": 0.01}


def facts_of(row, effort):
    """Of a cell, as a queue of such effort would write them."""
    trained = {"model": row.training.model, "settings": effort.settings(row.training), "seed": row.training.seed}
    trained |= {"training": asdict(effort.config(row.training)), "epochs": 2, "best_epoch": 1, "parameters": 9}
    trained |= {"seconds": 3.0, "device_seconds": 3.0, "device": {"cpu": "one", "gpu": None}}
    return {"figures": FIGURES | {"samples": effort.test_samples}, "trained": trained}


def queue_in(folder):
    return Queue(folder / "runs", folder / "results", Effort.least(), "cpu")


def trainings():
    return [row.training for table in TABLES.values() for row in table.rows]
