"""Writes docs/results/ from results/, and the tables of docs/speed.md: `python docs/results_pages.py`.

A test keeps them together.
"""

import json
import re
from pathlib import Path

from beno.paper.cells import Cells
from beno.paper.pages import pages as table_pages
from beno.paper.reported import COLUMNS
from beno.paper.tables import TABLES

ROOT = Path(__file__).resolve().parent.parent
RESULTS, FOLDER = ROOT / "results", ROOT / "docs" / "results"
SPEED = ROOT / "docs" / "speed.md"


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


def number(entry: dict, name: str, factor: float = 1.0) -> str:
    """Three digits of it, if it was measured."""
    return "-" if entry.get(name) is None else f"{factor * entry[name]:.3g}"


def harmonic_speed() -> str:
    entry = result("harmonic_speed")
    figures, device = entry["figures"], entry["device"]
    batch = figures["inference"]
    shapes = [
        [f"{row['resolution']}²", str(row["points"]), str(row["panels"])]
        + [number(row, name) for name in SHAPE_COLUMNS]
        + [number(row, "relative_l2", 100)]
        for row in figures["shapes"]
    ]
    steps = [[str(row["points"]), number(row, "ms_a_sample"), number(row, "peak_gib")] for row in figures["training"]]
    lines = [
        "# Speed of the harmonic operator, beside classical solvers",
        "",
        f"`benchmarks/harmonic_speed.py` on one {device_of(entry)} (host: {device['cpu']}, {device['cores']} cores).",
        "The operator runs on the GPU, classical solvers on one core of the host. " + entry.get("note", ""),
        "",
        "## Training, in batches of 16 at 32²",
        "",
        *table(["points of each sample", "ms a sample", "peak memory, GiB"], steps),
        f"## {batch['problems']} different problems at 32² in one batch",
        "",
        *table(["", "ms a problem"], [[name, number(batch, key)] for key, name in BATCH_ROWS.items()]),
        f"Peak memory of the batch: {number(batch, 'peak_gib')} GiB.",
        "",
        "## One unseen shape, and then many right-hand sides",
        "",
        "Milliseconds, GiB and percent. *assemble* makes the operator's matrix for the shape, *a right-hand side* is",
        "one of a thousand on it; *direct* is SciPy's sparse factorisation and one solve, *cached* a solve with it",
        "again, *multigrid* PyAMG.",
        "",
        *table(["grid", "points", "panels", *SHAPE_COLUMNS.values(), "operator's error"], shapes),
        *coarse_grids(),
    ]
    return "\n".join(lines)


def coarse_grids() -> list[str]:
    entry = result("coarse_grids")
    rows = [
        [f"{row['resolution']}²", f"{row['solved_at']}²"]
        + [number(row, name) for name in ("direct_ms", "read_off_ms")]
        + [number(row, "relative_l2", 100)]
        for row in entry["figures"]["rows"]
    ]
    return [
        "## The same shapes by a direct solver on a coarser grid",
        "",
        "Where a few percent do, this is what the operator is to be measured by: milliseconds on one core of",
        f"{device_of(entry)}, to solve and to read off between the cells, and the error in percent",
        "(`benchmarks/harmonic_speed.py --coarser`).",
        "",
        *table(["grid", "solved at", "direct", "reading off", "error"], rows),
    ]


BATCH_ROWS = {
    "ms_a_problem": "the operator, on problems prepared on the device",
    "host_preparation_ms_a_problem": "preparing them on the host: potentials, walls",
    "making_and_solving_ms_a_problem": "drawing and solving them on the host, sparse direct",
}
SHAPE_COLUMNS = {
    "assemble_ms": "assemble",
    "from_mask_ms": "from the mask on",
    "right_hand_side_ms": "a right-hand side",
    "direct_ms": "direct",
    "cached_factorisation_ms": "cached",
    "multigrid_ms": "multigrid",
    "peak_gib": "peak memory",
}


