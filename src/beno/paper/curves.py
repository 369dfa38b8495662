"""How trainings went, epoch by epoch, one JSON file each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from beno.paper.json_files import REMEDY, Checked, Damaged, FileFormat, Stored
from beno.paper.tables import Training
from beno.paper.trained import Trained, trained_from_version_1
from beno.support.errors import BenoError


@dataclass(frozen=True)
class Curve:
    """The epochs after which the validation samples were looked at, and what was found then."""

    trained: Trained
    epoch: list[float]
    train_loss: list[float]
    validation_relative_l2: list[float]

    @classmethod
    def read(cls, stored: Checked) -> "Curve":
        epoch, train_loss, error = (stored.numbers(name) for name in QUANTITIES)
        if not len(epoch) == len(train_loss) == len(error):
            raise Damaged(f"{', '.join(QUANTITIES)} are not of one length")
        return cls(Trained.read(stored.part("trained")), epoch, train_loss, error)


QUANTITIES = ("epoch", "train_loss", "validation_relative_l2")


def curve_from_version_1(stored: Stored) -> Stored:
    return stored | {"trained": trained_from_version_1(stored.get("trained"))}


CURVE = FileFormat("beno-curve", (curve_from_version_1,))


@dataclass(frozen=True)
class Curves:
    """A folder of curves."""

    folder: Path
    smoke: bool = False

    def path(self, training: Training) -> Path:
        return self.folder / f"{training.name}.json"

    def read(self, training: Training) -> Curve | None:
        """None if none was kept."""
        path = self.path(training)
        if not path.exists():
            return None
        try:
            return Curve.read(Checked(CURVE.read(path, self.smoke)))
        except Damaged as error:
            raise BenoError(f"{path} is damaged: {error}; {REMEDY}") from error

    def write(self, training: Training, records: Sequence[Mapping[str, int | float | None]], trained: Trained) -> None:
        """From the log of a training; not if it says nothing, nor in the place of a training that came further."""
        looked = [record for record in records if record.get("validation_relative_l2") is not None]
        kept = self.read(training) if looked else None
        if not looked or (kept is not None and trained.is_behind(kept.trained)):
            return
        content: Stored = {"trained": trained.to_store(), "epoch": [record["epoch"] for record in looked]}
        for name in ("train_loss", "validation_relative_l2"):
            content[name] = [float(f"{record[name]:.4g}") for record in looked]
        CURVE.write(self.path(training), self.smoke, content)
