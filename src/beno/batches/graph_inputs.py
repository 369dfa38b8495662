"""One problem as a graph: its nodes, what is known at each of them, and its boundary."""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int

from beno.batches.base import Posed, column, columns_of, problem_of, scaled_u
from beno.batches.delaunay import Graph, build_ball_graph, build_graph
from beno.datasets.scales import Scales
from beno.geometry.symmetries import about_centre, matrix, turned_domain
from beno.problems.problem import Problem
from beno.problems.turned import turned

# Panels a unit of length on the paper's grid, by which positions along the boundary are counted.
PANELS_A_SIDE = 32


@dataclass(frozen=True)
class GraphKind:
    """Which graph a model passes messages along."""

    nearest: int = 8  # neighbours that a node is joined to, besides those of the Delaunay triangulation
    radius: float | None = None  # or all nodes that are no farther away than this
    boundary_nodes: bool = False  # the panels' centres are nodes as well, after the points

    def build(self, problem: Problem) -> Graph:
        nodes = problem.domain.points
        if self.boundary_nodes:
            nodes = np.concatenate([nodes, problem.domain.panels.centres])
        return build_graph(nodes, self.nearest) if self.radius is None else build_ball_graph(nodes, self.radius)


@dataclass(frozen=True, eq=False)
class GraphInputs:
    """One problem and its graph as arrays, in the units that networks see. What is at points here is at all nodes."""

    points: Float[np.ndarray, "n 2"] = column("points")
    wall_distance: Float[np.ndarray, "n 4"] = column("points")
    source: Float[np.ndarray, " n"] = column("points", linear=True)
    log_coefficient: Float[np.ndarray, " n"] = column("points")
    inside: Float[np.ndarray, " n"] = column("points")  # 1 at points, 0 at boundary nodes
    boundary_value: Float[np.ndarray, " n"] = column("points", linear=True)  # g at boundary nodes; zero inside
    boundary_kind: Int[np.ndarray, " n"] = column("points")  # at boundary nodes; -1 inside
    boundary_alpha: Float[np.ndarray, " n"] = column("points")
    centres: Float[np.ndarray, "p 2"] = column("panels")
    centroid_distance: Float[np.ndarray, " p"] = column("panels")
    position: Float[np.ndarray, " p"] = column("panels")
    g: Float[np.ndarray, " p"] = column("panels", linear=True)
    kind: Int[np.ndarray, " p"] = column("panels")
    alpha: Float[np.ndarray, " p"] = column("panels")
    before: Int[np.ndarray, " p"] = column("panels")
    after: Int[np.ndarray, " p"] = column("panels")
    u: Float[np.ndarray, " n"] | None = column("points", linear=True)
    graph: Graph | None = None

    @classmethod
    def of(cls, posed: Posed, scales: Scales, graph: Graph) -> "GraphInputs":
        """The points are the nodes."""
        problem = problem_of(posed)
        domain, panels, n = problem.domain, problem.domain.panels, len(problem.f)
        before, after = _ring_neighbours(panels.ring)
        return cls(
            points=domain.points,
            wall_distance=domain.wall_distance,
            source=problem.f / scales.source,
            log_coefficient=np.log(problem.law.at_points(domain)),
            inside=np.ones(n),
            boundary_value=np.zeros(n),
            boundary_kind=np.full(n, -1),
            boundary_alpha=np.zeros(n),
            centres=panels.centres,
            centroid_distance=np.linalg.norm(panels.centres - domain.centroid, axis=1),
            position=(np.cumsum(panels.lengths) - panels.lengths / 2) * PANELS_A_SIDE,
            g=problem.g / scales.boundary,
            kind=problem.walls.kind,
            alpha=problem.walls.alpha,
            before=before,
            after=after,
            u=scaled_u(posed, scales.solution),
            graph=graph,
        )

    @classmethod
    def turned(cls, posed: Posed, scales: Scales, graph: Graph, turn: int) -> "GraphInputs":
        """The nodes keep their numbers, and so the graph is the same; the walk along the boundary is the turned one."""
        inputs = cls.of(turned(posed, turn), scales, graph)
        _, came_from, _ = turned_domain(problem_of(posed).domain, turn)
        order = np.argsort(came_from)
        at_points = {name: getattr(inputs, name) for name in POINT_COLUMNS}
        return replace(inputs, **{name: v[order] for name, v in at_points.items() if v is not None})

    @classmethod
    def with_boundary_nodes(cls, posed: Posed, scales: Scales, graph: Graph, turn: int) -> "GraphInputs":
        """The panels' centres are nodes as well, after the points; places are turned as a symmetry says, and nothing
        else has to be."""
        plain, problem = cls.of(posed, scales, graph), problem_of(posed)
        domain, zeros = problem.domain, np.zeros(len(problem.g))

        def joined(inside: np.ndarray, boundary: np.ndarray) -> np.ndarray:
            return np.concatenate([inside, boundary])

        nodes = joined(domain.points, domain.panels.centres)
        return replace(
            plain,
            points=about_centre(nodes, matrix(turn)),
            wall_distance=np.zeros((len(nodes), 4)),
            source=joined(plain.source, zeros),
            log_coefficient=joined(plain.log_coefficient, np.log(problem.law.at_panels(domain))),
            inside=joined(plain.inside, zeros),
            boundary_value=joined(plain.boundary_value, plain.g),
            boundary_kind=joined(plain.boundary_kind, problem.walls.kind),
            boundary_alpha=joined(plain.boundary_alpha, problem.walls.alpha),
            u=None if plain.u is None else joined(plain.u, zeros),
        )


POINT_COLUMNS = [name for name, about in columns_of(GraphInputs).items() if about.on == "points"]
PANEL_COLUMNS = [name for name, about in columns_of(GraphInputs).items() if about.on == "panels"]
LINEAR_COLUMNS = [name for name, about in columns_of(GraphInputs).items() if about.linear]
GRAPH_ARRAYS = ("receiver", "sender", "reverse")


def _ring_neighbours(ring: Int[np.ndarray, " p"]) -> tuple[Int[np.ndarray, " p"], Int[np.ndarray, " p"]]:
    """The panels before and after each one, around its own ring."""
    here = np.arange(len(ring))
    first = np.searchsorted(ring, ring, side="left")
    last = np.searchsorted(ring, ring, side="right") - 1
    return np.where(here == first, last, here - 1), np.where(here == last, first, here + 1)
