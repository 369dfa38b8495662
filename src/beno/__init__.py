"""Learned operators for elliptic PDEs on domains of complex shape, with the exact solvers to trust them by."""

__version__ = "0.1.0"
