"""Draws the pictures of docs/speed.md from results/: `python docs/speed_pictures.py` writes docs/figures/speed_*."""

import json
from pathlib import Path

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import LogLocator, NullLocator

from beno.evaluation.plotting import save

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "docs" / "figures"
OPERATORS = {
    "Poisson, ring": "Poisson",
    "Darcy, contrast 10, ring": "Darcy, smooth κ, contrast 10",
    "Darcy, chequerboard of 100, ring": "Darcy, chequerboard, contrast 100",
}
DEVICES = {"cuda": "one H200", "cpu": "one CPU core"}
METHODS = {  # of benchmarks/speed.py, with labels and colours; SuperLU and PyAMG have one core of the host
    "direct (SuperLU, one core)": ("direct (SuperLU, one core)", "#000000"),
    "multigrid (PyAMG, one core)": ("multigrid (PyAMG, one core)", "#7f7f7f"),
    "capacitance": ("capacitance matrix", "#0072b2"),
    "gradients, by the box": ("gradients, by the box", "#56b4e9"),
    "gradients, by the capacitance": ("gradients, by the capacitance", "#009e73"),
    "GMRES, by the learned operator": ("GMRES, by the learned operator", "#e69f00"),
    "learned operator alone": ("learned operator alone", "#d55e00"),
}
GRIDS = {"64": "o", "128": "s", "256": "^", "512": "D"}
MANY = 1000


def seconds(entry: dict, rows: int) -> float:
    """For each right-hand side, with its share of the preparing."""
    solving = 1e-3 * entry["one_ms"] if rows == 1 else 1e-6 * entry.get("many_us", 1e3 * entry["one_ms"])
    return 1e-3 * entry["prepare_ms"] / rows + solving


def error_against_time(rows: int, title: str) -> Figure:
    """One panel for each device and operator, all on one scale."""
    figure, panels = plt.subplots(
        len(DEVICES), len(OPERATORS), figsize=(11.5, 7.6), sharex=True, sharey=True, layout="constrained"
    )
    for line, (device, name_of_device) in zip(panels, DEVICES.items(), strict=True):
        sizes = json.loads((ROOT / "results" / f"speed_{device}.json").read_text())["figures"]["one_shape"]
        for axes, (operator, name) in zip(line, OPERATORS.items(), strict=True):
            for method, (_, colour) in METHODS.items():
                _draw(
                    axes, {size: cases.get(operator, {}).get(method, {}) for size, cases in sizes.items()}, rows, colour
                )
            axes.set_title(f"{name_of_device}: {name}", fontsize="medium")
            axes.grid(alpha=0.3)
            axes.axhline(1e-8, color="0.4", linewidth=0.8, linestyle="dotted")
    for axes in panels[:, 0]:
        axes.set(ylabel="relative L2 error, of the scheme", yscale="log", ylim=(1e-18, 30))
        axes.yaxis.set_major_locator(LogLocator(numticks=10))
        axes.yaxis.set_minor_locator(NullLocator())
    for axes in panels[-1]:
        axes.set(xlabel="seconds a right-hand side", xscale="log")
    _legend(figure)
    figure.suptitle(title)
    return figure


def _draw(axes: Axes, entries: dict[str, dict], rows: int, colour: str) -> None:
    found = {size: entry for size, entry in entries.items() if "one_ms" in entry}
    times = [seconds(entry, rows) for entry in found.values()]
    errors = [entry["error"] for entry in found.values()]
    axes.plot(times, errors, color=colour, linewidth=1)
    for size, time, error in zip(found, times, errors, strict=True):
        axes.plot(time, error, GRIDS[size], color=colour, markersize=6)


def _legend(figure: Figure) -> None:
    methods = [Line2D([], [], color=colour, label=label, linewidth=2) for label, colour in METHODS.values()]
    grids = [Line2D([], [], color="0.3", marker=marker, label=f"{size}²", ls="") for size, marker in GRIDS.items()]
    asked = Line2D([], [], color="0.4", ls="dotted", label="tolerance of the residual, 1e-8")
    figure.legend(handles=[*methods, asked, *grids], loc="outside lower center", ncols=3, frameon=False)


def main() -> None:
    one = "One right-hand side, with the time to prepare"
    many = "One of a thousand right-hand sides of one operator, with its share of the time to prepare"
    for name, rows, title in (("speed_one", 1, one), ("speed_many", MANY, many)):
        for kind in ("svg", "png"):
            save(error_against_time(rows, title), FOLDER / f"{name}.{kind}")


if __name__ == "__main__":
    main()