def beno_speed() -> str:
    entry = result("beno_speed")
    figures = entry["figures"]
    rows = []
    for row in figures["rows"]:
        times = [
            f"{row[name]:.3g} ({figures[f'authors_{name}'] / row[name]:.0f} times)" for name in ("train_ms", "infer_ms")
        ]
        counts = [number(row, name) for name in ("train_gflop", "train_megabytes", "floor_ms")]
        counts += [f"{row['train_ms'] / row['floor_ms']:.1f}", number(row, "peak_gib")]
        rows.append([row["variant"], str(row["batch_size"]), *times, *counts])
    head = ["model", "batch", "train, ms", "infer, ms", "GFLOP", "MB", "floor, ms", "times the floor", "peak, GiB"]
    lines = [
        "# Speed of BENO",
        "",
        f"`benchmarks/beno_speed.py` on one {device_of(entry)}, a 4-Corners sample at 32². In brackets how many times",
        "faster than the authors' code there, which takes "
        f"{figures['authors_train_ms']} ms to train and {figures['authors_infer_ms']} ms to infer.",
        "The floor is what the step's products (GFLOP) or its least bytes (MB) take at the speed of a large",
        "product and of a large copy, whichever is longer, if no two layers are fused. Inference is in batches of 100 "
        "whatever the batch of training. " + figures.get("note", "").capitalize(),
        "",
        *table(head, rows),
    ]
    return "\n".join(lines)


def cpu_training() -> str:
    entry = result("cpu_training")
    rows = [
        [
            model,
            *(f"{row['single, whole'] / row[way]:.1f}" for way in ("half, whole", "half, pieces")),
            number(row, "over_fno"),
        ]
        for model, row in entry["figures"].items()
    ]
    lines = [
        "# Training on a CPU",
        "",
        f"One core of {device_of(entry)}, 4-Corners at 32², batches of 16 (`benchmarks/cpu_training.py`): how many",
        "times faster an epoch is in half precision than in single, then also with the batch in pieces that stay in",
        "the cache, which is how `beno train` does it; and how long that epoch takes over FNO's.",
        "",
        *table(["model", "half precision", "and in pieces", "epoch, over FNO's"], rows),
    ]
    return "\n".join(lines)


def references() -> str:
    entry = result("references")
    lines = [
        "# What parts of an answer are worth",
        "",
        "To read trained models by: relative L2 in percent, mean ± deviation, on the tables' own"
        f" {entry['config']['samples']} test samples",
        "a column (`benchmarks/references.py`). *The source alone* is the exact solution with g = 0, *the walls alone*",
        "that with f = 0: a model near the first has learned nothing of g, and one that knows both must be well below",
        "either. The kernel is what the [harmonic operator](../harmonic.md) knows before it is trained; the source it",
        "has exactly. The last row of two tables is an exact solver that is given the",
        "[wrong walls](published_fault.md) of the published sample.",
        "",
    ]
    for family, answers in entry["figures"].items():
        rows = [
            [answer, *(f"{100 * mean:.1f} ± {100 * deviation:.1f}" for mean, deviation in row.values())]
            for answer, row in answers.items()
        ]
        lines += [f"## {family} walls", "", *table(["", *COLUMNS.values()], rows)]
    return "\n".join(lines)


METHODS = {  # of benchmarks/speed.py, by the names that beno.solve has for them
    "direct (SuperLU, one core)": "direct",
    "multigrid (PyAMG, one core)": "multigrid",
    "capacitance": "capacitance",
    "gradients, by the box": "gradients",
    "gradients, by the capacitance": "capacitance-gradients",
    "GMRES, by the learned operator": "preconditioned",
    "learned operator alone": "learned",
}
DEVICES = {"cuda": "H200", "cpu": "one core"}
ALONE = "learned operator alone"
MANY = 1000  # right-hand sides


def seconds(entry: dict, rows: int) -> float:
    """To prepare, and to solve for one right-hand side or for many."""
    solving = entry["one_ms"] if rows == 1 else rows * entry.get("many_us", 1000 * entry["one_ms"]) / 1000
    return (entry["prepare_ms"] + solving) / 1000


def in_words(time: float) -> str:
    """Seconds, in a unit that suits them."""
    unit, factor = next((u, f) for u, f in (("s", 1), ("ms", 1e3), ("µs", 1e6)) if time * f >= 1 or u == "µs")
    return f"{time * factor:.3g} {unit}" if time * factor < 1000 else f"{time * factor:.0f} {unit}"


def cases(device: str) -> dict[str, dict[str, dict]]:
    """What was measured with one operator and many right-hand sides: by grid and operator."""
    sizes = result(f"speed_{device}")["figures"]["one_shape"]
    return {f"{size}²": operators for size, operators in sizes.items()}


