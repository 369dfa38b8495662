"""The file of a dataset: one HDF5 file of ragged arrays with offsets. docs/data_format.md is its description."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import h5py
import numpy as np

from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.datasets.splits import split_numbers
from beno.problems.fields import FIELDS, Field
from beno.problems.solution import Solution
from beno.problems.walls import Kind
from beno.support.errors import BenoError
from beno.support.files import Sink, whole_file_or_none

FORMAT = "beno-dataset"
VERSION = 2  # since 2 the kinds of walls are stored by name
ROWS_A_CHUNK = 4096
KINDS_BY_NAME = h5py.enum_dtype({kind.label: kind.value for kind in Kind}, basetype="i1")
GROUPS = ("points", "panels")


def place_of(field: Field) -> str:
    """Where a file has it. The arrays of all samples stand one after the other there; offsets/points and
    offsets/panels say where each sample starts."""
    return f"{field.on}/{field.stored_as}"


FIELD_AT = {place_of(field): field for field in FIELDS}


@dataclass(frozen=True, eq=False, repr=False)
class Block:
    """Some samples on end, as they lie in the file."""

    arrays: dict[str, np.ndarray]
    points: np.ndarray  # how many points each sample has
    panels: np.ndarray

    @classmethod
    def pack(cls, samples: Sequence[Solution | Record]) -> "Block":
        records = [one if isinstance(one, Record) else Record.of(one) for one in samples]
        arrays = {}
        for field in FIELDS:
            parts = [record.values[field.name] for record in records if field.name in record.values]
            if not parts:
                continue
            if len(parts) < len(records):
                raise BenoError(f"some samples have a {field.name} and some have none; a dataset holds one equation")
            arrays[place_of(field)] = np.concatenate(parts).astype(field.dtype)
        return cls(
            arrays,
            points=np.array([len(record["u"]) for record in records]),
            panels=np.array([len(record["g"]) for record in records]),
        )

    def __len__(self) -> int:
        return len(self.points)

    def __repr__(self) -> str:
        return f"Block({len(self)} samples, {self.points.sum()} points, {self.panels.sum()} panels)"


def write(
    path: Path,
    metadata: Metadata,
    blocks: Iterable[Block],
    splits: np.ndarray | None = None,
    lasting: bool = True,
) -> None:
    """Write a whole dataset, or nothing: a kill at any moment leaves no file under this name.

    ``splits`` gives each sample's split; by default they follow from the count. A file that is not to
    last holds one block, laid down as it is: quicker to write and to read, but larger.
    """
    if metadata.samples < 1:
        raise BenoError(f"{path}: there are no samples to write")
    with whole_file_or_none(path, lasting) as unfinished, Sink(unfinished) as sink, h5py.File(sink, "w") as file:
        file.attrs.update(format=FORMAT, version=VERSION, metadata=metadata.to_json())
        ends = {"points": [np.zeros(1, dtype=np.int64)], "panels": [np.zeros(1, dtype=np.int64)]}
        for block in blocks:
            if "points" in file and block.arrays.keys() != set(_array_names(file)):
                raise BenoError(f"{path}: its samples do not all have the same arrays")
            for name, values in block.arrays.items():
                _append(file, name, values, lasting)
            for group, counts in (("points", block.points), ("panels", block.panels)):
                ends[group].append(ends[group][-1][-1] + np.cumsum(counts))
            sink.raise_error()
        for group, parts in ends.items():
            file[f"offsets/{group}"] = np.concatenate(parts)
        written = len(file["offsets/points"]) - 1
        if written != metadata.samples:
            raise BenoError(f"{path}: {written} samples were written where the metadata says {metadata.samples}")
        file["split"] = split_numbers(written) if splits is None else splits


def _array_names(file: h5py.File) -> list[str]:
    return [f"{group}/{name}" for group in GROUPS for name in file[group]]


def _append(file: h5py.File, name: str, values: np.ndarray, lasting: bool) -> None:
    dtype = KINDS_BY_NAME if FIELD_AT[name].name == "kind" else values.dtype
    if not lasting:
        file.create_dataset(name, data=values, dtype=dtype)
        return
    if name not in file:
        data = FIELD_AT[name].part_of in ("data", "law")
        file.create_dataset(
            name,
            data=values,
            dtype=dtype,
            maxshape=(None, *values.shape[1:]),
            chunks=(ROWS_A_CHUNK, *values.shape[1:]),
            # Geometry shrinks to almost nothing; data do not shrink, and would only cost time.
            **({} if data else {"compression": "lzf", "shuffle": True}),
        )
        return
    stored = file[name]
    stored.resize(len(stored) + len(values), axis=0)
    stored[-len(values) :] = values
