"""Writes docs/results.md from results/accuracy/*.json: `python docs/results_pages.py`. A test keeps them together."""

import json
from pathlib import Path

from beno.dataset import Metadata
from beno.paper import figure_for

ROOT = Path(__file__).resolve().parent.parent
ACCURACY, PAGE = ROOT / "results" / "accuracy", ROOT / "docs" / "results.md"

INTRODUCTION = """# Results

How far trained operators are off, by the paper's protocol: 810 samples to learn from, 90 to choose the best epoch with,
100 unseen ones a column; relative L2 and mean absolute error, mean ± deviation over samples. Test data are made from
seeds that training never saw, and nothing was chosen by looking at them. The paper's figures (Wang et al., ICLR 2024)
are those of its BENO on its own data, whose published sample has faults ([what was found](data.md)): they stand beside
ours for orientation.

Each table is made from a file in `results/accuracy/`, which has the configuration, the seeds, the commit and the
device; `benchmarks/accuracy.py ROW` does such a run again. (BENO's was put together by hand from its two pieces.)
"""

TITLES = {
    "beno-4-corners": "BENO, trained on 4-Corners",
    "harmonic-mixed": "Harmonic, trained on mixed shapes, Dirichlet",
    "harmonic-4-corners": "Harmonic, trained on 4-Corners, Dirichlet",
    "harmonic-no-corner": "Harmonic, trained on No-Corner, Dirichlet",
    "harmonic-zero": "Harmonic, trained on 4-Corners with g = 0",
    "harmonic-neumann-mixed": "Harmonic, trained on mixed shapes, Neumann",
    "harmonic-neumann-4-corners": "Harmonic, trained on 4-Corners, Neumann",
    "harmonic-darcy-mixed": "Harmonic, trained on mixed shapes, Darcy",
    "harmonic-darcy-4-corners": "Harmonic, trained on 4-Corners, Darcy",
    "harmonic-mixed-kinds": "Harmonic, trained on mixed shapes with mixed kinds of walls",
}


def metadata(family: dict) -> Metadata:
    claims = {name: family[name] for name in ("equation", "boundary", "corners", "resolution")}
    return Metadata(**claims, samples=100, origin="generated")


def table(result: dict) -> str:
    config = result["config"]
    trained = metadata(config["trained_on"])
    lines = ["| tested on | relative L2 | MAE | the paper's relative L2 |", "| --- | --- | --- | --- |"]
    for column, figure in result["figures"].items():
        family = config["tested_on"].get(column)
        paper = figure_for("BENO", trained, metadata(family)) if family else None
        lines.append(
            f"| {column} | {100 * figure['relative_l2']:.2f} ± {100 * figure['relative_l2_deviation']:.2f} % "
            f"| {figure['mae']:.2e} ± {figure['mae_deviation']:.0e} "
            f"| {f'{100 * paper.relative_l2:.1f} ± {100 * paper.relative_l2_deviation:.1f} %' if paper else '-'} |"
        )
    return "\n".join(lines)


def section(name: str, result: dict) -> str:
    config = result["config"]
    device = result["device"].get("gpu") or result["device"].get("cpu")
    facts = (
        f"{config['epochs']} epochs in {config['training_seconds']:.0f} s on one {device}, best at epoch "
        f"{config['best_epoch']}; {config['parameters'] / 1e6:.1f} million weights; seed {config['seed']}."
    )
    return f"## {TITLES[name]}\n\n{facts}\n\n{table(result)}\n"


def zero_shot() -> str:
    result = json.loads((ROOT / "results" / "zero_shot.json").read_text())
    lines = [
        "## Shapes of no family",
        "",
        f"What `{result['config']['weights']}` makes of shapes that it was never shown, with f and g like those it",
        "was, on finer grids: reported, not tuned (`benchmarks/zero_shot.py`).",
        "",
        "| shape | points | panels | relative L2 | MAE |",
        "| --- | --- | --- | --- | --- |",
    ]
    for name, figure in result["figures"].items():
        error = f"{100 * figure['relative_l2']:.1f} ± {100 * figure['relative_l2_deviation']:.1f} %"
        lines.append(f"| {name} | {figure['points']} | {figure['panels']} | {error} | {figure['mae']:.2e} |")
    return "\n".join(lines) + "\n"


def page() -> str:
    results = {path.stem: json.loads(path.read_text()) for path in ACCURACY.glob("*.json")}
    rows = [section(name, results[name]) for name in TITLES if name in results]
    return "\n".join([INTRODUCTION, *rows, zero_shot()])


if __name__ == "__main__":
    PAGE.write_text(page())
