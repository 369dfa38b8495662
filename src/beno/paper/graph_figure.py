"""The graphs that messages pass along, and which of their edges leave the domain."""

import numpy as np
from jaxtyping import Bool, Float
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beno.batches.delaunay import build_graph
from beno.evaluation.drawing import draw_inside
from beno.evaluation.plotting import PAGE
from beno.geometry.grid import Domain
from beno.problems.problem import Problem

EDGE, LEAVING_EDGE, INTERIOR_NODE, BOUNDARY_NODE = "0.55", "tab:orange", "black", "blueviolet"
REACH = 0.16  # of the enlarged part, from the corner in its middle
ROUNDING = 1e-9


def plot_graphs(problem: Problem) -> Figure:
    """BENO's graph above, that of GNN-PDE and MP-PDE below; each as a whole, and around a cut corner, enlarged."""
    domain = problem.domain
    graphs = {
        "BENO: interior nodes alone": domain.points,
        "GNN-PDE and MP-PDE: boundary nodes too": np.concatenate([domain.points, domain.panels.centres]),
    }
    figure, axes = plt.subplots(2, 2, figsize=(PAGE, 9.6), layout="constrained")
    x, y = _inner_corner(domain)
    for (whole, enlarged), (name, nodes) in zip(axes, graphs.items(), strict=True):
        for axis, zoom in ((whole, 1.0), (enlarged, 4.0)):
            draw_inside(axis, problem)
            _draw_graph(axis, domain, nodes, zoom)
        whole.set_title(name)
        whole.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), fontsize="small", ncols=2, markerscale=4)
        enlarged.set_title("a corner of it, enlarged")
        enlarged.set(xlim=(x - REACH, x + REACH), ylim=(y - REACH, y + REACH), xticks=(x,), yticks=(y,))
        whole.indicate_inset_zoom(enlarged, edgecolor="black")
    figure.suptitle("The graph of a 4-Corners sample: Delaunay edges and those to the 8 nearest neighbours")
    return figure


def _draw_graph(axes: Axes, domain: Domain, nodes: Float[np.ndarray, "n 2"], zoom: float) -> None:
    graph = build_graph(nodes)
    once = graph.receiver < graph.sender
    start, end = nodes[graph.receiver[once]], nodes[graph.sender[once]]
    leaves = leave(domain, start, end)
    for which, colour, width, label in (
        (~leaves, EDGE, 0.3, "edges inside"),
        (leaves, LEAVING_EDGE, 0.5, "edges that leave the domain"),
    ):
        # One line with gaps: thousands of their own make a vector drawing of megabytes.
        line = np.stack([start[which], end[which], np.full((which.sum(), 2), np.nan)], axis=1)
        width = width * zoom**0.5
        axes.plot(*line.reshape(-1, 2).T, color=colour, linewidth=width, label=f"{which.sum()} {label}")
    size = 1.2 * zoom
    axes.plot(*domain.points.T, ".", color=INTERIOR_NODE, markersize=size, label=f"{len(domain.points)} interior nodes")
    if len(nodes) > len(domain.points):
        label = f"{len(domain.panels.centres)} boundary nodes"
        axes.plot(*domain.panels.centres.T, ".", color=BOUNDARY_NODE, markersize=1.5 * size, label=label)


def leave(domain: Domain, start: Float[np.ndarray, "e 2"], end: Float[np.ndarray, "e 2"]) -> Bool[np.ndarray, " e"]:
    """Which straight edges between points of a domain run through cells outside of it. Along a wall they may run."""
    lines = np.linspace(0, 1, domain.resolution + 1)
    along = (end - start)[..., None]
    # Where an edge crosses a line of the grid, in parts of its length; between two such places it is in one cell.
    crossings = np.divide(lines - start[..., None], along, out=np.zeros((*start.shape, len(lines))), where=along != 0)
    crossings = np.sort(np.clip(crossings, 0, 1).reshape(len(start), -1), axis=1)
    middles = (crossings[:, 1:] + crossings[:, :-1])[..., None] / 2
    places = start[:, None] + middles * (end - start)[:, None]
    mask = np.pad(domain.mask, 1)
    outside = np.ones(places.shape[:-1], dtype=bool)
    for aside in ROUNDING * np.array([[-1, -1], [-1, 1], [1, -1], [1, 1]]):  # on a wall there is a cell on each side
        i, j = np.moveaxis(np.floor((places + aside) * domain.resolution).astype(int) + 1, -1, 0)
        outside &= ~mask[i, j]
    return outside.max(axis=1)


def _inner_corner(domain: Domain) -> Float[np.ndarray, " 2"]:
    """A corner where three cells of the domain meet."""
    mask = domain.mask.astype(int)
    around = mask[:-1, :-1] + mask[1:, :-1] + mask[:-1, 1:] + mask[1:, 1:]
    return (np.argwhere(around == 3)[0] + 1) * domain.spacing
