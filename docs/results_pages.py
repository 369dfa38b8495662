"""Writes docs/results/ from results/: `python docs/results_pages.py`. A test keeps them together."""

import json
from pathlib import Path

from beno.experiments.cells import Cells
from beno.experiments.pages import pages as table_pages
from beno.experiments.tables import TABLES

ROOT = Path(__file__).resolve().parent.parent
RESULTS, FOLDER = ROOT / "results", ROOT / "docs" / "results"


def result(name: str) -> dict:
    return json.loads((RESULTS / f"{name}.json").read_text())


def device_of(entry: dict) -> str:
    return entry["device"]["gpu"] or entry["device"]["cpu"]


def table(head: list[str], rows: list[list[str]]) -> list[str]:
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return [*lines, ""]


def zero_shot() -> str:
    entry = result("zero_shot")
    rows = []
    for name, figure in entry["figures"].items():
        error = f"{100 * figure['relative_l2']:.1f} ± {100 * figure['relative_l2_deviation']:.1f}"
        rows.append([name, str(figure["points"]), str(figure["panels"]), error, f"{1000 * figure['mae']:.2f}"])
    lines = [
        "# Shapes of no family",
        "",
        f"What `{entry['config']['weights']}`, trained at 32² on squares with cut corners, makes of shapes that it was",
        f"never shown, with f and g like those it was: {entry['config']['samples']} problems each. Reported, not tuned",
        "(`benchmarks/zero_shot.py`).",
        "",
        *table(["shape", "points", "panels", "relative L2, %", "MAE, thousandths"], rows),
    ]
    return "\n".join(lines)


def harmonic_speed() -> str:
    entry = result("harmonic_speed")
    figures = entry["figures"]
    batch = figures["inference"]
    lines = [
        "# Speed of the harmonic operator, beside classical solvers",
        "",
        f"One run of `benchmarks/harmonic_speed.py` on one {device_of(entry)}, host {entry['device']['cpu']} "
        f"({entry['device']['cores']} cores). The operator runs on the GPU, the classical solvers on the host, on one core.",
        "",
        "## Training",
        "",
        *table(
            ["points of each sample", "ms a sample", "peak memory, GiB"],
            [[str(row["points"]), f"{row['ms_a_sample']:.3f}", f"{row['peak_gib']:.2f}"] for row in figures["training"]],
        ),
        f"## {batch['problems']} different problems at 32² in one batch",
        "",
        *table(
            ["", "ms a problem"],
            [
                ["the operator, problems on the device", f"{batch['ms_a_problem']:.4f}"],
                ["preparing them on the host: potentials, walls", f"{batch['host_preparation_ms_a_problem']:.2f}"],
                ["making and solving them on the host, sparse direct", f"{batch['making_and_solving_ms_a_problem']:.2f}"],
            ],
        ),
        f"Their mean error is {100 * batch['relative_l2']:.2f} %; peak memory {batch['peak_gib']:.1f} GiB.",
        "",
        "## One unseen shape, and then many right-hand sides",
        "",
        "Milliseconds. *assemble* is the operator's matrix for the shape, *a right-hand side* one of a thousand on it;",
        "*direct* is SciPy's sparse factorisation and one solve, *cached* a solve with it, *multigrid* PyAMG to 1e-10.",
        "",
    ]
    rows = []
    for row in figures["shapes"]:
        times = [row[name] for name in ("assemble_ms", "right_hand_side_ms", "direct_ms", "cached_factorisation_ms")]
        grid = f"{row['resolution']}² ({row['points']} points, {row['panels']} panels)"
        amg = f"{row['multigrid_ms']:.1f}" if "multigrid_ms" in row else "-"
        error, peak = f"{100 * row['relative_l2']:.2f}", f"{row['peak_gib']:.2f}"
        rows.append([grid, *(f"{time:.3g}" for time in times), amg, error, peak])
    head = ["grid", "assemble", "a right-hand side", "direct", "cached", "multigrid", "operator's error, %", "peak, GiB"]
    return "\n".join([*lines, *table(head, rows)])


def beno_speed() -> str:
    entry = result("beno_speed")
    figures = entry["figures"]
    rows = []
    for row in figures["rows"]:
        ratio = figures["authors_train_ms"] / row["train_ms"], figures["authors_infer_ms"] / row["infer_ms"]
        rows.append(
            [row["variant"], str(row["batch_size"]), f"{row['train_ms']:.2f} ({ratio[0]:.0f}×)"]
            + [f"{row['infer_ms']:.3f} ({ratio[1]:.0f}×)", f"{row['train_gflop']:.0f}", f"{row['train_megabytes']:.0f}"]
            + [f"{row['floor_ms']:.2f}", f"{row['peak_gib']:.1f}"]
        )
    head = ["model", "batch", "train, ms", "infer, ms", "GFLOP", "MB", "floor, ms", "peak, GiB"]
    lines = [
        "# Speed of BENO",
        "",
        f"One run of `benchmarks/beno_speed.py` on one {device_of(entry)}, a 4-Corners sample at 32². In brackets how",
        f"many times faster than the authors' code there ({figures['authors_train_ms']} ms to train, "
        f"{figures['authors_infer_ms']} ms to infer). The floor is what the step's products (GFLOP) or the least bytes",
        "(MB) take at the speed of a large product and a large copy, measured in the same run: "
        f"{figures['product_flops'] / 1e12:.0f} TFLOP/s and {figures['copy_bytes_a_second'] / 1e12:.1f} TB/s.",
        "",
        *table(head, rows),
    ]
    return "\n".join(lines)


def pages() -> dict[str, str]:
    """By file, all but the introduction, which is written by hand."""
    texts = table_pages(Cells(RESULTS / "tables"), list(TABLES.values()))
    return texts | {"zero_shot.md": zero_shot(), "harmonic_speed.md": harmonic_speed(), "beno_speed.md": beno_speed()}


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
