"""What PyTorch hands to the two passes of a function of our own."""

from typing import Protocol, runtime_checkable

from torch import Tensor

Gradients = Tensor | None | tuple[Tensor | None, ...]


@runtime_checkable  # for the shape checks of the tests
class Context(Protocol):
    """Kept from the forward pass for the backward one."""

    saved_tensors: tuple[Tensor, ...]

    def save_for_backward(self, *tensors: Tensor | None) -> None: ...
