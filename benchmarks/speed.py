"""Error against time for every method, on one device: what docs/speed.md and the choice among solvers go by.

`python benchmarks/speed.py [--device cuda]` writes results/speed_cpu.json or results/speed_cuda.json; `--small` is
tiny, to see that it runs. One run measures all methods on the same operators and right-hand sides. The error is that of
the scheme, against the direct solver's answer. "One" is one right-hand side after the preparing, "many" a thousand
together (fewer on large grids, and on a CPU, where a right-hand side costs as much alone). A CPU is measured on one
core, with OPENBLAS_NUM_THREADS=1.
"""

import argparse
import time
from collections.abc import Callable

import numpy as np
import torch
from record import record

from beno.geometry.gallery import SHAPES
from beno.learned import shipped
from beno.learned.operator import LearnedOperator
from beno.learned.preconditioned import Preconditioned
from beno.problems.families import Family
from beno.problems.operator import Elliptic, darcy_operator, poisson_operator
from beno.problems.right_hand_side import RightHandSide
from beno.solvers.base import Prepared, Solver
from beno.solvers.device.capacitance import Capacitance
from beno.solvers.device.gradients import ConjugateGradients
from beno.solvers.direct import Direct
from beno.solvers.multigrid import Multigrid
from beno.support.errors import BenoError

TOLERANCE = 1e-8
MANY = 1000  # right-hand sides
NUMBERS = {"cpu": 2**19, "cuda": 2**26}  # that all of them have at most
SLOW = 20.0  # seconds for one right-hand side, beyond which a method is not asked for many
LONGEST = 1.0  # seconds for many on a CPU, at the speed of one
LARGEST_LEARNED = {"cpu": 128, "cuda": 512}  # beyond which to assemble a learned operator takes minutes


