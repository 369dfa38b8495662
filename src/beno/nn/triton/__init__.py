"""Triton kernels, each tested against the plain layers that it stands for."""
