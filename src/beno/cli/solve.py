"""beno solve: a problem from a file, with a tolerance that is met and a bound on the error."""

import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beno.cli.options import Force, new_picture

if TYPE_CHECKING:
    from rich.table import Table

    from beno.learned.operator import LearnedOperator
    from beno.problems.problem import Problem
    from beno.problems.solution import Solution


def solve(
    problem: Annotated[Path, typer.Argument(help="A problem file (TOML), as examples/cross.toml.")],
    tolerance: Annotated[
        float, typer.Option(help="The largest residual, over the size of the right-hand side; it is always met.")
    ] = 1e-6,
    accuracy: Annotated[
        float | None,
        typer.Option(help="Instead: choose the grid by this estimated error of the equation (relative L2)."),
    ] = None,
    method: Annotated[
        str, typer.Option(help="auto, direct, multigrid, capacitance, gradients or capacitance-gradients.")
    ] = "auto",
    weights: Annotated[
        list[str] | None,
        typer.Option(help="A trained operator to compare with, by name or place; by default all that ship and fit."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Where the picture goes; by default NAME.png here.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    force: Force = False,
) -> None:
    """Solve a problem to a tolerance, say how wrong the answer can be, and compare trained operators with it."""
    from rich.console import Console

    from beno.cli.progress import progress_bar
    from beno.evaluation.plotting import Compared, plot_comparison, plot_samples, save
    from beno.problems.problem_file import read_problem

    picture = out or Path(problem.stem + ".png")
    place = new_picture(picture, force)
    posed = read_problem(problem)
    with progress_bar() as progress:
        task = progress.add_task("solving", total=None)
        certified = _certified(posed, tolerance, accuracy, method, device)
        posed = certified.problem
        learned: dict[str, Solution] = {}
        for name, operator in _operators(posed, weights, device):
            progress.update(task, description=name)
            learned[name] = _by(operator, posed)
    console = Console()
    console.print(f"{problem.name}: {posed.law.name}, {len(posed.f)} points, {len(posed.g)} panels")
    console.print(_table(certified, learned))
    console.print(f"chosen: {certified.report.reason}", highlight=False)
    if certified.report.estimate is not None:
        console.print(f"estimated error of the equation, relative L2: {certified.report.estimate:.1e}")
    compared = Compared(problem.stem, certified, {name: one.u for name, one in learned.items()}, framed=True)
    title = f"{problem.stem}, by {certified.report.solver}: no value is off by more than {certified.report.bound:.1g}"
    save(plot_comparison([compared], title) if learned else plot_samples([certified], [problem.stem], title), place)
    console.print(f"picture: {picture}")


def _certified(posed: "Problem", tolerance: float, accuracy: float | None, method: str, device: str) -> "Solution":
    from beno.learned import choice

    choice.solve(posed, tolerance, method, device)  # the first time loads libraries, which the time is not to count
    return choice.solve(posed, tolerance, method, device, accuracy=accuracy)


def _operators(posed: "Problem", weights: list[str] | None, device: str) -> "list[tuple[str, LearnedOperator]]":
    from beno.learned import shipped
    from beno.problems.families import ProblemClass

    if weights:
        return [(name, shipped.load(name, device)) for name in weights]
    fitting = [(name, shipped.load(name, device)) for name in shipped.names()]
    return [(n, one) for n, one in fitting if one.problem_class.lacks(ProblemClass.of(posed.operator)) is None]


def _by(operator: "LearnedOperator", posed: "Problem") -> "Solution":
    """With the same report as any other: time, residual and bound."""
    from beno.learned import choice

    operator.solve(posed)  # not counted, as above
    warnings.simplefilter("ignore")  # of a large bound, which the table shows
    return choice.solve(posed, None, choice.LEARNED, solver=operator)


def _table(certified: "Solution", learned: "dict[str, Solution]") -> "Table":
    from rich.table import Table

    from beno.problems.norms import relative_l2

    table = Table("method", "error", "at most", "residual", "time")
    table.columns[0].no_wrap = True
    for name, solution in {certified.report.solver: certified, **learned}.items():
        report = solution.report
        error = "-" if solution is certified else f"{100 * relative_l2(solution.u, certified.u):.2f} %"
        row = [name, error]
        row += ["-" if number is None else f"{number:.1e}" for number in (report.bound, report.residual)]
        table.add_row(*row, f"{1000 * (report.seconds or 0.0):.1f} ms")
    table.caption = (
        "error: relative L2 beside the first row, of the scheme; at most: no value of u is farther than this from the "
        "scheme's solution"
    )
    return table