def operators(resolution: int) -> dict[str, Elliptic]:
    """By the names of laws and shapes."""

    def smooth(x: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.exp(np.log(10) * (1 + np.sin(5 * x + 1) * np.cos(4 * y)) / 2)

    found = {}
    for shape in ("ring", "comb"):
        domain = SHAPES[shape](resolution)
        found[f"Poisson, {shape}"] = poisson_operator(domain)
        found[f"Darcy, contrast 10, {shape}"] = darcy_operator(domain, smooth)
    domain = SHAPES["ring"](resolution)
    chequered = np.where(np.floor(8 * domain.points).sum(axis=1) % 2, 100.0, 1.0)
    rough = np.where(np.random.default_rng(0).random(len(domain.points)) < 0.5, 100.0, 1.0)
    found["Darcy, chequerboard of 100, ring"] = darcy_operator(domain, chequered)
    found["Darcy, noise of 100, ring"] = darcy_operator(domain, rough)
    return found


def methods(operator: Elliptic, device: str) -> dict[str, Solver]:
    weights = shipped.load("poisson-dirichlet" if operator.law.is_uniform else "darcy-dirichlet", device)
    return {
        "direct (SuperLU, one core)": Direct(),
        "multigrid (PyAMG, one core)": Multigrid(TOLERANCE),
        "capacitance": Capacitance(device, TOLERANCE),
        "gradients, by the box": ConjugateGradients(device, TOLERANCE),
        "gradients, by the capacitance": ConjugateGradients(device, TOLERANCE, nearby="capacitance"),
        "learned operator alone": weights,
        "GMRES, by the learned operator": Preconditioned(weights, TOLERANCE, scaled_potential=True),
    }


def timed(run: Callable[[], object], device: str, repeats: int) -> float:
    """The median of a few, after one that is not counted."""
    run()
    return float(np.median([once(run, device)[0] for _ in range(repeats)]))


def once(run: Callable[[], object], device: str) -> tuple[float, object]:
    """Seconds and the outcome; of one thread on a CPU, which others may use as well, the processor's own seconds."""
    clock = time.process_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
    if device == "cuda":
        torch.cuda.synchronize()
    start = clock()
    outcome = run()
    if device == "cuda":
        torch.cuda.synchronize()
    return clock() - start, outcome


def measured(solver: Solver, operator: Elliptic, right: RightHandSide, exact: np.ndarray, device: str) -> dict:
    one = RightHandSide(right.f[:1], right.g[:1])
    preparing, prepared = once(lambda: solver.prepare(operator), device)
    assert isinstance(prepared, Prepared)
    first, u = once(lambda: _as_array(prepared(one)), device)
    if preparing < 1 or device == "cuda":
        preparing = timed(lambda: solver.prepare(operator), device, 3)
    each = first if first > 1 and device == "cpu" else timed(lambda: prepared(one), device, 3 if first < 1 else 1)
    entry: dict[str, float | int] = {
        "error": float(np.linalg.norm(u - exact) / np.linalg.norm(exact)),
        "iterations": prepared.report.iterations,
        "prepare_ms": 1000 * preparing,
        "one_ms": 1000 * each,
    }
    count = len(right) if _is_on_device(solver) else 10
    count = min(len(right), int(LONGEST / each)) if device == "cpu" else count
    if count > 1 and first < SLOW:
        some = RightHandSide(right.f[:count], right.g[:count])
        if not _is_on_device(solver):
            some = RightHandSide(some.f.cpu().numpy(), some.g.cpu().numpy())
        entry |= {"many": count, "many_us": 1e6 * timed(lambda: prepared(some), device, 2) / count}
    return entry


def _as_array(u: object) -> np.ndarray:
    return u.cpu().numpy() if isinstance(u, torch.Tensor) else np.asarray(u)


def one_shape(resolution: int, device: str) -> dict[str, dict]:
    found = {}
    for name, operator in operators(resolution).items():
        count = max(10, min(MANY, NUMBERS[device] // resolution**2))
        rng = np.random.default_rng(1)
        f, g = (rng.normal(size=(count, n)) for n in (len(operator.domain.points), len(operator.domain.panels)))
        right = RightHandSide(torch.as_tensor(f).to(device), torch.as_tensor(g).to(device))
        exact = np.asarray(Direct().prepare(operator)(RightHandSide(f[:1], g[:1])))
        entries = {}
        for method, solver in methods(operator, device).items():
            if _is_learned(solver) and resolution > LARGEST_LEARNED[device]:
                entries[method] = {"refused": f"not measured: to assemble it on {device} takes minutes"}
                continue
            given = right if _is_on_device(solver) else RightHandSide(right.f.cpu(), right.g.cpu())
            try:
                entries[method] = measured(solver, operator, given, exact, device)
            except (BenoError, ImportError, torch.OutOfMemoryError) as error:
                entries[method] = {"refused": " ".join(str(error).split())[:200]}
            print(f"{resolution}², {name}, {method}: {entries[method]}", flush=True)
            if device == "cuda":
                torch.cuda.empty_cache()
        found[name] = entries
    return found


def _is_on_device(solver: Solver) -> bool:
    return not isinstance(solver, Direct | Multigrid)


def _is_learned(solver: Solver) -> bool:
    return isinstance(solver, LearnedOperator | Preconditioned)


def many_shapes(resolution: int, device: str, count: int) -> dict[str, float]:
    """Problems a second, each with a shape of its own, beside SuperLU on one core."""
    family = Family(corners="mixed", resolution=resolution)
    drawn = [family.problem(0, index) for index in range(min(count, 64))]
    problems = [drawn[index % len(drawn)] for index in range(count)]
    solver = ConjugateGradients(device, TOLERANCE)
    seconds = timed(lambda: solver.solve_many(problems), device, 1)
    from beno.solvers.device.gradients import iterate
    from beno.solvers.device.stencil import Stencil

    stencil = Stencil.of([problem.operator for problem in problems], torch.device(device))
    vectors = torch.randn(count, resolution, resolution, dtype=torch.float64, device=device) * stencil.inside
    free = torch.zeros(count, dtype=torch.bool, device=device)
    alone = timed(lambda: iterate(stencil, vectors, free, TOLERANCE, 500), device, 3)
    direct = timed(lambda: [Direct().solve(problem) for problem in drawn[:16]], device, 1) / 16
    return {
        "problems": count,
        "with_the_host_us": 1e6 * seconds / count,
        "on_the_device_us": 1e6 * alone / count,
        "superlu_us": 1e6 * direct,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true", help="tiny, to see that it runs")
    options = parser.parse_args()
    on_gpu = options.device == "cuda"
    sizes = [32] if options.small else [128, 256, 512] if on_gpu else [64, 128, 256]
    counts = {32: 50} if options.small else {32: 32000, 64: 8000, 128: 2000, 256: 400} if on_gpu else {32: 500, 64: 200}
    torch.set_num_threads(16 if on_gpu else 1)
    figures: dict[str, dict] = {"many_shapes": {}, "one_shape": {}}
    for size, count in counts.items():
        figures["many_shapes"][str(size)] = many_shapes(size, options.device, count)
    for size in sizes:  # what is measured is kept, if the rest takes too long
        figures["one_shape"][str(size)] = one_shape(size, options.device)
        record(f"speed_{options.device}", vars(options) | {"tolerance": TOLERANCE, "seed": 1}, figures)


if __name__ == "__main__":
    main()
