"""What the models that pass messages know of a node: the same for all baselines."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from beno.batches.graphs import GraphBatch
from beno.models.base import ConfigWithKinds, Setting
from beno.problems.families import ProblemClass

LENGTH_UNIT = 12**-0.5  # the deviation of a coordinate that is uniform on the unit interval


@dataclass(frozen=True)
class NodeConfig(ConfigWithKinds):
    """What a node's features must tell, apart from f and Dirichlet values: the coefficient, the kinds of walls."""

    coefficient: bool = False
    kinds: bool = False

    @classmethod
    def settings_for(cls, problems: ProblemClass) -> dict[str, Setting]:
        told = {"coefficient": not problems.is_uniform, "kinds": problems.varies_in_kind}
        return {**super().settings_for(problems), **told}

    @property
    def kind_columns(self) -> int:
        """How many columns tell the kind and alpha; none where they are not told."""
        return (len(self.kind_numbers) + 1) * self.kinds

    @property
    def node_columns(self) -> int:
        return 6 + self.coefficient + self.kind_columns


def node_features(batch: GraphBatch, config: NodeConfig) -> Float[Tensor, "n columns"]:
    """Place, f, g, and which of interior and boundary it is; the coefficient, and the kind of wall, where they vary."""
    place = (batch.points - 0.5) / LENGTH_UNIT
    columns = [place, batch.source[:, None], batch.boundary_value[:, None], batch.inside[:, None]]
    columns.append(1 - batch.inside[:, None])
    if config.coefficient:
        columns.append(batch.log_coefficient[:, None])
    if config.kinds:
        columns += [config.told_kinds(batch.boundary_kind), batch.boundary_alpha[:, None]]
    return torch.cat(columns, dim=1)


def offsets(batch: GraphBatch) -> Float[Tensor, "e 2"]:
    """From each edge's sender to its receiver."""
    return (batch.points[batch.wiring.receiver] - batch.points[batch.wiring.sender]) / LENGTH_UNIT
