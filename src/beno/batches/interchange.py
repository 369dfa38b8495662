"""Datasets as PyTorch Geometric's graphs. A plain `DataLoader` takes a `Dataset` as it is.

>>> from beno import Dataset
>>> data = graphs(Dataset("four.h5"), "train")[0]  # doctest: +SKIP
"""

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset as TorchDataset

from beno.batches.delaunay import build_graph
from beno.datasets.dataset import Dataset
from beno.datasets.records import Record
from beno.datasets.splits import SPLITS
from beno.support.errors import BenoError

if TYPE_CHECKING:
    from torch_geometric.data import Data


class Graphs(TorchDataset["Data"]):
    """Each problem as one graph: nodes are the points, joined as BENO joins them; panels are a second set of rows."""

    def __init__(self, dataset: Dataset, split: str = "all", nearest: int = 8) -> None:
        self.dataset, self.indices, self.nearest = dataset, _indices(dataset, split), nearest

    def __repr__(self) -> str:
        return f"Graphs({len(self)} of {self.dataset!r})"

    def __len__(self) -> int:
        return len(self.indices)

    def __getitem__(self, index: int) -> "Data":
        try:
            from torch_geometric.data import Data
        except ImportError as error:
            raise BenoError("graphs need PyTorch Geometric: pip install 'beno[pyg]'") from error

        solution = self.dataset[int(self.indices[index])]
        graph = build_graph(solution.problem.domain.points, self.nearest)
        rest = {name: _tensor(values) for name, values in Record.of(solution).values.items()}
        return Data(
            x=rest["f"][:, None],
            pos=rest.pop("points"),
            y=rest.pop("u"),
            edge_index=torch.as_tensor(np.stack([graph.sender, graph.receiver])),
            **rest,
        )


def graphs(dataset: Dataset, split: str = "all", nearest: int = 8) -> Graphs:
    """PyTorch Geometric's ``Data``: ``pos``, ``x`` (f), ``y`` (u), ``edge_index``, and all fields by their names."""
    return Graphs(dataset, split, nearest)


def _indices(dataset: Dataset, split: str) -> np.ndarray:
    if split not in (*SPLITS, "all"):
        raise BenoError(f"there is no split {split!r}; there is {', '.join(SPLITS)}, all")
    return np.arange(len(dataset)) if split == "all" else dataset.indices(split)


def _tensor(values: np.ndarray) -> Tensor:
    return torch.as_tensor(values, dtype=torch.float32 if values.dtype.kind == "f" else torch.int64)
