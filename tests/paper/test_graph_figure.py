"""Which edges of a graph leave the domain, and that they are counted."""

import re

import numpy as np
import pytest
from matplotlib import pyplot as plt

from beno.batches.delaunay import build_graph
from beno.geometry.grid import Domain
from beno.paper.graph_figure import leave, plot_graphs
from beno.problems.families import Family

CUT = Domain.square(8, [(4, 4), None, None, None])  # its lower left quarter is not there


@pytest.mark.parametrize(
    ("start", "end", "leaves"),
    [
        ((0.1, 0.6), (0.9, 0.6), False),
        ((0.1, 0.6), (0.6, 0.1), True),
        ((0.0625, 0.5), (0.4375, 0.5), False),  # along the wall of the cut
        ((0.5, 0.5), (0.5, 0.0), False),
        ((0.4375, 0.5), (0.5, 0.4375), True),  # from one wall of it to the other
        ((0.4375, 0.5625), (0.5625, 0.4375), False),  # through the corner alone
        ((0.4, 0.55), (0.55, 0.4), True),
        ((0.0, 1.0), (1.0, 1.0), False),  # along the square's
        ((1.0, 0.0), (1.0, 1.0), False),
    ],
)
def test_an_edge_leaves_where_it_runs_through_what_is_cut(start, end, leaves):
    for one, other in ((start, end), (end, start)):
        assert leave(CUT, np.array([one]), np.array([other])).tolist() == [leaves]
        mirrored = np.array([one[::-1]]), np.array([other[::-1]])
        assert leave(CUT, *mirrored).tolist() == [leaves]


def test_no_edge_leaves_a_whole_square():
    domain = Domain.square(8)
    points = np.concatenate([domain.points, domain.panels.centres])
    graph = build_graph(points)
    assert not leave(domain, points[graph.receiver], points[graph.sender]).any()


def test_every_edge_is_counted_once():
    problem = Family(resolution=16).problem(0, 0)
    points, centres = problem.domain.points, problem.domain.panels.centres
    figure = plot_graphs(problem)
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend()]
    for legend, nodes in zip(legends, (points, np.concatenate([points, centres])), strict=True):
        told = {text.get_text() for text in legend.get_texts()}
        inside, leaving = sorted(int(re.match(r"\d+", text)[0]) for text in told if "edges" in text)[::-1]
        assert inside + leaving == len(build_graph(nodes)) / 2 and leaving > 0
        assert f"{leaving} edges that leave the domain" in told
    plt.close(figure)
