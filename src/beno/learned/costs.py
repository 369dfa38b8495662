"""How long each method takes, by a model fitted to measurements: what the choice among them goes by.

Seconds are ``a cells**p`` for preparing and ``b cells**q`` for a right-hand side, with the cells of the whole box, and
on a device what it takes to launch at all. benchmarks/solver_costs.py measures and fits; a test holds the figures to
what it wrote.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Cost:
    """Of one method on one kind of device."""

    prepare: tuple[float, float]  # a, p
    row: tuple[float, float]  # b, q
    launch: float = 0.0  # seconds, whatever the size

    def seconds(self, cells: int, rows: int, is_prepared: bool = False) -> float:
        factor, power = self.prepare
        prepare = 0.0 if is_prepared else factor * cells**power
        factor, power = self.row
        return self.launch + prepare + rows * factor * cells**power


COSTS: dict[str, dict[str, Cost]] = {
    "cpu": {
        "direct": Cost(prepare=(6.4e-8, 1.29), row=(4.9e-9, 1.2)),
        "multigrid": Cost(prepare=(9e-7, 1.0), row=(9e-7, 1.0)),
        "capacitance": Cost(prepare=(4.4e-8, 1.45), row=(9.2e-10, 1.38)),
        "gradients": Cost(prepare=(1e-7, 1.0), row=(8e-8, 1.3)),
        "capacitance-gradients": Cost(prepare=(5e-8, 1.45), row=(1e-8, 1.38)),
    },
    "cuda": {
        "direct": Cost(prepare=(6.4e-8, 1.29), row=(4.9e-9, 1.2)),
        "multigrid": Cost(prepare=(9e-7, 1.0), row=(9e-7, 1.0)),
        "capacitance": Cost(prepare=(2.6e-6, 0.72), row=(6e-14, 1.68), launch=1e-3),
        "gradients": Cost(prepare=(1e-7, 0.72), row=(3e-11, 1.45), launch=1e-2),
        "capacitance-gradients": Cost(prepare=(3e-6, 0.72), row=(6e-13, 1.68), launch=5e-3),
    },
}
