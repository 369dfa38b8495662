"""Where the learned operator wins as a preconditioner: against the exact solvers, at equal residual, on one device.

`python benchmarks/preconditioner.py [--device cuda]` writes results/preconditioner_cpu.json or _cuda.json. For Poisson,
for a smooth kappa of contrast 10 and for a chequerboard of contrast 100, on three shapes of several grids, every method
prepares once and solves 1, 16 and 256 right-hand sides to a relative residual of 1e-8. Of each case and number of
right-hand sides the quickest is named, with the time to prepare and without. SuperLU and PyAMG have one core of the
host, on whatever device the others are.
"""

import argparse
from time import perf_counter

import numpy as np
import torch
from record import record
from rich.console import Console
from rich.table import Table
from speed import timed

from beno.geometry.gallery import SHAPES
from beno.geometry.grid import Domain
from beno.learned import shipped
from beno.learned.preconditioned import Preconditioned
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.right_hand_side import RightHandSide
from beno.solvers.base import Solver
from beno.solvers.device.capacitance import Capacitance
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.direct import Direct
from beno.solvers.multigrid import Multigrid
from beno.support.errors import BenoError

TOLERANCE = 1e-8
ROWS = (1, 16, 256)
LEARNED = "learned"  # as the names of its methods begin
SQUARES = 8  # of the chequerboard, along a side
SLOW = 5.0  # seconds of one right-hand side: more of them are not asked for


def blob(resolution: int) -> Domain:
    """Round, with three wide lobes and five faint ones."""
    x, y = (np.indices((resolution, resolution)) + 0.5) / resolution - 0.5
    angle = np.arctan2(y, x)
    return Domain.from_mask(np.hypot(x, y) < 0.36 + 0.08 * np.cos(3 * angle) + 0.03 * np.sin(5 * angle))


def smooth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return 10 ** (0.5 + 0.5 * np.sin(5 * x + 1) * np.cos(4 * y))


def chequered(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where((np.floor(SQUARES * x) + np.floor(SQUARES * y)) % 2, 100.0, 1.0)


def operators(domain: Domain) -> dict[str, Elliptic]:
    return {
        "Poisson": poisson_operator(domain),
        "kappa smooth, 10": darcy_operator(domain, smooth),
        "kappa chequered, 100": darcy_operator(domain, chequered(*domain.points.T)),
    }


def methods(operator: Elliptic, device: str) -> dict[str, Solver]:
    weights = shipped.load(f"{operator.law.name}-dirichlet", device)
    found: dict[str, Solver] = {
        "direct": Direct(),
        "multigrid": Multigrid(TOLERANCE),
        "capacitance": Capacitance(device, TOLERANCE),
        "gradients, box": ConjugateGradients(device, TOLERANCE),
        "gradients, capacitance": ConjugateGradients(device, TOLERANCE, nearby="capacitance"),
        LEARNED: Preconditioned(weights, TOLERANCE),
    }
    if not operator.law.is_uniform:
        found[f"{LEARNED}, scaled potential"] = Preconditioned(weights, TOLERANCE, scaled_potential=True)
    return found


def measured(solver: Solver, operator: Elliptic, rights: list[RightHandSide], device: str) -> dict[str, object]:
    """Seconds to prepare and to solve so many together, and the error of the last row against the direct solver's."""
    start = perf_counter()
    prepared = solver.prepare(operator)
    prepared(rights[0])
    first = perf_counter() - start
    prepare = timed(lambda: solver.prepare(operator), device, 3) if first < 1 else first
    solve: dict[str, float] = {}
    for right in rights:
        if not solve or max(solve.values()) < SLOW:
            solve[str(len(right))] = timed(lambda right=right: prepared(right), device, 2)
    u, exact = (np.asarray(torch.as_tensor(one(rights[0])).cpu()) for one in (prepared, Direct().prepare(operator)))
    return {
        "prepare_s": prepare,
        "solve_s": solve,
        "iterations": prepared.report.iterations,
        "relative_l2": float(np.linalg.norm(u - exact) / np.linalg.norm(exact)),
    }


def rights_of(operator: Elliptic, seed: int) -> list[RightHandSide]:
    rng = np.random.default_rng(seed)
    f, g = (rng.normal(size=(max(ROWS), len(places))) for places in (operator.domain.points, operator.domain.panels))
    return [RightHandSide(f[:rows], g[:rows]) for rows in ROWS]


def case(operator: Elliptic, device: str, seed: int) -> dict[str, dict[str, object]]:
    found: dict[str, dict[str, object]] = {}
    on_host = rights_of(operator, seed)
    on_device = [RightHandSide(*(torch.as_tensor(one).to(device) for one in (r.f, r.g))) for r in on_host]
    for name, solver in methods(operator, device).items():
        rights = on_host if isinstance(solver, Direct | Multigrid) else on_device
        try:
            found[name] = measured(solver, operator, rights, device)
        except (BenoError, torch.OutOfMemoryError) as error:
            found[name] = {"refused": " ".join(str(error).split())[:160]}
        if device == "cuda":
            torch.cuda.empty_cache()
    return found


def quickest(found: dict[str, dict], rows: int, with_preparing: bool) -> tuple[str, float, float | None]:
    """The quickest method, its seconds, and how many times as long the best learned one takes, if it got there."""
    times = {
        name: one["solve_s"][str(rows)] + with_preparing * one["prepare_s"]
        for name, one in found.items()
        if str(rows) in one.get("solve_s", ())
    }
    best = min(times, key=lambda name: times[name])
    ours = [seconds / times[best] for name, seconds in times.items() if name.startswith(LEARNED)]
    return best, times[best], min(ours, default=None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, nargs="+")
    parser.add_argument("--shapes", nargs="+", default=["ring", "comb", "blob"])
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    options.sizes = options.sizes or ([128, 256, 512] if options.device == "cuda" else [128, 256])

    table = Table("grid", "shape", "law", "right-hand sides", "with preparing", "prepared", "the learned one's over it")
    cases, wins = [], []
    for size in options.sizes:
        for shape in options.shapes:
            domain = blob(size) if shape == "blob" else SHAPES[shape](size)
            for law, operator in operators(domain).items():
                found = case(operator, options.device, options.seed)
                entry: dict[str, object] = {"grid": size, "shape": shape, "law": law, "methods": found}
                for rows in ROWS:
                    both = [quickest(found, rows, with_preparing) for with_preparing in (True, False)]
                    entry[f"quickest_for_{rows}"] = dict(zip(("with_preparing", "prepared"), both, strict=True))
                    names = [f"{name}, {1000 * seconds:.3g} ms" for name, seconds, _ in both]
                    ratios = " and ".join("none" if over is None else f"{over:.2g}" for *_, over in both)
                    table.add_row(f"{size}²", shape, law, str(rows), *names, ratios)
                    wins += [
                        {"grid": size, "shape": shape, "law": law, "rows": rows, "with_preparing": counted}
                        for counted, (name, *_) in zip((True, False), both, strict=True)
                        if name.startswith(LEARNED)
                    ]
                cases.append(entry)
                print(f"{size}², {shape}, {law}: {found}", flush=True)
    Console(width=160).print(table)
    print(f"the learned operator is the quickest in {len(wins)} of {2 * len(ROWS) * len(cases)} comparisons")
    config = vars(options) | {
        "tolerance": TOLERANCE,
        "rows": ROWS,
        "squares": SQUARES,
        "threads": torch.get_num_threads(),
    }
    record(f"preconditioner_{options.device}", config, {"wins": wins, "cases": cases})


if __name__ == "__main__":
    main()
