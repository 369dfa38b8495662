"""The folder of a training run: who holds it, its state, its best weights, and its log."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from beno.learned import checkpoints
from beno.learned.checkpoints import Header
from beno.learned.operator import BEST
from beno.support.errors import BenoError
from beno.support.files import LOCK, clear_left_behind, require_folder, require_own_folder, whole_file_or_none
from beno.support.locks import Lock
from beno.training.config import difference, fixed
from beno.training.records import EpochRecord, Outcome

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

STATE, LOG, BOARD = "state.safetensors", "log.jsonl", "tensorboard"


class RunFolder:
    """The files of a run: its state, its best weights, its logs, and the lock that keeps others out."""

    def __init__(self, path: Path) -> None:
        self.path, self.state, self.best, self.log = path, path / STATE, path / BEST, path / LOG
        self._lock = Lock(path / LOCK)
        self._board: SummaryWriter | None = None

    def claim(self, resume: bool) -> None:
        """Hold the folder until it is released: of two runs at once, each would undo what the other one writes."""
        if resume and not (self.state.exists() or self.log.exists()):  # killed in its first epoch, it has a log
            raise BenoError(f"{self.path} has no run to resume: {STATE} is missing")
        require_folder(self.path)
        self._lock.require(f"another run is training in {self.path}")
        if not resume and self.state.exists():
            raise BenoError(f"{self.path} holds a run already; --resume goes on with it, another folder starts anew")
        for place in (self.state, self.log, self.best):
            if place.is_symlink():
                raise BenoError(f"cannot write {place}: it is a link, where a run keeps a file of its own")
        require_own_folder(self.path / BOARD)
        clear_left_behind(self.path)
        self.log.touch()

    def release(self) -> None:
        self._lock.release()

    def open_logs(self, epoch: int) -> None:
        """Drop what was logged after the state that the run goes on from."""
        from torch.utils.tensorboard import SummaryWriter

        kept = [record for record in read_log(self.path) if record["epoch"] <= epoch]
        with whole_file_or_none(self.log) as unfinished:
            unfinished.write_text("".join(json.dumps(record) + "\n" for record in kept))
        self._board = SummaryWriter(str(self.path / BOARD), purge_step=epoch + 1)

    def write_log(self, record: EpochRecord) -> None:
        assert self._board is not None, "the logs are not open"
        with open(self.log, "a") as log:
            log.write(json.dumps(record.known) + "\n")
        for name, value in record.known.items():
            if name != "epoch" and value is not None:
                self._board.add_scalar(name, value, record.epoch)

    def close_logs(self) -> None:
        if self._board is not None:
            self._board.close()

    def save_best(self, header: Header, weights: dict[str, Tensor]) -> None:
        checkpoints.save(self.best, header, weights)

    def save_state(self, header: Header, tensors: dict[str, Tensor], seconds: float) -> None:
        checkpoints.save(self.state, header, {**tensors, "seconds": torch.tensor(seconds, dtype=torch.float64)})

    def load_state(self, expected: Header) -> tuple[Header, dict[str, Tensor], float]:
        """The state of a run that is the expected one."""
        header, tensors = checkpoints.load(self.state)
        for what, stored, given in (
            ("model", header.model, expected.model),
            ("settings", header.config, expected.config),
            ("data", asdict(header.data), asdict(expected.data)),
            ("training", fixed(header.training), fixed(expected.training)),
        ):
            if stored != given:
                raise BenoError(f"{self.path} was begun with another {what}: {difference(stored, given)}")
        return header, tensors, _seconds_of(self.state, tensors)


def _seconds_of(state: Path, tensors: dict[str, Tensor]) -> float:
    if "seconds" not in tensors:
        raise BenoError(f"{state} is no state of a run: seconds is missing")
    return float(tensors["seconds"])


def read_log(folder: Path) -> list[dict[str, Any]]:  # as JSON has it
    """What is logged of each epoch; a run that was killed may have left half a line at the end."""
    log = folder / LOG
    try:
        lines = log.read_text().splitlines() if log.exists() else []
        records = [json.loads(line) for line in lines if line.endswith("}")]
    except (OSError, ValueError) as error:
        raise BenoError(f"{log} is damaged: {error}") from error
    if not all(isinstance(record, dict) and "epoch" in record for record in records):
        raise BenoError(f"{log} is damaged: a line has no epoch")
    return records


def outcome_so_far(folder: Path, epochs: int) -> Outcome:
    """How a run that is to have so many epochs stands, by its folder."""
    header, tensors = checkpoints.load(folder / STATE)
    seconds = _seconds_of(folder / STATE, tensors)
    return Outcome(header.epoch, header.epoch >= epochs, header.validation_loss, seconds)
