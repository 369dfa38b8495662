"""An open dataset: a sequence of solutions, each read from disk when it is asked for."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from types import TracebackType

import h5py
import numpy as np
from jaxtyping import Int

from beno.datasets.hdf5 import FIELD_AT, FORMAT, GROUPS, VERSION, Block
from beno.datasets.metadata import Metadata
from beno.datasets.records import Record
from beno.datasets.splits import SPLITS
from beno.problems.fields import BY_NAME, FIELDS, Field
from beno.problems.law import LAWS
from beno.problems.solution import Solution
from beno.problems.walls import Kind
from beno.support.errors import BenoError

CACHE_OF_AN_ARRAY = 2**20  # bytes: sixteen of the largest chunks; HDF5 2 would take 8 MiB for each array


class Dataset:
    """An open dataset: a sequence of samples, each read from disk when it is asked for."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = _open(self.path)
        try:
            self._version = self._read_version()
            self.metadata = Metadata.from_json(self._file.attrs["metadata"])
            self._start = {group: self._read_offsets(group) for group in GROUPS}
            # Kept open: each holds the chunk that was read last.
            self._stored = {place: self._file[place] for place in FIELD_AT if place in self._file}
            self._kinds = self._read_kinds()
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

    def __getstate__(self) -> dict[str, Path]:
        """A process that it is sent to opens the file for itself."""
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Path]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]

    def __repr__(self) -> str:
        data = self.metadata
        return f"Dataset({str(self.path)!r}: {len(self)} samples, {data.equation}, {data.boundary} boundary)"

    def __len__(self) -> int:
        return len(self._start["points"]) - 1

    def __iter__(self) -> Iterator[Solution]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> Solution:
        """A solution with finite values on a domain that there can be; what is not that is refused."""
        record = self.record(index)
        record.require_finite(f"{self.path}, sample {index}")
        try:
            return record.solution()
        except BenoError as error:
            raise BenoError(f"{self.path}, sample {index}: {error}; `beno data check` says more") from error

    def __getitems__(self, indices: Sequence[int]) -> list[dict[str, np.ndarray]]:
        """What PyTorch's `DataLoader` asks for, so that it can stack them: the arrays of solutions by the names in
        `problems.fields`, padded with zeros to the longest. ``has_point`` and ``has_panel`` say what is not padding."""
        records = [Record.of(self[int(index)]).values for index in indices]
        longest = {on: max(len(record[name]) for record in records) for on, name in (("points", "u"), ("panels", "g"))}
        padded = [{name: _padded(v, longest[BY_NAME[name].on]) for name, v in record.items()} for record in records]
        for record, arrays in zip(records, padded, strict=True):
            arrays["has_point"] = np.arange(longest["points"]) < len(record["u"])
            arrays["has_panel"] = np.arange(longest["panels"]) < len(record["g"])
        return padded

    def indices(self, split: str) -> np.ndarray:
        return np.flatnonzero(self.split_number == SPLITS.index(split))

    def record(self, index: int) -> Record:
        """What the file says of a sample, unchecked."""
        if not 0 <= index < len(self):
            raise IndexError(f"{self.path} has samples 0 to {len(self) - 1}, not {index}")
        arrays = self._read(index, index + 1)
        return Record(self.metadata.resolution, {FIELD_AT[place].name: array for place, array in arrays.items()})

    def records(self) -> Iterator[Record]:
        return (self.record(index) for index in range(len(self)))

    def block(self, start: int, stop: int) -> Block:
        points, panels = (np.diff(self._start[group][start : stop + 1]) for group in GROUPS)
        return Block(self._read(start, stop), points, panels)

    def _read(self, start: int, stop: int) -> dict[str, np.ndarray]:
        """The arrays of some samples on end, by their places."""
        arrays = {}
        for place, stored in self._stored.items():
            offsets = self._start[FIELD_AT[place].on]
            try:
                arrays[place] = stored[offsets[start] : offsets[stop]]
            except OSError as error:
                raise BenoError(f"{self.path}: {place} cannot be read: {error}") from error
            if FIELD_AT[place].name == "kind" and self._kinds is not None:
                arrays[place] = self._kinds[arrays[place]]
        return arrays

    def _read_version(self) -> int:
        if self._file.attrs.get("format") != FORMAT:
            raise ValueError("it is HDF5, but was not written by beno")
        version = int(self._file.attrs["version"])
        if not 1 <= version <= VERSION:
            raise ValueError(f"it has format version {version}; this beno reads 1 to {VERSION}")
        return version

    def _read_kinds(self) -> Int[np.ndarray, " numbers"] | None:
        """What this version calls each number of the file's kinds; None if they are the same.

        Files of version 1 have no names for them, and the numbers that this version has.
        """
        stored = self._stored["panels/kind"].dtype
        names = h5py.check_enum_dtype(stored)
        if names is None or names == {kind.label: kind.value for kind in Kind}:
            return None
        known = {kind.label: kind.value for kind in Kind}
        if unknown := set(names) - set(known):
            raise ValueError(f"it has {', '.join(sorted(unknown))} walls; this beno has {', '.join(known)}")
        if stored.itemsize > 1:
            raise ValueError("its kinds of walls are numbers of more than one byte")
        table = np.full(2**8, -1, dtype=np.int8)  # by the number as a byte; -1 is no kind at all
        for name, number in names.items():
            table[number] = known[name]
        return table

    def _read_offsets(self, group: str) -> Int[np.ndarray, " samples_plus_one"]:
        offsets = self._file[f"offsets/{group}"][:]
        if len(offsets) != self.metadata.samples + 1 or offsets[0] != 0 or (np.diff(offsets) <= 0).any():
            raise ValueError(f"offsets/{group} do not fit its {self.metadata.samples} samples")
        coefficients = LAWS[self.metadata.equation].coefficients()
        for field in (one for one in FIELDS if one.on == group):
            stored = self._file[group].get(field.stored_as)
            not_asked_for = field.part_of == "law" and field.name not in coefficients
            if stored is None and (not_asked_for or field.since > self._version):
                continue
            self._require_fit(field, stored, int(offsets[-1]))
        return offsets

    @staticmethod
    def _require_fit(field: Field, stored: object, rows: int) -> None:
        name = f"{field.on}/{field.stored_as}"
        if not isinstance(stored, h5py.Dataset) or stored.shape[:1] != (rows,):
            raise ValueError(f"{name} is missing or does not have {rows} rows")
        if stored.shape[1:] != field.columns or stored.dtype.kind != np.dtype(field.dtype).kind:
            raise ValueError(f"{name} has the wrong type or number of columns")


def _padded(values: np.ndarray, rows: int) -> np.ndarray:
    """In single precision, as networks take it."""
    longer = np.zeros((rows, *values.shape[1:]), dtype=np.float32 if values.dtype.kind == "f" else np.int64)
    longer[: len(values)] = values
    return longer


def _open(path: Path) -> h5py.File:
    if not path.exists():
        raise BenoError(f"{path} does not exist")
    if path.is_dir():
        raise BenoError(f"{path} is a folder; a dataset is one HDF5 file")
    try:
        return h5py.File(path, "r", rdcc_nbytes=CACHE_OF_AN_ARRAY)
    except OSError as error:
        raise BenoError(f"{path} is not a readable HDF5 file, or was cut short: {error}") from error
