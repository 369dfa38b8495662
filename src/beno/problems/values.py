"""From what a user gives for a field (a function, an array, a tensor, a number) to values at places."""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias, TypeGuard, TypeVar, cast

import numpy as np
from jaxtyping import Float

from beno.support.errors import BenoError

if TYPE_CHECKING:
    from torch import Tensor

    Rows: TypeAlias = np.ndarray | Tensor
    FieldLike: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray | float] | np.ndarray | Tensor | float
else:  # PyTorch is not imported to say what may be its own
    Rows = FieldLike = object

SameRows = TypeVar("SameRows", bound=Rows)  # arrays for arrays, tensors for tensors


def values_of(name: str, field: FieldLike, places: Float[np.ndarray, "m 2"], where: str) -> Float[np.ndarray, " m"]:
    """One value a place; ``where`` says what the places are called."""
    values = rows_of(name, field, places, where)
    if not isinstance(values, np.ndarray):
        raise BenoError(f"{name} is a tensor; it must be an array, a number or a function")
    if values.ndim != 1:
        raise BenoError(f"{name} has shape {tuple(values.shape)}; the domain has {len(places)} {where}")
    return values


def rows_of(name: str, field: FieldLike, places: Float[np.ndarray, "m 2"], where: str) -> Rows:
    """Values at the places, or a stack of rows of them; an array, or a tensor if one is given."""
    raw = field(places[:, 0], places[:, 1]) if callable(field) else field
    values = _as_tensor(name, raw, len(places)) if is_tensor(raw) else _as_array(name, raw, len(places))
    if values.ndim > 2 or values.shape[-1] != len(places):
        raise BenoError(f"{name} has shape {tuple(values.shape)}; the domain has {len(places)} {where}")
    finite = values.isfinite() if is_tensor(values) else np.isfinite(cast(np.ndarray, values))
    if not bool(finite.all()):
        at = np.argwhere(~np.asarray(finite.tolist()))[0].tolist()
        row = f" of row {at[0]}" if len(at) == 2 else ""
        raise BenoError(f"{name} is {float(values[tuple(at)])} at {where[:-1]} {at[-1]}{row}; it must be finite")
    return values


def alike(f: Rows, g: Rows) -> tuple[Rows, Rows]:
    """Both tensors if one is, and both stacks if one is."""
    if is_tensor(f) and not is_tensor(g):
        g = f.new_tensor(g)
    elif is_tensor(g) and not is_tensor(f):
        f = g.new_tensor(f)
    counts = {len(rows) for rows in (f, g) if rows.ndim == 2}
    counts = counts - {1} or counts
    if len(counts) > 1:
        raise BenoError(f"f has {len(f)} rows and g has {len(g)}; stacks must have as many, or one")
    for count in counts:
        return _expanded(f, (count, f.shape[-1])), _expanded(g, (count, g.shape[-1]))
    return f, g


def sizes(values: SameRows) -> SameRows:
    """Their absolute values."""
    return cast(SameRows, abs(cast(np.ndarray, values)))


def is_tensor(values: object) -> "TypeGuard[Tensor]":
    """Whether it is PyTorch's. That is not imported here: where there is a tensor, it has been."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(values, torch.Tensor)


def _as_array(name: str, raw: object, places: int) -> np.ndarray:
    """A copy, since the caller may change what is given."""
    try:
        given = np.asarray(raw)
        if np.iscomplexobj(given):
            raise BenoError(f"{name} is complex; real numbers are needed")
        values = np.array(given, dtype=float)
    except (TypeError, ValueError) as error:
        raise BenoError(f"{name} cannot be read as numbers: {error}") from error
    return values if values.ndim else np.full(places, values)


def _as_tensor(name: str, raw: "Tensor", places: int) -> "Tensor":
    if raw.is_complex():
        raise BenoError(f"{name} is complex; real numbers are needed")
    values = raw if raw.is_floating_point() else raw.double()
    return values if values.ndim else values.expand(places)


def _expanded(values: Rows, shape: tuple[int, ...]) -> Rows:
    return np.broadcast_to(values, shape).copy() if isinstance(values, np.ndarray) else values.expand(shape)
