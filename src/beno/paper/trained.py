"""What is known of a training that was done: what it was told, how far it came, and on what machine.

Cells, curves and the folders of trainings all keep it.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import cache

from beno.paper.json_files import Checked, Damaged, Stored
from beno.support.provenance import provenance


def origin() -> Stored:
    """The commit, the machine, the versions and the time, for what this process makes now."""
    return _of_this_process() | {"date": datetime.now(UTC).isoformat(timespec="seconds")}


@cache
def _of_this_process() -> Stored:
    """Asked once, as it takes time and the code was loaded once, whatever has been done to the files since."""
    return provenance()


@dataclass(frozen=True)
class Machine:
    """The device and the processor that something ran on."""

    cpu: str | None = None
    gpu: str | None = None
    cores: int | None = None

    @classmethod
    def this(cls) -> "Machine":
        return cls.read(Checked(origin()).part("device"))

    @classmethod
    def read(cls, stored: Checked) -> "Machine":
        cores = stored.values.get("cores")
        return cls(stored.text_or_none("cpu"), stored.text_or_none("gpu"), cores if isinstance(cores, int) else None)

    @property
    def name(self) -> str:
        """The device that counts for speed."""
        return self.gpu or self.cpu or "?"


@dataclass(frozen=True)
class Trained:
    """What a cell says of the training behind it."""

    model: str
    settings: Mapping[str, object]
    training: Mapping[str, object]  # the configuration
    epochs: int
    best_epoch: int
    seconds: float  # by the clock
    device_seconds: float  # its share of the device's, where others trained beside it
    parameters: int
    seed: int
    device: Machine
    commit: str = ""
    unfinished: bool = False  # it is to go on

    @classmethod
    def read(cls, stored: Checked) -> "Trained":
        trained = cls(
            model=stored.text("model"),
            settings=stored.object("settings"),
            training=stored.object("training"),
            epochs=stored.count("epochs"),
            best_epoch=stored.count("best_epoch"),
            seconds=stored.amount("seconds"),
            device_seconds=stored.amount("device_seconds"),
            parameters=stored.count("parameters"),
            seed=stored.count("seed"),
            device=Machine.read(stored.part("device")),
            commit=stored.text_or_none("commit") or "",
            unfinished=stored.flag("unfinished"),
        )
        if trained.best_epoch > trained.epochs:
            raise Damaged(f"{stored.within}best_epoch is larger than epochs")
        return trained

    def to_store(self) -> Stored:
        return asdict(self)

    def is_same_run(self, other: "Trained") -> bool:
        """Whether two trainings are one: no two take the same time to the last digit."""
        numbers = ("epochs", "best_epoch", "seconds", "device_seconds", "parameters", "seed")
        return all(getattr(self, name) == getattr(other, name) for name in numbers)

    def is_behind(self, other: "Trained") -> bool:
        """Whether it is to go on, and has not come as far yet as another training of its kind."""
        return self.unfinished and self.epochs < other.epochs


def trained_from_version_1(trained: object) -> object:
    """The same as the second version has it."""
    if not isinstance(trained, dict):
        return trained
    return {"unfinished" if name == "stopped" else name: value for name, value in trained.items()}
