"""When a training has had enough: for good, or for now."""

import math
from dataclasses import dataclass

from beno.paper.budget import GPU_SECONDS, Effort
from beno.paper.sharing import Share
from beno.paper.tables import Training


@dataclass(frozen=True)
class Turn:
    training: Training
    effort: Effort
    share: Share
    device: str

    def is_had(self) -> bool:
        """The five minutes of a GPU, or what else is given."""
        seconds = self.effort.seconds or (GPU_SECONDS if self.device == "cuda" else math.inf)
        return not self.training.whole and self.share.seconds >= seconds

    def makes_room(self, epochs: int) -> bool:
        """For others, after so many epochs, to go on another time."""
        most = self.effort.config(self.training).epochs
        enough = self.share.seconds >= self.effort.for_now or epochs >= min(self.effort.epochs_for_now, most)
        return enough or self.is_had()
