"""Datasets in the loaders of other people."""

import pickle

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, Subset

from beno.batches.delaunay import build_graph
from beno.batches.interchange import graphs
from beno.datasets.dataset import Dataset
from beno.datasets.making import make
from beno.problems.families import Family
from beno.problems.fields import FIELDS
from beno.support.errors import BenoError


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "darcy.h5"
    make(Family("darcy", "mixed", "mixed", 8), seed=1, samples=10, path=path)
    return path


@pytest.mark.parametrize("workers", [0, 2])
def test_a_plain_loader_stacks_problems_of_all_sizes(path, workers):
    with Dataset(path) as dataset:
        loader = DataLoader(dataset, batch_size=4, num_workers=workers)
        batches = list(loader)
        assert [len(batch["u"]) for batch in batches] == [4, 4, 2]
        assert set(batches[0]) == {field.name for field in FIELDS} | {"has_point", "has_panel"}
        for index, solution in enumerate(dataset):
            batch, row = batches[index // 4], index % 4
            there = batch["has_point"][row]
            np.testing.assert_array_equal(batch["u"][row][there], solution.u.astype(np.float32))
            np.testing.assert_array_equal(
                batch["points"][row][there], solution.problem.domain.points.astype(np.float32)
            )
            there = batch["has_panel"][row]
            np.testing.assert_array_equal(batch["kind"][row][there], solution.problem.walls.kind)
            assert not batch["g"][row][~there].any()


def test_a_loader_takes_a_split_too(path):
    with Dataset(path) as dataset:
        batch = next(iter(DataLoader(Subset(dataset, dataset.indices("test").tolist()), batch_size=2)))
        np.testing.assert_array_equal(batch["u"][0], dataset[int(dataset.indices("test")[0])].u.astype(np.float32))


def test_splits_are_those_of_the_file(path):
    with Dataset(path) as dataset:
        assert [len(graphs(dataset, split)) for split in ("train", "validation", "test")] == [8, 1, 1]
        with pytest.raises(BenoError, match="no split 'tests'"):
            graphs(dataset, "tests")


def test_graphs_go_into_the_loader_of_pytorch_geometric(path):
    loader = pytest.importorskip("torch_geometric.loader")
    with Dataset(path) as dataset:
        batch = next(iter(loader.DataLoader(graphs(dataset, "train"), batch_size=3)))
        solutions = [dataset[index] for index in range(3)]
        assert batch.num_graphs == 3 and batch.num_nodes == sum(len(one.u) for one in solutions)
        np.testing.assert_array_equal(batch.y, np.concatenate([one.u for one in solutions]).astype(np.float32))
        graph = build_graph(solutions[0].problem.domain.points)
        np.testing.assert_array_equal(graphs(dataset)[0].edge_index, np.stack([graph.sender, graph.receiver]))
        assert torch.equal(batch.x[:, 0], batch.f)


def test_a_dataset_opens_its_file_anew_in_another_process(path):
    with Dataset(path) as dataset:
        again = pickle.loads(pickle.dumps(dataset))
        np.testing.assert_array_equal(again[3].u, dataset[3].u)
