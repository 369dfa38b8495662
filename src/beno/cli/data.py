"""beno data: make, show, check and import datasets."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from beno.cli.options import Force, new_picture
from beno.cli.progress import progress_bar

if TYPE_CHECKING:
    import numpy as np

    from beno.datasets.doctor import Examination
    from beno.datasets.records import Record

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Make, show, check and import datasets.")


@app.command()
def make(
    out: Annotated[Path, typer.Option(help="The file to write.")],
    equation: Annotated[str, typer.Option(help="poisson or darcy.")] = "poisson",
    boundary: Annotated[str, typer.Option(help="dirichlet, zero, neumann, robin or mixed.")] = "dirichlet",
    corners: Annotated[str, typer.Option(help="How many corners are cut: 0 to 4, or mixed.")] = "4",
    samples: Annotated[int, typer.Option(help="How many problems.")] = 1000,
    resolution: Annotated[int, typer.Option(help="Cells along a side.")] = 32,
    seed: Annotated[int, typer.Option(help="Sample i depends on (seed, i) alone.")] = 0,
    source_amplitude: Annotated[float | None, typer.Option(help="Largest |f|; by default one that shows in u.")] = None,
    boundary_amplitude: Annotated[float, typer.Option(help="Largest |g|.")] = 2.0,
    contrast: Annotated[float, typer.Option(help="kappa lies between 1 and this (darcy).")] = 10.0,
    workers: Annotated[int, typer.Option(help="Processes on this machine.")] = 1,
    device: Annotated[str, typer.Option(help="Where to solve: cpu, cuda, or auto for a GPU if there is one.")] = "cpu",
    dask: Annotated[str | None, typer.Option(help="Address of a Dask scheduler, to use its cluster instead.")] = None,
    force: Force = False,
) -> None:
    """Draw problems, solve them exactly, and write them to one file.

    Started again, it goes on where it stopped, and does nothing where this very dataset is there already.
    """
    from beno.datasets.making import is_made
    from beno.datasets.making import make as make_dataset
    from beno.problems.families import Family
    from beno.support.files import require_new_file

    if device != "cpu":
        from beno.nn.device import choose_device  # imports PyTorch

        device = choose_device(device)
    family = Family(
        equation=equation,
        boundary=boundary,
        corners=int(corners) if corners.isascii() and corners.isdecimal() else corners,
        resolution=resolution,
        source_amplitude=source_amplitude,
        boundary_amplitude=boundary_amplitude,
        contrast=contrast,
    )
    if not force and is_made(family, seed, samples, out, device):
        typer.echo(f"{out}: this dataset is there already; nothing was made")
        return
    place = require_new_file(out, force)
    with progress_bar() as progress:
        task = progress.add_task(f"making {out.name}", total=samples)
        make_dataset(
            family, seed, samples, place, workers, dask, lambda done: progress.update(task, completed=done), device
        )
    typer.echo(f"{out}: {samples} samples, {out.stat().st_size / 1e6:.1f} MB")


@app.command()
def show(
    path: Annotated[Path, typer.Argument(help="A dataset.")],
    plot: Annotated[bool, typer.Option("--plot", help="Write a picture of the first samples.")] = False,
    to: Annotated[Path | None, typer.Option(help="Where the picture goes; by default NAME.png here.")] = None,
    force: Force = False,
) -> None:
    """Say what is in a dataset."""
    from rich.console import Console
    from rich.table import Table

    from beno.datasets.dataset import Dataset
    from beno.datasets.splits import SPLITS
    from beno.datasets.summaries import summarise

    picture = to or (Path(f"{path.stem}.png") if plot else None)
    with Dataset(path) as dataset:
        place = new_picture(picture, force) if picture else None
        metadata = dataset.metadata
        summary = summarise(dataset)
        table = Table(title=str(path), show_header=False, title_justify="left")
        table.add_row("problem", f"{metadata.equation}, {metadata.boundary} boundary")
        table.add_row("shapes", f"{metadata.corners} corners cut, {metadata.resolution} x {metadata.resolution} cells")
        splits = ", ".join(f"{len(dataset.indices(split))} {split}" for split in SPLITS)
        table.add_row("samples", f"{len(dataset)}: {splits}")
        origin = metadata.origin if metadata.seed is None else f"{metadata.origin}, seed {metadata.seed}"
        solver = f", solved by {metadata.solver}" if metadata.solver else ""
        table.add_row("origin", f"{origin}{solver}, beno {metadata.beno_version}")
        for name, spread in summary.items():
            table.add_row(name, str(spread))
        Console().print(table)
        if place:
            from beno.evaluation.plotting import plot_samples, save

            count = min(len(dataset), 5 if metadata.corners == "mixed" else 3)
            save(plot_samples([dataset[index] for index in range(count)]), place)
            typer.echo(f"picture: {picture}")


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="A dataset, or a folder with the authors' .npy files.")],
    mend: Annotated[Path | None, typer.Option(help="Write what could be mended here.")] = None,
    tolerance: Annotated[float, typer.Option(help="What may be missing in an equation, relative to |u|.")] = 1e-4,
    force: Force = False,
) -> None:
    """Does u satisfy the equation and the boundary values that the file claims?

    Exit status 1 where something is wrong; with --mend, where something is wrong still.
    """
    from beno.datasets.doctor import examine
    from beno.geometry.base import DIRECTION_NAMES

    mended = _place_of_mended(path, mend, force) if mend else None
    patient = _Patient(path)
    with progress_bar() as progress:
        report = examine(
            progress.track(patient, total=len(patient), description="examining"),
            patient.splits,
            tolerance,
            patient.metadata,
        )
    typer.echo(f"{path}: {len(patient)} samples; what is missing in the equations, relative to |u|:")
    typer.echo(f"  anywhere             {report.residual:.1e}")
    for name, misfit in zip(DIRECTION_NAMES, report.misfit, strict=True):
        typer.echo(f"  g on walls facing {name} {misfit:.1e}")
    typer.echo(f"u against the exact solution, relative L2: {report.error:.1e}")
    findings = [*patient.findings, *report.findings()]
    for finding in findings:
        typer.echo(f"WRONG: {finding}")
    if not findings:
        typer.echo("sound: every sample satisfies its equation, and no sample is in two splits")
    if mended is not None:
        report = _mend(patient, report, mended)
        findings = list(report.findings())
        typer.echo(f"mended: {mend}, residual {report.residual:.1e}")
        for finding in findings:
            typer.echo(f"STILL WRONG: {finding}")
    raise typer.Exit(1 if findings else 0)


@app.command("import")
def import_published(
    folder: Annotated[Path, typer.Argument(help="The folder with the authors' BC, RHS and SOL .npy files.")],
    out: Annotated[Path, typer.Option(help="The file to write.")],
    force: Force = False,
) -> None:
    """Turn the authors' files into a dataset, as they are: `beno data check` finds and mends what is wrong."""
    from beno.datasets.hdf5 import Block, write
    from beno.datasets.published import read_published
    from beno.support.files import require_new_file

    place = require_new_file(out, force)
    published = read_published(folder)
    for index, record in enumerate(published.samples):
        record.require_finite(f"{folder}, sample {index}")
    write(place, published.metadata, (Block.pack([record]) for record in published.samples))
    typer.echo(f"{out}: {published.metadata.samples} samples")


