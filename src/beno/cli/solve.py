"""beno solve: a problem from a file, by a trained operator, beside the exact solver."""

from pathlib import Path
from typing import Annotated

import typer

from beno.cli.options import Force, new_picture


def solve(
    problem: Annotated[Path, typer.Argument(help="A problem file (TOML), as examples/cross.toml.")],
    weights: Annotated[
        str | None, typer.Option(help="A shipped operator's name, a checkpoint or a run; by default what fits.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the picture goes; by default NAME.png here.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    force: Force = False,
) -> None:
    """Solve a problem with a trained operator; print its error and time beside the exact solver's, and draw both."""
    import time

    from rich.console import Console
    from rich.table import Table

    from beno.evaluation.plotting import plot_solved, save
    from beno.learned.choice import name_for
    from beno.learned.shipped import load
    from beno.nn.device import choose_device
    from beno.problems.norms import relative_l2
    from beno.problems.problem_file import read_problem
    from beno.solvers.direct import Direct

    picture = out or Path(problem.stem + ".png")
    place = new_picture(picture, force)
    posed = read_problem(problem)
    name = weights or name_for(posed.operator)
    operator = load(name, choose_device(device))

    seconds = {}
    for solver, run in (("learned", operator.solve), ("exact", Direct().solve)):
        run(posed)  # the first time loads libraries and is not counted
        start = time.perf_counter()
        solution = run(posed)
        seconds[solver] = time.perf_counter() - start
        if solver == "learned":
            learned = solution
    error = relative_l2(learned.u, solution.u)
    table = Table("solver", "relative L2 error, of the scheme", "time")
    told = f"{100 * error:.2f} %" if solution.u.any() else "none: u is 0"
    table.add_row(name, told, f"{1000 * seconds['learned']:.1f} ms")
    table.add_row(f"exact ({solution.report.solver})", "0, by definition", f"{1000 * seconds['exact']:.1f} ms")
    console = Console()
    console.print(f"{problem.name}: {posed.law.name}, {len(posed.f)} points, {len(posed.g)} panels")
    console.print(table)
    save(plot_solved(solution, learned.u, f"{problem.stem}: {name}"), place)
    console.print(f"picture: {picture}")
