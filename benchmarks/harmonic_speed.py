"""How long the harmonic operator takes, beside classical solvers on the same machine, in one run.

    python benchmarks/harmonic_speed.py        # meant for a GPU; --quick for a look at small sizes anywhere

Times of the operator are on the device, with problems prepared on it; what preparing them takes on the host is said
apart. Its errors are against the direct solver's u on the same grid.
"""

import argparse
import shutil
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from record import record
from scipy.spatial import cKDTree

from beno.batches.panels import PanelBatches
from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.geometry.grid import Domain
from beno.learned.operator import LearnedOperator
from beno.learned.shipped import load
from beno.nn.device import choose_device
from beno.problems.families import Family
from beno.problems.norms import relative_l2
from beno.problems.problem import Problem, poisson
from beno.solvers.direct import Direct
from beno.solvers.multigrid import Multigrid
from beno.training.config import PRESETS
from beno.training.fabric import make_fabric
from beno.training.run import Run


def seconds(action, repeats: int = 10, warm_up: int = 2) -> float:
    """The median of several."""
    for _ in range(warm_up):
        action()
    times = []
    for _ in range(repeats):
        synchronise()
        start = time.perf_counter()
        action()
        synchronise()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def synchronise() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def peak_gib() -> float | None:
    return torch.cuda.max_memory_allocated() / 2**30 if torch.cuda.is_available() else None


def reset_peak() -> None:
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()


def training(samples: int, points: int) -> dict:
    """An epoch of the preset, in batches of 16; with all points of every sample, and with as many as it looks at."""
    folder = Path(tempfile.mkdtemp())
    make(Family(corners="mixed"), 0, samples, folder / "data.h5")
    config = replace(PRESETS["harmonic"], points=points)
    reset_peak()  # before the step is captured: what a replay needs was allocated then
    with Dataset(folder / "data.h5") as dataset:
        run = Run(folder / "run", dataset, "harmonic", None, config, make_fabric())
    taken = seconds(run._train_epoch, repeats=5) / len(run.train_set)
    shutil.rmtree(folder)
    return {"points": points or "all", "ms_a_sample": 1000 * taken, "peak_gib": peak_gib()}


def inference(operator: LearnedOperator, count: int) -> dict:
    """Many different problems at 32², in one batch."""
    start = time.perf_counter()
    problems = [Family(corners="mixed").problem(5, index) for index in range(count)]
    solutions = [Direct().solve(problem) for problem in problems]
    made = time.perf_counter()
    batch = PanelBatches.of(problems, operator.header.scales, operator.device).batch()
    prepared = time.perf_counter() - made
    reset_peak()
    with torch.no_grad():
        taken = seconds(lambda: operator.run(batch))
        predicted = batch.split(operator.run(batch).sum(dim=0).float() * operator.header.scales.solution)
    errors = [relative_l2(u.cpu().numpy(), exact.u) for u, exact in zip(predicted, solutions, strict=True)]
    return {
        "problems": count,
        "ms_a_problem": 1000 * taken / count,
        "host_preparation_ms_a_problem": 1000 * prepared / count,
        "making_and_solving_ms_a_problem": 1000 * (made - start) / count,
        "relative_l2": float(np.mean(errors)),
        "peak_gib": peak_gib(),
    }


def one_shape(operator: LearnedOperator, resolution: int, right_hand_sides: int, slow: bool) -> dict:
    """One unseen shape, and then many right-hand sides; the classical solvers at the same."""
    domain = Family(resolution=resolution).problem(77, 0).domain
    other = Family(resolution=resolution).problem(78, 0).domain
    reset_peak()
    operator.assemble(other)  # compiles what is to be compiled, on another shape
    _ = domain.panels, domain.wall_distance
    assembled_in = seconds(lambda: operator.assemble(domain), repeats=5, warm_up=0)
    from_mask_in = seconds(lambda: operator.assemble(Domain(domain.mask)), repeats=5, warm_up=0)
    assembled = operator.assemble(domain)
    rng = np.random.default_rng(0)
    dtype = torch.float32 if operator.device.type == "cuda" else torch.float64
    f, g = (
        torch.as_tensor(rng.normal(size=(right_hand_sides, size)), dtype=dtype, device=operator.device)
        for size in (len(domain.points), len(domain.panels))
    )
    right = assembled.operator.right(f, g)
    applied_in = seconds(lambda: assembled(right), repeats=5) / right_hand_sides
    problem, direct, multigrid = Family(resolution=resolution).problem(77, 0), Direct(), Multigrid()
    exact = direct.solve(problem)
    row = {
        "resolution": resolution,
        "points": len(domain.points),
        "panels": len(domain.panels),
        "assemble_ms": 1000 * assembled_in,
        "from_mask_ms": 1000 * from_mask_in,
        "right_hand_side_ms": 1000 * applied_in,
        "relative_l2": relative_l2(assembled(problem.right), exact.u),
        "peak_gib": peak_gib(),
    }
    row["direct_ms"] = 1000 * seconds(lambda: direct.solve(problem), repeats=3, warm_up=0)
    prepared = direct.prepare(problem.operator)
    row["cached_factorisation_ms"] = 1000 * seconds(lambda: prepared(problem.right), repeats=3)
    if slow:
        row["multigrid_ms"] = 1000 * seconds(lambda: multigrid.solve(problem), repeats=3, warm_up=0)
    return row


