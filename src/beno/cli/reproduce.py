"""beno reproduce: the paper's tables, filled one cell after the other."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beno.cli.options import Force

if TYPE_CHECKING:
    from beno.paper.budget import Budget
    from beno.paper.queue import Queue, Standing
    from beno.paper.tables import Table


# Longer than 60 lines: the options, which typer reads from the signature, are over half of it.
def reproduce(
    names: Annotated[
        list[str], typer.Argument(metavar="TABLE...", help="Tables' names, or all. `beno reproduce list` names them.")
    ],
    folder: Annotated[
        Path | None, typer.Option(help="For datasets and training runs; by default runs/reproduce, or runs/smoke.")
    ] = None,
    results: Annotated[
        Path | None,
        typer.Option(help="For the cells, one JSON file each; by default results/tables, or runs/smoke/tables."),
    ] = None,
    pages: Annotated[
        Path | None, typer.Option(help="Write pages and LaTeX here, from the cells that there are.")
    ] = None,
    figures: Annotated[
        Path | None, typer.Option(help="Draw the paper's figures here, those of which the results keep enough.")
    ] = None,
    time_limit: Annotated[str | None, typer.Option(help="Stop cleanly after so long; the next time goes on.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="All of it with tiny sizes, to see that it runs.")] = False,
    processes: Annotated[
        int | None,
        typer.Option("--side-by-side", help="How many trainings share the device; else as many as fit a GPU.", min=1),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="At most so many in each training; else 1000.", min=1)] = None,
    only: Annotated[list[str] | None, typer.Option(help="Rows of this model alone, as beno; may be repeated.")] = None,
    test_unfinished: Annotated[
        bool, typer.Option("--test-unfinished", help="Test trainings as they stand when the time is over; they go on.")
    ] = False,
    for_now: Annotated[
        str | None,
        typer.Option(
            help="Time of the device that each training gets before the next one begins, as 1m; with more it goes on."
        ),
    ] = None,
    epochs_for_now: Annotated[
        int | None,
        typer.Option(
            help="The same in epochs. A cycle of the rate ends at 16, 48, 112 and 240, except for harmonic.", min=1
        ),
    ] = None,
    train: Annotated[
        bool, typer.Option(help="Without it, only write pages and draw figures from what there is.")
    ] = True,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    force: Force = False,
) -> None:
    """Fill the paper's tables: train what is missing, save each cell as soon as it is known, go on the next time."""
    if names == ["list"]:
        _list_tables()
        return

    from dataclasses import replace

    from beno.cli.train import parse_duration
    from beno.paper import processes as side_by_side
    from beno.paper.budget import Budget
    from beno.paper.queue import Queue
    from beno.support.errors import BenoError

    whole, chosen = _tables(names, only or [])
    folder = folder or Path("runs/smoke" if smoke else "runs/reproduce")
    results = results or (folder / "tables" if smoke else Path("results/tables"))
    limit = parse_duration("--time-limit", time_limit)
    budget = replace(
        _budget(smoke, epochs),
        pause_after_seconds=parse_duration("--for-now", for_now),
        pause_after_epochs=epochs_for_now or Budget.pause_after_epochs,
        test_unfinished=test_unfinished,
    )
    if not train and not results.is_dir():
        raise BenoError(f"{results}: there are no results; name their folder, or fill tables without --no-train")
    queue = Queue(folder, results, budget, device)
    _require_places(pages, figures, whole, force)  # found out now, and not when all is trained
    if train:
        fitting = 1 if smoke else side_by_side.fitting(queue.device_name)
        processes = max(1, min(processes or fitting, queue.standing(chosen).rows))
        standing, all_filled = side_by_side.fill(queue, chosen, limit, processes, typer.echo)
    else:
        standing, all_filled = queue.standing(chosen), True
    _tell(standing)
    _write(queue, whole, pages, figures)
    if standing.failed:
        raise BenoError(f"rows that could not be filled: {'; '.join(standing.failed)}")
    if not all_filled:
        raise BenoError("a process side by side with this one could not fill all of its rows, as it says above")