def speed_of_methods(device: str, operator: str) -> list[str]:
    """Preparing, one of many right-hand sides, and the error, for every method and grid."""
    grids = [grid for grid, operators in cases(device).items() if operator in operators]
    rows = []
    for name, label in METHODS.items():
        entries = [cases(device)[grid][operator].get(name, {}) for grid in grids]
        if any("one_ms" in entry for entry in entries):
            rows.append([label, *(_prepare_and_solve(entry) for entry in entries), _errors(entries)])
    return table(["method", *grids, "error"], rows)


def _prepare_and_solve(entry: dict) -> str:
    if "one_ms" not in entry:
        return "missed" if "tolerance" in entry.get("refused", "") else "-"
    each = entry.get("many_us", 1000 * entry["one_ms"]) / 1e6
    return f"{in_words(entry['prepare_ms'] / 1000)} + {in_words(each)}"


def _errors(entries: list[dict]) -> str:
    largest = max(entry["error"] for entry in entries if "error" in entry)
    return f"{100 * largest:.0f} %" if largest > 0.01 else f"{largest:.0e}"


def in_short(operator: str) -> str:
    """So that two methods fit beside it."""
    return operator.replace("contrast 10", "smooth κ").replace(" of 100", "").removeprefix("Darcy, ")


def quickest(device: str) -> list[str]:
    """Of the methods that meet the tolerance, with the time to prepare."""
    rows = []
    for grid, operators in cases(device).items():
        for operator, methods in operators.items():
            exact = {name: entry for name, entry in methods.items() if name != ALONE and "one_ms" in entry}
            row = [in_short(operator), grid]
            for count in (1, MANY):
                times = {METHODS[name]: seconds(entry, count) for name, entry in exact.items()}
                best, *others = sorted(times, key=lambda method: times[method])
                second = f" ({in_words(times[others[0]])})" if others else ""
                row.append(f"{best}, {in_words(times[best])}{second}")
            rows.append(row)
    return table(["operator", "grid", "one right-hand side", "a thousand"], rows)


def growth() -> list[str]:
    """The powers of the number of cells along a side."""
    costs = result("solver_costs")["figures"]
    rows = []
    for method in costs["cuda"]:
        powers = [costs[device][method][part][1] for device in DEVICES for part in ("prepare", "row")]
        rows.append([f"`{method}`", *(f"N^{2 * power:.1f}" for power in powers)])
    head = [f"{device}: {part}" for device in DEVICES.values() for part in ("prepare", "a right-hand side")]
    return table(["method", *head], rows)


def different_shapes() -> list[str]:
    rows = []
    for device, label in DEVICES.items():
        for size, row in result(f"speed_{device}")["figures"]["many_shapes"].items():
            times = [row[key] for key in ("on_the_device_us", "with_the_host_us", "superlu_us")]
            rate = f"{1e6 / times[0]:.3g}" if times[0] > 1000 else f"{1e3 / times[0]:.3g} thousand"
            rows.append([label, f"{size}²", str(row["problems"]), rate, *(in_words(time / 1e6) for time in times)])
    head = [
        "device",
        "grid",
        "problems",
        "a second",
        "a problem",
        "with its setting up",
        "SuperLU, one core of the host",
    ]
    return table(head, rows)


def speed_tables() -> dict[str, list[str]]:
    """Of docs/speed.md, by their names there."""
    found = {"different shapes": different_shapes(), "growth": growth()}
    for device, label in DEVICES.items():
        found[f"quickest, {label}"] = quickest(device)
        for operator in ("Poisson, ring", "Darcy, contrast 10, ring", "Darcy, chequerboard of 100, ring"):
            found[f"{operator}, {label}"] = speed_of_methods(device, operator)
    return found


def with_tables(text: str, tables: dict[str, list[str]]) -> str:
    """The page with what stands between <!-- table: NAME --> and <!-- end --> made anew."""

    def made(found: re.Match[str]) -> str:
        return "\n".join([found[1], "", *tables[found[2]], "<!-- end -->"])

    return re.sub(r"(<!-- table: (.*?) -->)\n.*?<!-- end -->", made, text, flags=re.DOTALL)


def pages() -> dict[str, str]:
    """By file, all but the introduction, which is written by hand."""
    texts = table_pages(Cells(RESULTS / "tables"), list(TABLES.values()))
    of_benchmarks = (zero_shot, harmonic_speed, beno_speed, cpu_training, references)
    return texts | {f"{page.__name__}.md": page() for page in of_benchmarks}


if __name__ == "__main__":
    for name, text in pages().items():
        (FOLDER / name).write_text(text)
    SPEED.write_text(with_tables(SPEED.read_text(), speed_tables()))
