"""What the shipped Dirichlet operator makes of shapes that no family draws: an L, a disc, a ring, a comb, a spiral.

    python benchmarks/zero_shot.py            # at 64² and 128²; some minutes on a CPU

Sources and boundary values are drawn as the training data's are. Nothing was chosen by these figures.
"""

import argparse

import numpy as np
from record import record

from beno.evaluation.metrics import METRICS, Measured
from beno.geometry.gallery import SHAPES
from beno.learned.shipped import load
from beno.nn.device import choose_device
from beno.problems.families import random_source, random_wave
from beno.problems.problem import poisson
from beno.solvers.direct import Direct

SEED, SOURCE, BOUNDARY = 200, 20.0, 2.0


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--weights", default="poisson-dirichlet")
    arguments.add_argument("--resolutions", type=int, nargs="+", default=[64, 128])
    arguments.add_argument("--samples", type=int, default=10)
    arguments.add_argument("--device", default="auto")
    options = arguments.parse_args()
    operator = load(options.weights, choose_device(options.device))
    figures = {}
    for resolution in options.resolutions:
        for name, shape in SHAPES.items():
            domain = shape(resolution)
            assembled = operator.assemble(domain)
            errors: dict[str, list[float]] = {metric: [] for metric in METRICS}
            for index in range(options.samples):
                rng = np.random.default_rng([SEED, resolution, index])
                f, g = random_source(rng, domain.points), random_wave(rng, domain.panels)
                problem = poisson(domain, SOURCE * f / np.abs(f).max(), BOUNDARY * g / np.abs(g).max())
                exact, learned = Direct().solve(problem).u, assembled(problem.right)
                for metric, values in errors.items():
                    values.append(METRICS[metric].measure(learned, exact))
            measured = {metric: Measured.of(np.array(values)) for metric, values in errors.items()}
            figures[f"{name} at {resolution}²"] = {
                "samples": options.samples,
                "points": len(domain.points),
                "panels": len(domain.panels),
                **{metric: one.mean for metric, one in measured.items()},
                **{f"{metric}_deviation": one.deviation for metric, one in measured.items()},
            }
            print(f"{name:8s}{resolution:5d}²  {100 * measured['relative_l2'].mean:6.2f} %", flush=True)
    record("zero_shot", vars(options) | {"seed": SEED}, figures)


if __name__ == "__main__":
    main()
