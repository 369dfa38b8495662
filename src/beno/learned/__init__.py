"""Trained models as solvers, those that ship, and the choice among all solvers."""