class _Patient:
    """What the doctor is to look at: a dataset, or the authors' files."""

    def __init__(self, path: Path) -> None:
        from beno.datasets.dataset import Dataset
        from beno.datasets.published import is_published_folder, read_published

        self.path = path
        self.findings: list[str] = []
        self.splits: np.ndarray | None = None
        self.read: Callable[[int], Record]
        if is_published_folder(path):
            published = read_published(path)
            self.metadata, self.read = published.metadata, lambda index: published.samples[index]
            self.findings = [f"every value of {column} is NaN" for column in published.nan_columns]
        else:
            dataset = Dataset(path)
            self.metadata, self.read, self.splits = dataset.metadata, dataset.record, dataset.split_number

    def __len__(self) -> int:
        return self.metadata.samples

    def __iter__(self) -> "Iterator[Record]":
        return (self.read(index) for index in range(len(self)))


def _place_of_mended(path: Path, mend: Path, force: bool) -> Path:
    from beno.support.errors import BenoError
    from beno.support.files import require_file_place, require_new_file

    if require_file_place(mend) == path.resolve():
        raise BenoError(f"{mend} is the file to be mended; give the mended one another name")
    return require_new_file(mend, force)


def _mend(patient: _Patient, report: "Examination", out: Path) -> "Examination":
    from dataclasses import replace

    import numpy as np

    from beno.datasets.dataset import Dataset
    from beno.datasets.doctor import examine, mend
    from beno.datasets.hdf5 import Block, write
    from beno.geometry.base import DIRECTION_NAMES
    from beno.support.errors import BenoError

    distrusted = np.isin(DIRECTION_NAMES, report.wrong_walls)

    def blocks() -> "Iterator[Block]":
        for index, record in enumerate(patient):
            try:
                yield Block.pack([mend(record, distrusted, report.tolerance)])
            except BenoError as error:
                raise BenoError(f"{patient.path}, sample {index}: {error}") from error

    write(out, replace(patient.metadata, origin="mended"), blocks(), patient.splits)
    with Dataset(out) as dataset:
        records = (dataset.record(index) for index in range(len(dataset)))
        return examine(records, dataset.split_number, report.tolerance, dataset.metadata)
