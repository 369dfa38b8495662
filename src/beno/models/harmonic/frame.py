"""A problem in units of its own domain, and what a coefficient does on the way from a place to a panel."""

import math

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional

from beno.batches.panels import PanelBatch

SHARE_SCREENED = 0.7  # of the screening by the mean of q at both ends, which overrates what is between


class Frame:
    """Lengths in units of the domain: of the longer side of the box around its panels, from the box's centre."""

    def __init__(self, batch: PanelBatch) -> None:
        low, high = batch.centres.amin(dim=1, keepdim=True), batch.centres.amax(dim=1, keepdim=True)
        self.size = (high - low).amax(dim=2, keepdim=True)
        middle = (low + high) / 2
        self.points = (batch.points - middle) / self.size
        self.centres = (batch.centres - middle) / self.size
        self.lengths = batch.lengths / self.size[..., 0]
        self.alpha = batch.alpha * self.size[..., 0]
        self.ends = torch.cat([batch.ends[..., :4] / self.size, batch.ends[..., 4:]], dim=-1)


class Between:
    """What a coefficient does to a panel's measure on the way from a place: where q is positive, it screens.

    On a half-plane with constant q the kernel is ``r sqrt(q) K1(r sqrt(q))`` times the unscreened one.
    """

    def __init__(
        self,
        at_points: Float[Tensor, "s m 4"],
        at_panels: Float[Tensor, "s p 4"],
        ratio: Float[Tensor, "s m p"],
        distance: Float[Tensor, "s m p"],
    ) -> None:
        q = (at_points[:, :, None, 3] + at_panels[:, None, :, 3]) / 2
        depth = q.clamp(min=0).sqrt() * distance
        self.screening = SHARE_SCREENED * (torch.log1p(math.pi / 2 * depth) / 2 - depth)
        flat = q * distance.square()
        steep = [at_points[:, :, None, 1:3].norm(dim=-1) * distance, at_panels[:, None, :, 1:3].norm(dim=-1) * distance]
        columns = [ratio, self.screening, torch.asinh(flat), *(slope / 4 for slope in steep), depth / 2]
        self.features = functional.pad(torch.stack(torch.broadcast_tensors(*columns), dim=-1), (0, 8 - len(columns)))
