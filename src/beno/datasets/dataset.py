"""Datasets on disk: one HDF5 file of ragged arrays with offsets. docs/data_format.md is its description."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from types import TracebackType
from typing import Any

import h5py
import numpy as np

from beno.datasets.records import Sample
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.support.files import Sink, whole_file_or_none
from beno.version import __version__

FORMAT = "beno-dataset"
VERSION = 1
ROWS_A_CHUNK = 4096
CACHE_OF_AN_ARRAY = 2**20  # bytes: sixteen of the largest chunks; HDF5 2 would take 8 MiB for each array

# Where each array of a sample lies in the file. The arrays of all samples stand one after the
# other; offsets/points and offsets/panels say where each sample starts.
POINT_ARRAYS = {"points": "position", "source": "source", "u": "u", "coefficient": "coefficient"}
PANEL_ARRAYS = {
    "centres": "centre",
    "normals": "normal",
    "lengths": "length",
    "ring": "ring",
    "kind": "kind",
    "g": "g",
    "alpha": "alpha",
    "panel_coefficient": "coefficient",
}
STORED_TYPE = {"ring": np.int16, "kind": np.int8}
TWO_COLUMNS = ("points", "centres", "normals")
OPTIONAL = ("coefficient", "panel_coefficient")

SPLITS = ("train", "validation", "test")


@dataclass(frozen=True)
class Metadata:
    """What a dataset claims to be."""

    equation: str
    boundary: str
    corners: int | str
    resolution: int
    samples: int
    origin: str  # "generated", "published", "mended" or "spoilt"
    seed: int | None = None
    source_amplitude: float | None = None
    boundary_amplitude: float | None = None
    contrast: float | None = None
    alpha_range: tuple[float, float] | None = None
    beno_version: str = __version__

    @classmethod
    def of_family(cls, family: Family, seed: int, samples: int) -> "Metadata":
        return cls(**asdict(family), samples=samples, seed=seed, origin="generated")

    @classmethod
    def from_json(cls, text: str) -> "Metadata":
        stored = json.loads(text)
        if not isinstance(stored, dict):
            raise BenoError("its metadata is no JSON object")
        unknown = set(stored) - {field.name for field in fields(cls)}
        if unknown:
            raise BenoError(f"unknown metadata {', '.join(sorted(unknown))}")
        for name, kind in (
            ("equation", str),
            ("boundary", str),
            ("resolution", int),
            ("samples", int),
            ("origin", str),
        ):
            if type(stored.get(name)) is not kind:
                raise BenoError(f"its metadata has {stored.get(name)!r} for {name}; it must be {kind.__name__}")
        if stored["resolution"] < 1 or stored["samples"] < 1:
            raise BenoError("its metadata has a resolution or a number of samples below 1")
        if stored.get("alpha_range") is not None:
            stored["alpha_range"] = tuple(stored["alpha_range"])
        return cls(**stored)

    def to_json(self) -> str:
        return json.dumps(asdict(self))


def split_sizes(samples: int) -> tuple[int, int, int]:
    """A tenth to test; of the rest a tenth to validate.

    >>> split_sizes(1000)
    (810, 90, 100)
    """
    test = round(samples / 10)
    validation = round((samples - test) / 10)
    return samples - test - validation, validation, test


def split_numbers(samples: int) -> np.ndarray:
    return np.repeat(np.arange(3, dtype=np.uint8), split_sizes(samples))


@dataclass(frozen=True, eq=False)
class Block:
    """Some samples on end, as they lie in the file."""

    arrays: dict[str, np.ndarray]
    points: np.ndarray  # how many points each sample has
    panels: np.ndarray

    @classmethod
    def pack(cls, samples: list[Sample]) -> "Block":
        arrays = {}
        for group, names in (("points", POINT_ARRAYS), ("panels", PANEL_ARRAYS)):
            for field, name in names.items():
                parts = [getattr(sample, field) for sample in samples]
                if all(part is None for part in parts):
                    continue
                if any(part is None for part in parts):
                    raise BenoError(f"some samples have a {field} and some have none; a dataset holds one equation")
                arrays[f"{group}/{name}"] = np.concatenate(parts).astype(STORED_TYPE.get(field, np.float64))
        return cls(
            arrays,
            points=np.array([len(sample.u) for sample in samples]),
            panels=np.array([len(sample.g) for sample in samples]),
        )

    def __len__(self) -> int:
        return len(self.points)


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
                if lasting:
                    _append(file, name, values)
                else:
                    file[name] = values
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
    return [f"{group}/{name}" for group in ("points", "panels") for name in file[group]]


def _append(file: h5py.File, name: str, values: np.ndarray) -> None:
    if name not in file:
        geometry = values.dtype.kind == "i" or name.endswith(("position", "centre", "normal", "length", "alpha"))
        file.create_dataset(
            name,
            data=values,
            maxshape=(None, *values.shape[1:]),
            chunks=(ROWS_A_CHUNK, *values.shape[1:]),
            # Geometry shrinks to almost nothing; fields do not shrink, and would only cost time.
            **({"compression": "lzf", "shuffle": True} if geometry else {}),
        )
        return
    stored = file[name]
    stored.resize(len(stored) + len(values), axis=0)
    stored[-len(values) :] = values


class Dataset:
    """An open dataset: a sequence of samples, each read from disk when it is asked for."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = _open(self.path)
        try:
            self.metadata = self._read_metadata()
            self._point_offsets = self._offsets("points", POINT_ARRAYS)
            self._panel_offsets = self._offsets("panels", PANEL_ARRAYS)
            # Kept open: each holds the chunk that was read last.
            self._stored = {
                group: {name: self._file[group][name] for name in names.values() if name in self._file[group]}
                for group, names in (("points", POINT_ARRAYS), ("panels", PANEL_ARRAYS))
            }
            self.split_number = self._file["split"][:]
            if self.split_number.shape != (len(self),) or (self.split_number >= len(SPLITS)).any():
                raise ValueError(f"split does not name one of {', '.join(SPLITS)} for each sample")
        except (KeyError, TypeError, ValueError, AttributeError, OSError) as error:
            self._file.close()
            reason = error.args[0] if error.args else type(error).__name__
            raise BenoError(f"{self.path} is not a sound {FORMAT} file: {reason}") from error

    def __enter__(self) -> "Dataset":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._file.close()

    def __len__(self) -> int:
        return len(self._point_offsets) - 1

    def __iter__(self) -> Iterator[Sample]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Sample:
        """A sample with finite values; one with NaN or infinity is refused."""
        sample = self.read_unchecked(index)
        sample.require_finite(f"{self.path}, sample {index}")
        return sample

    def indices(self, split: str) -> np.ndarray:
        return np.flatnonzero(self.split_number == SPLITS.index(split))

    def read_unchecked(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"{self.path} has samples 0 to {len(self) - 1}, not {index}")
        arrays = self._read(slice(index, index + 1))
        named: dict[str, Any] = {
            field: arrays.get(f"{group}/{name}")
            for group, names in (("points", POINT_ARRAYS), ("panels", PANEL_ARRAYS))
            for field, name in names.items()
        }
        return Sample(resolution=self.metadata.resolution, **named)

    def block(self, start: int, stop: int) -> Block:
        return Block(
            self._read(slice(start, stop)),
            points=np.diff(self._point_offsets[start : stop + 1]),
            panels=np.diff(self._panel_offsets[start : stop + 1]),
        )

    def _read(self, samples: slice) -> dict[str, np.ndarray]:
        arrays = {}
        for group, offsets in (("points", self._point_offsets), ("panels", self._panel_offsets)):
            rows = slice(offsets[samples.start], offsets[samples.stop])
            for name, stored in self._stored[group].items():
                try:
                    arrays[f"{group}/{name}"] = stored[rows]
                except OSError as error:
                    raise BenoError(f"{self.path}: {group}/{name} cannot be read: {error}") from error
        return arrays

    def _read_metadata(self) -> Metadata:
        if self._file.attrs.get("format") != FORMAT:
            raise ValueError("it is HDF5, but was not written by beno")
        version = int(self._file.attrs["version"])
        if not 1 <= version <= VERSION:
            raise ValueError(f"it has format version {version}; this beno reads 1 to {VERSION}")
        return Metadata.from_json(self._file.attrs["metadata"])

    def _offsets(self, group: str, names: dict[str, str]) -> np.ndarray:
        offsets = self._file[f"offsets/{group}"][:]
        if len(offsets) != self.metadata.samples + 1 or offsets[0] != 0 or (np.diff(offsets) <= 0).any():
            raise ValueError(f"offsets/{group} do not fit its {self.metadata.samples} samples")
        for field, name in names.items():
            stored = self._file[group].get(name)
            if stored is None and field in OPTIONAL:
                continue
            if not isinstance(stored, h5py.Dataset) or stored.shape[:1] != (offsets[-1],):
                raise ValueError(f"{group}/{name} is missing or does not have {offsets[-1]} rows")
            columns = (2,) if field in TWO_COLUMNS else ()
            if stored.shape[1:] != columns or stored.dtype.kind != np.dtype(STORED_TYPE.get(field, float)).kind:
                raise ValueError(f"{group}/{name} has the wrong type or number of columns")
        return offsets


def _open(path: Path) -> h5py.File:
    if not path.exists():
        raise BenoError(f"{path} does not exist")
    if path.is_dir():
        raise BenoError(f"{path} is a folder; a dataset is one HDF5 file")
    try:
        return h5py.File(path, "r", rdcc_nbytes=CACHE_OF_AN_ARRAY)
    except OSError as error:
        raise BenoError(f"{path} is not a readable HDF5 file, or was cut short: {error}") from error
