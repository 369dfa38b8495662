"""Exact solvers of the scheme: prepared once for an L, applied to any number of right-hand sides."""
