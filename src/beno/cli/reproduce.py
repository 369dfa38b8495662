"""beno reproduce: the paper's tables, filled one cell after the other."""

from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    table: Annotated[str, typer.Argument(help="A table's name, or all. `beno reproduce list` names them.")],
    folder: Annotated[Path, typer.Option(help="Of datasets and training runs.")] = Path("runs/reproduce"),
    results: Annotated[Path, typer.Option(help="Of the cells, one JSON file each.")] = Path("results/tables"),
    pages: Annotated[
        Path | None, typer.Option(help="Write pages and LaTeX here, from the cells that there are.")
    ] = None,
    time_limit: Annotated[str | None, typer.Option(help="Stop cleanly after so long; the next time goes on.")] = None,
    smoke: Annotated[bool, typer.Option("--smoke", help="All of it with tiny sizes, to see that it runs.")] = False,
    side_by_side: Annotated[int, typer.Option(help="How many processes share the work.", min=1)] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
) -> None:
    """Fill the paper's tables: train what is missing, save each cell as soon as it is known, go on the next time."""
    import subprocess
    import sys

    from beno.cli.train import parse_duration
    from beno.errors import BenoError
    from beno.experiments.pages import write_pages
    from beno.experiments.queue import Effort, Queue
    from beno.experiments.tables import TABLES

    if table == "list":
        for name, described in TABLES.items():
            typer.echo(f"{name}: {described.title}, {len(described.rows)} x {len(described.columns)} cells")
        return
    if table != "all" and table not in TABLES:
        raise BenoError(f"there is no table {table!r}; there is {', '.join(TABLES)}, all")
    chosen = list(TABLES.values()) if table == "all" else [TABLES[table]]
    limit = parse_duration(time_limit) if time_limit else float("inf")
    queue = Queue(folder, results, Effort.least() if smoke else Effort(), device)
    words = [table, "--folder", str(folder), "--results", str(results), "--device", device]
    words += ["--smoke"] * smoke + (["--time-limit", f"{limit}s"] if time_limit else [])
    command = [sys.executable, "-m", "beno", "reproduce", *words]
    others = [subprocess.Popen(command) for _ in range(side_by_side - 1)]
    try:
        standing = queue.fill(chosen, limit, typer.echo)
        for other in others:
            other.wait()
    finally:
        for other in others:
            other.terminate()
    if others:
        standing = queue.standing(chosen)
    typer.echo(f"{standing.cells - standing.missing} of {standing.cells} cells are filled")
    if standing.held:
        typer.echo(f"{standing.held} rows are being trained by other processes")
    if pages is not None:
        for path in write_pages(queue, chosen, pages):
            typer.echo(f"page: {path}")
