"""How much of u the source makes at the default amplitudes: root mean squares of its two parts over 200 samples."""

import numpy as np
from record import record

from beno.problems.families import Family
from beno.problems.law import LAWS
from beno.solvers.direct import Direct

SEED, SAMPLES = 1, 200


def rms(fields: list[np.ndarray]) -> float:
    return float(np.sqrt(np.mean(np.concatenate(fields) ** 2)))


def main() -> None:
    rows = []
    for equation in LAWS:
        for boundary in ("dirichlet", "neumann", "robin", "mixed"):
            family = Family(equation, boundary, "mixed")
            parts = [family.problem(SEED, index).split() for index in range(SAMPLES)]
            forced, driven = (rms([Direct().solve(pair[part]).u for pair in parts]) for part in (0, 1))
            rows.append(
                {
                    "equation": equation,
                    "boundary": boundary,
                    "source_amplitude": family.source_amplitude,
                    "forced_rms": forced,
                    "driven_rms": driven,
                    "ratio": forced / driven,
                }
            )
            print(
                f"| {equation.capitalize()} | {boundary} | {family.source_amplitude:g} "
                f"| {forced:.3f} | {driven:.3f} | {forced / driven:.2f} |"
            )
    record("source_share", {"seed": SEED, "samples": SAMPLES, "shapes": "mixed", "resolution": 32}, {"rows": rows})


if __name__ == "__main__":
    main()
