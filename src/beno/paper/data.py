"""The datasets that the tables' models are trained and tested on, made when they are first needed."""

from dataclasses import asdict, dataclass, replace
from pathlib import Path

from beno.datasets.dataset import Dataset
from beno.datasets.hdf5 import Block, write
from beno.datasets.making import make
from beno.datasets.metadata import Metadata
from beno.datasets.published import with_published_fault
from beno.paper.budget import Budget
from beno.paper.json_files import REMEDY
from beno.paper.tables import TRAINING_SEED, WITH_FAULT, Table, Training, testing_seed
from beno.problems.families import Family
from beno.support.errors import BenoError
from beno.support.files import require_folder
from beno.support.locks import Lock
from beno.training.config import difference


@dataclass(frozen=True)
class DataFolder:
    """The datasets that tables are made from, each made when it is first needed."""

    folder: Path
    budget: Budget

    def of_training(self, training: Training) -> Path:
        family = self.budget.family(training.family)
        return self.path(family, TRAINING_SEED, self.budget.samples, training.with_fault)

    def of_test(self, table: Table, column: str) -> Path:
        family = self.budget.family(table.columns[column])
        return self.path(family, testing_seed(family), self.budget.test_samples, column in table.with_fault)

    def path(self, family: Family, seed: int, samples: int, with_fault: bool = False) -> Path:
        """The file of a dataset, which is made if it is not there; with the published fault if that is asked for."""
        path = self.folder / f"{family.name}-{seed}{f'-{WITH_FAULT}' * with_fault}.h5"
        expected = metadata_of(family, seed, samples, with_fault)
        right = self.path(family, seed, samples) if with_fault else None
        require_folder(path.parent)
        with Lock(path.with_suffix(".lock")) as lock:
            lock.take(wait=True)
            if not path.exists() and right is not None:
                with Dataset(right) as dataset:
                    write(path, expected, (Block.pack([with_published_fault(solution)]) for solution in dataset))
            elif not path.exists():
                make(family, seed, samples, path)
        try:
            with Dataset(path) as dataset:
                other = data_difference(dataset.metadata, expected)
        except BenoError as error:
            raise BenoError(f"{error}; if it is damaged, {REMEDY}") from error
        if other:
            raise BenoError(f"{path} holds other data: {other}: use another folder")
        return path


def metadata_of(family: Family, seed: int, samples: int, with_fault: bool) -> Metadata:
    metadata = Metadata.of_family(family, seed, samples)
    return replace(metadata, origin=WITH_FAULT) if with_fault else metadata


def data_difference(found: Metadata, expected: Metadata) -> str:
    """What two datasets differ in, whichever beno and solver made them; what an older one could not choose yet was the
    default."""
    usual = asdict(Family(found.equation, found.boundary))
    known = {name: usual.get(name) if value is None else value for name, value in asdict(found).items()}
    return difference(known, asdict(expected) | {"beno_version": found.beno_version, "solver": found.solver})
