"""What each solver costs, by a model fitted to the measurements of benchmarks/speed.py: what beno.solve chooses by.

`python benchmarks/solver_costs.py` reads results/speed_cpu.json and results/speed_cuda.json, fits ``a cells**p`` for
preparing and ``b cells**q`` for a right-hand side by least squares in logarithms, and writes results/solver_costs.json.
What one right-hand side takes beyond that is the launch. The numbers stand in src/beno/learned/costs.py, which a test
compares with the file. `compared` tells how good the choices made by them would have been in the measured cases.
"""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass

import numpy as np
from record import RESULTS, record
from rich.console import Console
from rich.table import Table
from speed import operators

from beno.learned.choice import choose
from beno.learned.costs import Cost

DEVICES = ("cpu", "cuda")
MEASURED_AS = {
    "direct": "direct (SuperLU, one core)",
    "multigrid": "multigrid (PyAMG, one core)",
    "capacitance": "capacitance",
    "gradients": "gradients, by the box",
    "capacitance-gradients": "gradients, by the capacitance",
}
CONSTANT, SMOOTH = "Poisson", "Darcy, contrast 10"
LAWS = {"capacitance": (CONSTANT,), "capacitance-gradients": (SMOOTH,)}  # of which a method is fitted; else to both
NUMBERS_OF_ROWS = (1, 10, 1000)
DIGITS = 2


def measured(device: str) -> dict[str, dict]:
    """By grid, operator and method; PyAMG, which the GPU's machine did not have, as on the CPU."""
    sizes: dict[str, dict] = json.loads((RESULTS / f"speed_{device}.json").read_text())["figures"]["one_shape"]
    if device == "cuda":
        multigrid = MEASURED_AS["multigrid"]
        on_cpu = measured("cpu")
        for size, cases in sizes.items():
            for name, methods in cases.items():
                methods[multigrid] = on_cpu.get(size, {}).get(name, {}).get(multigrid, {})
    return sizes


def fitted(device: str) -> dict[str, Cost]:
    return {method: fitted_to(entries_of(method, device)) for method in MEASURED_AS}


def entries_of(method: str, device: str) -> list[tuple[int, dict]]:
    """Cells of the box, and what was measured there."""
    source = measured("cpu" if method == "multigrid" else device)
    return [
        (int(size) ** 2, methods[MEASURED_AS[method]])
        for size, cases in source.items()
        for name, methods in cases.items()
        if name.startswith(LAWS.get(method, (CONSTANT, SMOOTH))) and "many_us" in methods.get(MEASURED_AS[method], {})
    ]


def fitted_to(entries: list[tuple[int, dict]]) -> Cost:
    cells = np.array([one for one, _ in entries])
    prepare, one, many, count = (
        np.array([entry[key] for _, entry in entries]) for key in ("prepare_ms", "one_ms", "many_us", "many")
    )
    row = power_law(cells, 1e-6 * many)
    beyond = 1e-3 * one - row[0] * cells ** row[1]
    launch = float(np.median(beyond)) if count.min() > 1 else 0.0
    return Cost(power_law(cells, 1e-3 * prepare), row, rounded(max(launch, 0.0)))


def power_law(cells: np.ndarray, seconds: np.ndarray) -> tuple[float, float]:
    """The fit ``factor cells**power``: first the power, then the factor that goes with the power as it is written."""
    power = round(float(np.polyfit(np.log(cells), np.log(seconds), 1)[0]), DIGITS)
    return rounded(float(np.exp(np.mean(np.log(seconds) - power * np.log(cells))))), power


def rounded(number: float) -> float:
    return float(f"{number:.{DIGITS}g}")


@dataclass(frozen=True)
class Compared:
    """What was chosen for a measured case, and how much longer it took than the quickest."""

    device: str
    resolution: int
    operator: str
    rows: int
    chosen: str
    quickest: str
    times_the_quickest: float  # infinite, where the chosen method failed


def compared() -> Iterator[Compared]:
    for device in DEVICES:
        for size, cases in measured(device).items():
            posed = operators(int(size))
            for name, methods in cases.items():
                for rows in NUMBERS_OF_ROWS:
                    seconds = {
                        method: seconds_of(methods[key], rows)
                        for method, key in MEASURED_AS.items()
                        if "one_ms" in methods.get(key, {})
                    }
                    chosen, quickest = choose(posed[name], rows, device)[0], min(seconds, key=lambda m: seconds[m])
                    if not methods.get(MEASURED_AS[chosen]):
                        continue  # not measured
                    over = seconds.get(chosen, np.inf) / seconds[quickest]
                    yield Compared(device, int(size), name, rows, chosen, quickest, over)


def seconds_of(entry: dict, rows: int) -> float:
    """To prepare and to solve; one by one, where no more were measured."""
    each = 1e-3 * entry["one_ms"]
    return 1e-3 * entry["prepare_ms"] + (
        each if rows == 1 else max(each, rows * 1e-6 * entry.get("many_us", 1e6 * each))
    )


def main() -> None:
    console = Console()
    costs = {device: fitted(device) for device in DEVICES}
    table = Table("device", "method", "prepare: a", "p", "a right-hand side: b", "q", "launch, s")
    for device, methods in costs.items():
        for method, cost in methods.items():
            table.add_row(device, method, *(f"{one:g}" for one in (*cost.prepare, *cost.row, cost.launch)))
    console.print(table)
    record(
        "solver_costs", {}, {device: {m: asdict(c) for m, c in methods.items()} for device, methods in costs.items()}
    )
    cases = list(compared())
    far = [case for case in cases if case.times_the_quickest > 1.5]
    console.print(
        f"{len(cases) - len(far)} of {len(cases)} choices by costs.py take at most 1.5 times the quickest's time"
    )
    for case in far:
        console.print(case)


if __name__ == "__main__":
    main()
