"""What the baselines know of a node: the same for all of them."""

import torch
from jaxtyping import Float
from torch import Tensor

from beno.batches.graphs import Batch
from beno.datasets.dataset import Metadata
from beno.problems.problem import Kind

LENGTH_UNIT = 12**-0.5  # the deviation of a coordinate that is uniform on the unit interval


def node_columns(coefficient: bool, kinds: bool) -> int:
    return 6 + coefficient + (len(Kind) + 1) * kinds


def settings_for(data: Metadata) -> dict[str, bool]:
    return {"coefficient": data.equation == "darcy", "kinds": data.boundary in ("mixed", "robin")}


def node_features(batch: Batch, coefficient: bool, kinds: bool) -> Float[Tensor, "n columns"]:
    """Place, f, g, and which of interior and boundary it is; the coefficient, and the kind of wall, where they vary."""
    place = (batch.points - 0.5) / LENGTH_UNIT
    columns = [place, batch.source[:, None], batch.boundary_value[:, None], batch.inside[:, None]]
    columns.append(1 - batch.inside[:, None])
    if coefficient:
        columns.append(batch.log_coefficient[:, None])
    if kinds:
        of_kind = batch.boundary_kind[:, None] == torch.arange(len(Kind), device=place.device)
        columns += [of_kind.to(place.dtype), batch.boundary_alpha[:, None]]
    return torch.cat(columns, dim=1)


def offsets(batch: Batch) -> Float[Tensor, "e 2"]:
    """From each edge's sender to its receiver."""
    return (batch.points[batch.wiring.receiver] - batch.points[batch.wiring.sender]) / LENGTH_UNIT
