"""Known to every room, and knowing none."""

__version__ = "0.1.0"
