"""How long each method takes, by a model fitted to measurements: what the choice among them goes by.

Seconds are ``a cells**p`` for preparing and ``b cells**q`` for a right-hand side, with the cells of the whole box, and
what it takes to launch at all. They are those of one core of a CPU, and of one H200. benchmarks/solver_costs.py fits
them; a test holds the figures to what it wrote.
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
        "direct": Cost(prepare=(1.3e-07, 1.17), row=(1.2e-08, 1.04), launch=0.00021),
        "multigrid": Cost(prepare=(7.4e-06, 0.73), row=(1.9e-06, 0.84), launch=0.00012),
        "capacitance": Cost(prepare=(4.4e-10, 2.0), row=(2.7e-09, 1.32), launch=0.00023),
        "gradients": Cost(prepare=(1.2e-06, 0.57), row=(2.1e-08, 1.44), launch=0.0013),
        "capacitance-gradients": Cost(prepare=(1.4e-09, 1.88), row=(1.5e-07, 1.14), launch=0.0),
    },
    "cuda": {
        "direct": Cost(prepare=(1.4e-07, 1.23), row=(7.3e-08, 0.95), launch=0.0016),
        "multigrid": Cost(prepare=(7.4e-06, 0.73), row=(1.9e-06, 0.84), launch=0.00012),
        "capacitance": Cost(prepare=(3.9e-06, 0.72), row=(3.5e-11, 1.14), launch=0.0013),
        "gradients": Cost(prepare=(1e-06, 0.69), row=(1.9e-10, 1.25), launch=0.019),
        "capacitance-gradients": Cost(prepare=(2.5e-06, 0.79), row=(1.2e-09, 0.98), launch=0.01),
    },
}