def coarser(problem: Problem, u: np.ndarray, factor: int) -> dict:
    """What a direct solver makes of the same problem on fewer cells, read off between them."""
    domain = problem.domain
    blocks = domain.mask.reshape(domain.resolution // factor, factor, -1, factor)
    coarse = Domain(blocks.mean(axis=(1, 3)) >= 0.5)
    # f and g of the nearest fine cell and panel: what a user has at hand
    f, g = (
        values[cKDTree(fine).query(places)[1]]
        for values, fine, places in (
            (problem.f, domain.points, coarse.points),
            (problem.g, domain.panels.centres, coarse.panels.centres),
        )
    )
    small = poisson(coarse, f, g)
    nearest = coarse.points[cKDTree(coarse.points).query(domain.points)[1]]
    inside = coarse.mask[tuple((domain.points * coarse.resolution).astype(int).T)]
    places = np.where(inside[:, None], domain.points, nearest)
    direct = Direct()
    solved = direct.solve(small)
    return {
        "resolution": domain.resolution,
        "solved_at": coarse.resolution,
        "direct_ms": 1000 * seconds(lambda: direct.solve(small), repeats=3, warm_up=0),
        "read_off_ms": 1000 * seconds(lambda: solved.at(places), repeats=3, warm_up=0),
        "relative_l2": relative_l2(solved.at(places), u),
    }


def on_coarser_grids(resolutions: list[int]) -> None:
    """Where a few percent do: the error that a direct solver buys with less time, on the shapes of the operator."""
    rows = []
    for resolution in resolutions:
        problem = Family(resolution=resolution).problem(77, 0)
        u = Direct().solve(problem).u
        rows += [coarser(problem, u, factor) for factor in (2, 4, 8) if resolution >= 8 * factor]
        print(*rows[-3:], sep="\n", flush=True)
    record("coarse_grids", {"resolutions": resolutions, "seed": 77}, {"rows": rows})


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weights", default="poisson-dirichlet")
    arguments.add_argument("--device", default="auto")
    arguments.add_argument("--resolutions", type=int, nargs="+", default=[32, 64, 128, 256, 512])
    arguments.add_argument("--problems", type=int, default=1000)
    arguments.add_argument("--right-hand-sides", type=int, default=1000)
    arguments.add_argument("--quick", action="store_true")
    arguments.add_argument("--coarser", action="store_true", help="a direct solver on coarser grids alone")
    options = arguments.parse_args()
    if options.coarser:
        on_coarser_grids(options.resolutions)
        return
    if options.quick:
        options.resolutions, options.problems, options.right_hand_sides = [32, 64], 20, 20
    operator = load(options.weights, choose_device(options.device))
    try:
        import pyamg  # noqa: F401

        multigrid = True
    except ImportError:
        multigrid = False

    figures: dict = {"inference": inference(operator, options.problems)}
    print(figures["inference"], flush=True)
    figures["training"] = [training(100 if options.quick else 300, points) for points in (256, 0)]
    print(figures["training"], flush=True)
    figures["shapes"] = []
    for resolution in options.resolutions:
        figures["shapes"].append(one_shape(operator, resolution, options.right_hand_sides, multigrid))
        print(figures["shapes"][-1], flush=True)
    record("harmonic_speed", vars(options) | {"seed": 77}, figures)


if __name__ == "__main__":
    main()
