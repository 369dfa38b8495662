"""What the graph of some 16,000 points costs, beside the triangulation and the neighbours that it is made of.

Points on a grid, where every distance ties, in the cross of a 4-Corners problem, and anywhere.
"""

import argparse
from statistics import median
from time import perf_counter

import numpy as np
from record import record
from rich.console import Console
from rich.table import Table
from scipy.spatial import Delaunay, cKDTree

from beno.batches.delaunay import build_graph
from beno.geometry.grid import Domain
from beno.problems.families import Family

GOAL_SECONDS = 0.3


def point_sets(seed: int) -> dict[str, np.ndarray]:
    """Each of 16,384 points, or the nearest to it that the family's first shape has."""
    return {
        "whole grid": Domain.square(128).points,
        "cross": Family(resolution=160).problem(seed, 0).domain.points,
        "anywhere": np.random.default_rng(seed).random((128 * 128, 2)),
    }


def measure(points: np.ndarray, nearest: int, repeats: int) -> list[tuple[float, float]]:
    """Seconds for the graph, and for its two parts by SciPy alone, in turns."""

    def parts() -> None:
        Delaunay(points)
        cKDTree(points).query(points, k=nearest + 1)

    times = []
    for _ in range(repeats):
        start = perf_counter()
        build_graph(points, nearest)
        middle = perf_counter()
        parts()
        times.append((middle - start, perf_counter() - middle))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--nearest", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()

    figures = {}
    table = Table("points", "number", "edges", "seconds", "range", "over its parts", title=f"at most {GOAL_SECONDS} s")
    for name, points in point_sets(options.seed).items():
        edges = len(build_graph(points, options.nearest))
        times = measure(points, options.nearest, options.repeats)
        seconds = [graph for graph, _ in times]
        ratio = median(graph / parts for graph, parts in times)
        figures[name] = {
            "points": len(points),
            "edges": edges,
            "seconds": median(seconds),
            "slowest_seconds": max(seconds),
            "over_triangulation_and_neighbours": ratio,
            "reached": max(seconds) < GOAL_SECONDS,
        }
        spread = f"{min(seconds):.3f} to {max(seconds):.3f}"
        table.add_row(name, str(len(points)), str(edges), f"{median(seconds):.3f}", spread, f"{ratio:.2f}")
    Console().print(table)
    record("graph", vars(options) | {"goal_seconds": GOAL_SECONDS}, figures)


if __name__ == "__main__":
    main()
