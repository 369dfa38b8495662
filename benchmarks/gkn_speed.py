"""What it is worth that GKN's kernel acts after the sum over neighbours, instead of making a matrix for every edge.

A training step on a 4-Corners sample at 32² each way, in turns, in half precision, for kernels of 256 (the default)
and 1024 (the one of GKN's first paper). Milliseconds are recorded; what counts is their ratios.
"""

import argparse
from collections.abc import Callable
from statistics import median
from time import perf_counter

import torch
from record import record
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from beno.batches.graphs import GraphBatch
from beno.datasets.scales import Scales
from beno.models.gkn import GKN, GKNConfig
from beno.models.nodes import node_features
from beno.nn.segments import to_edges, to_nodes
from beno.problems.families import Family
from beno.solvers.direct import Direct


def with_matrices(model: GKN, batch: GraphBatch) -> torch.Tensor:
    """The same answer as the model's."""
    config, wiring = model.config, batch.wiring
    features = node_features(batch, config)
    hidden = model.kernel(to_edges(model.from_receiver(features), model.from_sender(features), wiring))
    # The last layer's weight is (receiving, hidden, sending); here its outputs are matrices (receiving, sending).
    last = model.matrix.weight.view(config.width, config.kernel_width, config.width).transpose(1, 2).flatten(0, 1)
    matrices = functional.linear(hidden, last, model.mean_matrix.weight.flatten()).view(-1, config.width, config.width)
    degree = wiring.start.diff().clamp(min=1)[:, None]
    nodes = model.lift(features)
    for _ in range(config.depth):
        sent = nodes.index_select(0, wiring.sender).to(matrices.dtype)[:, :, None]
        nodes = functional.relu(model.root(nodes) + to_nodes(torch.bmm(matrices, sent)[:, :, 0], wiring) / degree)
    return model.project(nodes).float()[:, 0]


def timed_step(model: GKN, batch: GraphBatch, answer: Callable[[GKN, GraphBatch], torch.Tensor]) -> float:
    model.zero_grad()
    start = perf_counter()
    with torch.autocast(batch.truth.device.type, torch.bfloat16):
        predicted = answer(model, batch)
    batch.by_sample((predicted - batch.truth).square()).sum().backward()
    if batch.truth.is_cuda:
        torch.cuda.synchronize()
    return 1000 * (perf_counter() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--samples", type=int, default=1, help="in a batch; a GPU wants 16")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    torch.set_num_threads(1)
    solutions = [Direct().solve(Family().problem(options.seed, index)) for index in range(options.samples)]
    figures, table = {}, Table("kernel", "matrices, ms", "after the sum, ms", "times faster")
    for kernel_width in (256, 1024):
        torch.manual_seed(options.seed)
        model = GKN(GKNConfig(kernel_width=kernel_width)).to(options.device)
        batch = model.batches(solutions, Scales.fit(solutions), model.config, options.device).batch()
        with torch.no_grad():
            torch.testing.assert_close(with_matrices(model, batch), model(batch), rtol=1e-3, atol=1e-3)
        ways = {"matrices": with_matrices, "after_the_sum": GKN.__call__}
        times: dict[str, list[float]] = {way: [] for way in ways}
        for repeat in range(options.repeats + 1):
            for way, answer in ways.items():
                taken = timed_step(model, batch, answer) / options.samples
                if repeat:  # the first one warms up
                    times[way].append(taken)
        row = {way: median(each) for way, each in times.items()}
        figures[str(kernel_width)] = row
        table.add_row(
            str(kernel_width),
            *(f"{each:.1f}" for each in row.values()),
            f"{row['matrices'] / row['after_the_sum']:.1f}",
        )
    Console().print(table)
    record("gkn_speed", vars(options), figures)


if __name__ == "__main__":
    main()
