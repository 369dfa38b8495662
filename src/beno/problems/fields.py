"""What a solved problem is made of, as one table.

Storing, taking, turning, signing, restricting and batching go by it. A field of the operator or of the right-hand
side is one line here, under the name that it has in the type that holds it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Int

Values = dict[str, np.ndarray]
Index = slice | Int[np.ndarray, " _"]  # points and panels have one each, of any length


@dataclass(frozen=True)
class Field:
    """One field of a sample: where it stands, its form, and what it is part of."""

    name: str
    on: Literal["points", "panels"]
    stored_as: str  # its name in a file, within the group of points or panels
    form: Literal["scalar", "vector", "place"] = "scalar"  # vectors and places have two columns
    part_of: Literal["geometry", "law", "walls", "data"] = "data"  # data are linear: they change sign together
    dtype: type[np.generic] = np.float64
    since: int = 1  # the version of the datasets' format; older files need not have it

    @property
    def columns(self) -> tuple[int, ...]:
        return () if self.form == "scalar" else (2,)


FIELDS = (
    Field("points", "points", "position", "place", "geometry"),
    Field("f", "points", "source"),
    Field("u", "points", "u"),
    Field("coefficient", "points", "coefficient", part_of="law"),
    Field("centres", "panels", "centre", "place", "geometry"),
    Field("normals", "panels", "normal", "vector", "geometry"),
    Field("lengths", "panels", "length", part_of="geometry"),
    Field("ring", "panels", "ring", part_of="geometry", dtype=np.int16),
    Field("kind", "panels", "kind", part_of="walls", dtype=np.int8),
    Field("g", "panels", "g"),
    Field("alpha", "panels", "alpha", part_of="walls"),
    Field("panel_coefficient", "panels", "coefficient", part_of="law"),
)
BY_NAME = {field.name: field for field in FIELDS}


def taken(values: Mapping[str, np.ndarray], points: Index, panels: Index) -> Values:
    """Some of the points and panels, in the order given."""
    index = {"points": points, "panels": panels}
    return {name: column[index[BY_NAME[name].on]] for name, column in values.items()}


def signed(values: Mapping[str, np.ndarray], sign: int | float) -> Values:
    """The same problem with its data times a sign, or any other number."""
    return {name: sign * column if BY_NAME[name].part_of == "data" else column for name, column in values.items()}


def moved(
    values: Mapping[str, np.ndarray],
    place: Callable[[np.ndarray], np.ndarray],
    vector: Callable[[np.ndarray], np.ndarray],
) -> Values:
    """Places and vectors moved, each as it is; scalars stay."""
    move = {"place": place, "vector": vector, "scalar": lambda column: column}
    return {name: move[BY_NAME[name].form](column) for name, column in values.items()}
