"""Every table of the paper: who is trained on what, and tested on what.

Test data have seeds that training never saw; equal ones for all models.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

from beno.paper.reported import COLUMNS
from beno.problems.families import Family

TRAINING_SEED, TEST_SEED = 0, 100  # a test column adds its number of corners
Setting = bool | int | float | str
Settings = dict[str, Setting]
AUTHORS_SETTINGS: Settings = {"residual": True, "layer_norm": True}  # of their code; BENO learns faster with them
WITH_FAULT = "spoilt"  # what datasets and folders of trainings with the published fault are called in files


def testing_seed(family: Family) -> int:
    """The seed of the data that a column is tested on, the same for all rows."""
    return TEST_SEED + int(family.corners)


@dataclass(frozen=True)
class Training:
    """A model to be trained on a family. Equal trainings of several tables are done once."""

    model: str
    family: Family
    settings: Settings = field(default_factory=dict, hash=False)
    seed: int = 0
    changes: Settings = field(default_factory=dict, hash=False)  # to the model's preset
    with_fault: bool = False  # on data with the fault of the authors' published sample
    all_epochs: bool = False  # however long they take

    @property
    def name(self) -> str:
        """The name of its folder and of its curve."""
        parts = [self.model, self.family.name]
        parts += [f"{key}={value}" for key, value in sorted(self.settings.items()) if (key, value) not in UNNAMED]
        parts += [f"{key}={value}" for key, value in sorted(self.changes.items())]
        return "-".join([*parts, f"seed{self.seed}", *[WITH_FAULT] * self.with_fault, *["whole"] * self.all_epochs])

    @property
    def ships_as(self) -> str | None:
        """The operator in the package that came of it."""
        return SHIPPED.get(self.name)


UNNAMED = set(AUTHORS_SETTINGS.items())  # settings that stand in no name, since all of BENO's trainings have them


@dataclass(frozen=True, repr=False)
class Row:
    """A training, as a table has it, and what the paper calls it."""

    label: str
    training: Training
    paper_label: str | None = None  # of the row in the paper's table of the same name
    averaged: bool = False  # over the symmetries of the square, and both signs

    def __repr__(self) -> str:
        return f"Row({self.label!r}, {self.training.name})"


@dataclass(frozen=True, repr=False)
class Table:
    """Who is trained on what (rows), and tested on what (columns)."""

    name: str
    title: str
    columns: dict[str, Family]
    rows: tuple[Row, ...]
    with_fault: frozenset[str] = frozenset()  # columns with the fault of the authors' published sample
    keeps: Mapping[str, int] = field(default_factory=dict)  # how many predictions a cell keeps, by column

    def __repr__(self) -> str:
        return f"Table({self.name!r}: {len(self.rows)} rows, {len(self.columns)} columns)"

    def of_models(self, models: Collection[str]) -> "Table":
        return replace(self, rows=tuple(row for row in self.rows if row.training.model in models))


def _columns(equation: str = "poisson", boundary: str = "dirichlet", resolution: int = 32) -> dict[str, Family]:
    return {name: Family(equation, boundary, corners, resolution) for corners, name in COLUMNS.items()}


def _beno(family: Family, **settings: Setting) -> Training:
    return Training("beno", family, {**AUTHORS_SETTINGS, **settings})


def _all_models(family: Family, *names: str, beno: Training | None = None, seeds: int = 1) -> tuple[Row, ...]:
    """The baselines that the paper's table has, BENO, and the harmonic operator, which no table of the paper has."""
    rows = [Row(BASELINES[name], Training(name, family), BASELINES[name]) for name in names]
    rows.append(Row("BENO", beno or _beno(family), "BENO"))
    for seed in range(seeds):
        label = "harmonic" if seeds == 1 else f"harmonic, seed {seed}"
        rows.append(Row(label, Training("harmonic", family, seed=seed)))
    return tuple(rows)


