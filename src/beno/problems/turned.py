"""Turned, mirrored, or with the opposite sign, a solved problem is a solved problem."""

from typing import TypeVar

from beno.geometry.symmetries import about_centre, matrix, turned_domain
from beno.problems.fields import moved, signed, taken
from beno.problems.problem import Problem
from beno.problems.solution import Solution

Posed = TypeVar("Posed", bound=Problem | Solution)


def turned(posed: Posed, symmetry: int) -> Posed:
    """A problem, or its solution, turned or mirrored about the square's centre."""
    if symmetry == 0:
        return posed
    domain = posed.domain if isinstance(posed, Problem) else posed.problem.domain
    new_domain, points, panels = turned_domain(domain, symmetry)
    move = matrix(symmetry)

    values = moved(
        taken(posed.values, points, panels),
        place=lambda places: about_centre(places, move),
        vector=lambda vectors: vectors @ move.T,
    )
    return type(posed).from_values(new_domain, values)  # type: ignore[return-value]


def with_sign(posed: Posed, sign: int | float) -> Posed:
    """The same with f, g and u times a sign."""
    domain = posed.domain if isinstance(posed, Problem) else posed.problem.domain
    return type(posed).from_values(domain, signed(posed.values, sign))  # type: ignore[return-value]
