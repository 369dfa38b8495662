"""Where a benchmark leaves its figures: results/NAME.json, with all that is needed to run it again."""

import json
from pathlib import Path

from beno.support.provenance import provenance

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "results"


def record(name: str, config: dict[str, object], figures: dict[str, object], folder: Path = RESULTS) -> None:
    """``config`` holds every option of the run, the seed among them."""
    path = folder / f"{name}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    entry = {"figures": figures, "config": config} | provenance()
    path.write_text(json.dumps(entry, indent=2, default=str) + "\n")
    print(f"written to {path}")