def _without_and_with_fault(label: str, training: Training, changes: Settings) -> tuple[Row, Row]:
    """One training on right boundary values, and one on values with the published fault.

    They do without symmetries and parts, since a turned problem would have the wrong values on any of its sides.
    """
    changes = {"symmetries": False, "parts": 0, **changes}
    right, wrong = (replace(training, changes=changes, with_fault=with_fault) for with_fault in (False, True))
    return Row(f"{label}, right walls", right), Row(f"{label}, wrong walls", wrong)


def _fault(name: str, title: str, family: Family, for_fno: Settings) -> Table:
    """What the published sample's wrong boundary values do to models that are trained with them.

    FNO is trained from the start, and operators that ship go on with wrong values or with right ones for an equal time.
    """
    beno: Settings
    harmonic: Settings
    beno, harmonic = {**GOING_ON, "start": "beno-4-corners"}, {**GOING_ON, "start": "poisson-dirichlet"}
    return Table(
        name,
        title,
        {"4-Corners": family, "4-Corners, wrong walls": family},
        (
            *_without_and_with_fault("FNO", Training("fno", family), for_fno),
            Row("BENO as it ships", BENO_IN_FULL),
            *_without_and_with_fault("BENO, going on", _beno(family), beno),
            Row("harmonic as it ships", Training("harmonic", MIXED)),
            *_without_and_with_fault("harmonic, going on", Training("harmonic", family), harmonic),
        ),
        with_fault=frozenset({"4-Corners, wrong walls"}),
    )


def _from_what_ships(family: Family, label: str) -> Row:
    """BENO, started from the weights that ship.

    From random weights it takes long to learn anything where slopes are given, and longer with a coefficient.
    """
    return Row(f"BENO, from weights {label}", replace(_beno(family), changes={**SHORT, "start": "beno-4-corners"}))


SHORT: Settings = {"epochs": 112}  # both to the end of a cycle of the rate
LONGER: Settings = {"epochs": 240}
TWO_A_COLUMN = dict.fromkeys(COLUMNS.values(), 2)
NOTHING_TO_LEARN: Settings = {"epochs": 1}  # with g = 0 on a square the potential is the solution
KNOWING_VALUES = "that know values on the walls"
GOING_ON: Settings = {"epochs": 8, "first_restart": 8, "warm_up": 20}
BASELINES = {"gkn": "GKN", "fno": "FNO", "gnn-pde": "GNN-PDE", "mp-pde": "MP-PDE"}  # by model, as the paper calls them
FOUR, MIXED, NONE = Family(), Family(corners="mixed"), Family(corners=0)
ZERO, SQUARES = Family(boundary="zero"), Family(boundary="zero", corners=0)
NEUMANN, NEUMANN_MIXED = Family(boundary="neumann"), Family(boundary="neumann", corners="mixed")
DARCY, DARCY_MIXED = Family("darcy"), Family("darcy", corners="mixed")
FAINT = Family(source_amplitude=0.1)  # as in the published sample: next to nothing of u comes from f
MIXED_KINDS = Family(boundary="mixed", corners="mixed")

BENO_IN_FULL = replace(_beno(FOUR), all_epochs=True)
HARMONIC = Row("harmonic", Training("harmonic", FOUR))
# The paper's text has the models of its table with g = 0 trained with other values; the header row in it, with zero.
TRAINED_WITH_VALUES = (
    Row("GNN-PDE, trained with values on the walls", Training("gnn-pde", FOUR)),
    Row("MP-PDE, trained with values on the walls", Training("mp-pde", FOUR)),
    Row("BENO, trained with values on the walls", BENO_IN_FULL),
    Row("harmonic, trained with values, on mixed shapes", Training("harmonic", MIXED)),
)
SHIPPED = {
    BENO_IN_FULL.name: "beno-4-corners",
    **{
        Training("harmonic", family).name: name
        for name, family in {
            "poisson-dirichlet": MIXED,
            "poisson-neumann": NEUMANN_MIXED,
            "poisson-mixed": MIXED_KINDS,
            "darcy-dirichlet": DARCY_MIXED,
        }.items()
    },
}

ABLATIONS: dict[str, Settings] = {
    "BENO w. M": {"boundary_in_nodes": False},
    "BENO w/o. D": {"two_branches": False},
    "BENO w. E": {"boundary_in_messages": True},
    "BENO w. G": {"boundary_convolution": True},
    "BENO": {},
}

