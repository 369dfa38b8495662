"""Exact solvers of the scheme on any device, in PyTorch, many right-hand sides or many problems at once.

They are imported late: the rest of the solvers needs no PyTorch.
"""