def _list_tables() -> None:
    from beno.paper.reported import number_of
    from beno.paper.tables import TABLES

    for name, table in TABLES.items():
        number = number_of(name)
        whose = f", the paper's Table {number}" if number else ""
        typer.echo(f"{name}: {table.title}{whose}; {len(table.rows)} x {len(table.columns)} cells")


def _tables(names: list[str], only: list[str]) -> "tuple[list[Table], list[Table]]":
    """The tables of these names, and the same with the rows of these models alone, if any are given."""
    from beno.models.registry import model_class
    from beno.paper.tables import TABLES
    from beno.support.errors import BenoError

    unknown = set(names) - {"all", *TABLES}
    if unknown:
        raise BenoError(f"there is no table {min(unknown)!r}; there is {', '.join(TABLES)}, all")
    for model in only:
        model_class(model)  # an unknown one is refused
    whole = list(TABLES.values()) if "all" in names else [TABLES[name] for name in dict.fromkeys(names)]
    chosen = [table.of_models(only) for table in whole] if only else whole
    if not any(table.rows for table in chosen):
        raise BenoError(f"{', '.join(names)} has no row of {', '.join(only)}")
    return whole, chosen


def _budget(smoke: bool, epochs: int | None) -> "Budget":
    from dataclasses import replace

    from beno.paper.budget import Budget
    from beno.support.errors import BenoError

    budget = Budget.smallest() if smoke else Budget()
    if epochs and epochs > budget.epochs and not smoke:
        raise BenoError(
            f"--epochs {epochs}: the terms of these tables are {budget.epochs} at most; `beno train` has none"
        )
    return replace(budget, epochs=epochs or budget.epochs)


def _require_places(pages: Path | None, figures: Path | None, tables: "list[Table]", force: bool) -> None:
    """Refuse folders that cannot be written in, and files that are there, unless they may be replaced."""
    if pages is not None:
        _require_new_files(pages, _pages_of(tables), force)
    if figures is not None:
        from beno.paper.figures import FIGURES, FORMATS

        _require_new_files(figures, [f"{stem}{suffix}" for stem in FIGURES for suffix in FORMATS], force)


def _tell(standing: "Standing") -> None:
    unfinished = f", {standing.to_go_on} of them by trainings to go on" if standing.to_go_on else ""
    early = f"; {standing.early} more have figures, of trainings that have not had enough" if standing.early else ""
    typer.echo(f"{standing.cells - standing.missing} of {standing.cells} cells are filled{unfinished}{early}")
    if standing.held and standing.missing:
        typer.echo(f"rows left to other processes, which were at them: {standing.held}")


def _write(queue: "Queue", tables: "list[Table]", pages: Path | None, figures: Path | None) -> None:
    from beno.paper.pages import write_pages

    if pages is not None:
        for path in write_pages(queue.cells, tables, pages):
            typer.echo(f"page: {path}")
    if figures is not None:
        from beno.paper.figures import FIGURES, write_figures

        drawn = set()
        for path in write_figures(queue, figures):
            typer.echo(f"figure: {path}")
            drawn.add(path.stem)
        if lacking := [name for name in FIGURES if name not in drawn]:
            typer.echo(f"not drawn, for the results do not keep enough yet: {', '.join(lacking)}")


def _pages_of(tables: "list[Table]") -> list[str]:
    from beno.paper.tables import TABLES

    stems = [table.name for table in tables] + ["capabilities"] * (tables == list(TABLES.values()))
    return [f"{stem}{suffix}" for stem in stems for suffix in (".md", ".tex")]


def _require_new_files(folder: Path, names: list[str], force: bool) -> None:
    from beno.support.files import require_folder, require_new_file

    require_folder(folder)
    for name in names:
        require_new_file(folder / name, force)