# In the order in which they are filled.
TABLES = {
    table.name: table
    for table in (
        Table(
            "train_4_corners",
            "Trained on 4-Corners",
            _columns(),
            (
                *_all_models(FOUR, *BASELINES, beno=BENO_IN_FULL, seeds=3),
                Row("BENO, mean over symmetries", BENO_IN_FULL, averaged=True),
                Row("BENO, the paper's equations", _beno(FOUR, residual=False, layer_norm=False)),
            ),
            keeps=TWO_A_COLUMN,
        ),
        Table(
            "train_mixed",
            "Trained on mixed shapes",
            _columns(),
            _all_models(MIXED, *BASELINES),
            keeps=TWO_A_COLUMN,
        ),
        Table(
            "ablation",
            "Parts of BENO, trained on 4-Corners",
            _columns(),
            (*(Row(label, _beno(FOUR, **change), label) for label, change in ABLATIONS.items()), HARMONIC),
        ),
        Table("train_no_corner", "Trained on No-Corner", _columns(), _all_models(NONE, *BASELINES)),
        Table(
            "zero_boundary",
            "Trained on 4-Corners, zero boundary values",
            _columns(boundary="zero"),
            (*_all_models(ZERO, "gnn-pde", "mp-pde"), *TRAINED_WITH_VALUES),
            keeps={"4-Corners": 2},
        ),
        Table(
            "resolution_64",
            "Trained on 4-Corners at 32², tested at 64², zero boundary values",
            _columns(boundary="zero", resolution=64),
            (*_all_models(ZERO, "mp-pde"), *TRAINED_WITH_VALUES[1:]),  # the paper's has no GNN-PDE
            keeps={"4-Corners": 2},
        ),
        Table(
            "neumann_train_4_corners",
            "Neumann, trained on 4-Corners",
            _columns(boundary="neumann"),
            (*_all_models(NEUMANN, *BASELINES), _from_what_ships(NEUMANN, KNOWING_VALUES)),
        ),
        Table(
            "neumann_train_mixed",
            "Neumann, trained on mixed shapes",
            _columns(boundary="neumann"),
            (*_all_models(NEUMANN_MIXED, *BASELINES), _from_what_ships(NEUMANN_MIXED, KNOWING_VALUES)),
        ),
        Table(
            "darcy_train_4_corners",
            "Darcy, trained on 4-Corners",
            _columns(equation="darcy"),
            (*_all_models(DARCY, "mp-pde"), _from_what_ships(DARCY, "for Poisson's equation")),
        ),
        Table(
            "sensitivity",
            "MLP layers M and boundary layers L of BENO, trained on 4-Corners",
            {"4-Corners": FOUR},
            (
                *(
                    Row(f"M = {m}, L = {ell}", replace(_beno(FOUR, mlp_layers=m, boundary_layers=ell), changes=SHORT))
                    for m in (2, 3, 4)
                    for ell in (1, 2, 3)
                ),
                HARMONIC,
            ),
        ),
        # What the paper has no table of. Each baseline on a problem that it can do:
        Table(
            "squares",
            "Whole squares with g = 0",
            {"No-Corner": SQUARES},
            (
                *(
                    replace(row, training=replace(row.training, changes=LONGER))
                    for row in _all_models(SQUARES, *BASELINES)
                    if row.training.model in BASELINES
                ),
                Row("harmonic", Training("harmonic", SQUARES, changes=NOTHING_TO_LEARN)),
            ),
        ),
        _fault("published_fault", "Trained with the published sample's wrong walls", FOUR, {}),
        _fault("published_source", "The same with the published sample's faint source", FAINT, LONGER),
        # What ships:
        Table(
            "darcy_train_mixed",
            "Darcy, trained on mixed shapes",
            _columns(equation="darcy"),
            _all_models(DARCY_MIXED)[1:],
        ),
        Table(
            "kinds_train_mixed",
            "Mixed kinds of walls, trained on mixed shapes",
            _columns(boundary="mixed"),
            _all_models(MIXED_KINDS)[1:],
        ),
    )
}
