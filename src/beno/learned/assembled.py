"""A harmonic operator on one shape as a matrix: like a factorisation, made once for any number of right-hand sides."""

from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from beno.batches.coefficient_features import COLUMNS
from beno.batches.panels import DenseBatch, Reduced, media
from beno.geometry.bare_panels import Shape
from beno.geometry.corners import wall_ends
from beno.nn.box_potential import BoxPotential
from beno.problems.problem import Field, Kind, Problem
from beno.solvers.factorised_box import FactorisedPotential
from beno.support.errors import BenoError

UNBALANCED = 1e-4  # relative to the flows involved, which come in single precision


class AssembledOperator:
    """``u = v + W (g - trace of v)``, with W held in single precision where the operator is."""

    def __init__(
        self,
        model: Any,
        shape: Shape,
        kind: Int[np.ndarray, " p"],
        alpha: Float[np.ndarray, " p"],
        problem: Problem | None = None,
        half_precision: bool = False,
    ) -> None:
        """``problem`` has the grid and the coefficient; without one there are none, and f must be 0."""
        self.shape, self._problem, self._kind = shape, problem, kind
        device = next(model.parameters()).device
        panels, points = len(shape.lengths), len(shape.points)
        self._unit = self._tensor(np.where(self._kind == Kind.ROBIN, alpha, 1.0), device)
        self._alpha = self._tensor(alpha, device)
        self._is_free = bool((self._kind == Kind.NEUMANN).all())
        kappa = None if problem is None else problem.coefficient
        nothing = np.zeros((points, COLUMNS)), np.zeros((panels, COLUMNS))
        medium, medium_at_panels = nothing if problem is None else media(problem, shape.points, kappa)
        reduced = Reduced(
            points=shape.points,
            walls=shape.walls,
            potential=np.zeros((points, 2)),
            medium=medium,
            u=np.zeros(points),
            centres=shape.centres,
            normals=shape.normals,
            lengths=shape.lengths,
            ends=wall_ends(shape.normals, shape.lengths, shape.ring, self._kind).as_columns(),
            left=np.zeros((panels, 2)),
            kind=self._kind,
            alpha=alpha,
            medium_at_panels=medium_at_panels,
        )
        batch = DenseBatch.of_one(reduced, device)
        with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=half_precision):
            parts = [part[0].float() for part in model.kernel(batch)]
            nothing_yet = torch.empty(0, panels, device=device)
            self.matrix: Float[Tensor, "n p"] = parts[0] if len(parts) == 1 else torch.cat([nothing_yet, *parts])
        self._potential: BoxPotential | None = None
        if problem is not None and kappa is None:
            dtype = torch.float32 if device.type == "cuda" else torch.float64
            self._potential = BoxPotential(problem.domain, self._kind, device, dtype)

    @cached_property
    def _in_medium(self) -> FactorisedPotential:
        assert self._problem is not None
        return FactorisedPotential(self._problem)

    @property
    def device(self) -> torch.device:
        return self.matrix.device

    def __call__(self, f: Field | Tensor = 0.0, g: Field | Tensor = 0.0) -> Any:
        """u at the points. Stacks, of k rows each, are solved together; tensors come back as tensors.

        f and g are otherwise what `beno.problems.problem.poisson` takes: functions of (x, y), arrays or numbers.
        """
        rows = self._rows("f", f), self._rows("g", g)
        counts = {len(one) for one in rows} - {1}
        if len(counts) > 1:
            raise BenoError(f"f has {len(rows[0])} rows and g has {len(rows[1])}; stacks must have as many, or one")
        solved = self._solve(*rows)
        if not bool(torch.isfinite(solved).all()):
            raise BenoError("the operator's answer is not finite: f or g is too large for single precision")
        stacked = any(np.ndim(field) == 2 for field in (f, g) if not callable(field))
        solved = solved if stacked else solved[0]
        return solved if isinstance(f, Tensor) or isinstance(g, Tensor) else solved.cpu().numpy()

    def _solve(self, f: Float[Tensor, "#k n"], g: Float[Tensor, "#k p"]) -> Float[Tensor, "k n"]:
        count = next(iter({len(f), len(g)} - {1}), 1)
        f, g = f.expand(count, -1), g.expand(count, -1)
        if self._is_free and self._problem is not None:
            self._require_balance(f, g, self._problem)
        potential, trace = self._potentials(f, g)
        u = potential + ((g - trace) / self._unit).to(self.matrix.dtype) @ self.matrix.T
        return u - u.mean(dim=1, keepdim=True) if self._is_free else u

    def _require_balance(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"], problem: Problem) -> None:
        """What f puts in must leave through the walls, in every row."""
        domain, wall = problem.domain, problem.wall_coefficient * problem.domain.panels.lengths
        weight = torch.as_tensor(wall, dtype=g.dtype, device=g.device)
        put_in, out = f.sum(dim=1) * domain.spacing**2, g @ weight
        size = f.abs().sum(dim=1) * domain.spacing**2 + g.abs() @ weight
        off = (put_in - out).abs() > UNBALANCED * size
        if bool(off.any()):
            row = int(off.nonzero()[0, 0])
            raise BenoError(
                f"with Neumann walls alone the integral of f ({float(put_in[row]):.4g}) must be the flux of g "
                f"({float(out[row]):.4g}); they differ in row {row}"
            )

    def _potentials(self, f: Float[Tensor, "k n"], g: Float[Tensor, "k p"]) -> tuple[Tensor, Tensor]:
        """v at the points, and what the boundary conditions make of it."""
        problem = self._problem
        if self._potential is not None:
            box = self._potential(f, g)
            at_points, at_panels, slope = box.at_points, box.at_panels, box.normal_derivative
        elif not bool(f.any()):
            return torch.zeros_like(f), torch.zeros_like(self._unit).expand(len(f), -1)
        elif problem is None:
            raise BenoError("on a shape without a grid there is no potential for f; it must be 0")
        else:
            v = self._in_medium(f.cpu().double().numpy())
            at_points, at_panels, slope = (
                self._tensor(values, self.device) for values in (v.at_points, v.at_panels, v.normal_derivative)
            )
        kind = torch.as_tensor(self._kind, device=self.device)
        trace = torch.where(kind == Kind.DIRICHLET, at_panels, slope)
        return at_points, torch.where(kind == Kind.ROBIN, self._alpha * at_panels + slope, trace)

    def _rows(self, name: str, field: Field | Tensor) -> Float[Tensor, "k m"]:
        where = self.shape.points if name == "f" else self.shape.centres
        values = field(where[:, 0], where[:, 1]) if callable(field) else field
        dtype = torch.float32 if self.device.type == "cuda" else torch.float64
        if np.iscomplexobj(values):
            raise BenoError(f"{name} is complex; real numbers are needed")
        try:
            rows = torch.as_tensor(values, dtype=dtype, device=self.device)
        except (TypeError, ValueError, RuntimeError) as error:
            raise BenoError(f"{name} cannot be read as numbers: {error}") from error
        if rows.ndim > 2:
            raise BenoError(
                f"{name} has the shape {tuple(rows.shape)}; it must be one row of values, or a stack of rows"
            )
        rows = rows.expand(1, len(where)) if rows.ndim == 0 else rows.reshape(-1, rows.shape[-1])
        if rows.shape[1] != len(where):
            place = "points" if name == "f" else "panels"
            raise BenoError(f"{name} has {rows.shape[1]} values a row; the shape has {len(where)} {place}")
        finite = torch.isfinite(rows).all(dim=0)
        if not bool(finite.all()):
            raise BenoError(f"{name} is not finite at {int((~finite).nonzero()[0, 0])}; every value must be")
        return rows

    @staticmethod
    def _tensor(values: np.ndarray, device: torch.device) -> Tensor:
        return torch.as_tensor(values, dtype=torch.float32 if device.type == "cuda" else torch.float64, device=device)
