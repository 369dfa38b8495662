"""Learned operators for elliptic PDEs on domains of complex shape, with the exact solvers to trust them by."""

from typing import TYPE_CHECKING, Any

from beno.version import __version__

if TYPE_CHECKING:
    from beno.learned.shipped import load, solve

__all__ = ["__version__", "load", "solve"]


def __getattr__(name: str) -> Any:
    """``beno.load`` and ``beno.solve`` bring in torch, which takes a second; nothing else here does."""
    if name in ("load", "solve"):
        from beno.learned import shipped

        return getattr(shipped, name)
    raise AttributeError(f"module 'beno' has no attribute {name!r}")
