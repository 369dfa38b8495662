"""beno train, evaluate and plot: from a dataset to a trained operator, and what it is worth."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from beno.cli.options import Force, new_picture
from beno.cli.progress import progress_bar

if TYPE_CHECKING:
    from beno.learned.operator import LearnedOperator
    from beno.training.config import TrainingConfig


# Longer than 60 lines: the options, which typer reads from the signature, are two thirds of it.
def train(
    data: Annotated[Path, typer.Option(help="The dataset; its train and validation splits are used.")],
    out: Annotated[Path, typer.Option(help="The folder of the run.")],
    model: Annotated[str, typer.Option(help="Which model.")] = "beno",
    preset: Annotated[
        str | None, typer.Option(help="How to train: paper, fast or harmonic; by default what suits the model.")
    ] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="A setting of the model, as steps=10; may be repeated.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Instead of the preset's.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Instead of the preset's.")] = None,
    learning_rate: Annotated[float | None, typer.Option(help="Instead of the preset's.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="Instead of the preset's.")] = None,
    decoupled_decay: Annotated[
        bool | None, typer.Option(help="Decay the weights as AdamW does, instead of the preset's way.")
    ] = None,
    symmetries: Annotated[
        bool | None, typer.Option(help="Show samples in random symmetries of the square and signs, or do not.")
    ] = None,
    parts: Annotated[
        int | None, typer.Option(help="Subdomains cut out of each sample, which half of its showings are.")
    ] = None,
    seed: Annotated[int, typer.Option(help="For the weights at the start and the order of samples.")] = 0,
    precision: Annotated[
        str | None, typer.Option(help="32-true, or bf16-mixed: half, where a device gains by it.")
    ] = None,
    captured: Annotated[
        bool | None, typer.Option(help="On a GPU, replay each step as one CUDA graph, or do not.")
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(help="Train on fresh samples of the dataset's family in each epoch, or on its train split."),
    ] = None,
    start_from: Annotated[
        str | None, typer.Option(help="A trained operator to start from: a shipped one's name, a run's folder, a file.")
    ] = None,
    checkpoint_every: Annotated[
        int, typer.Option(help="Epochs between saved states, or a minute if that is shorter.")
    ] = 1,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    time_limit: Annotated[str | None, typer.Option(help="Stop cleanly after so long, as 90s, 9m or 2h.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
) -> None:
    """Train a model. Several processes, on one machine or many, are started by torchrun.

    A folder is trained in by one command at a time; another one is told which process it is.
    """
    from dataclasses import replace

    from beno.datasets.dataset import Dataset
    from beno.training.fabric import make_fabric
    from beno.training.run import Run

    given = {
        "epochs": epochs,
        "batch_size": batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "precision": precision,
        "decoupled_decay": decoupled_decay,
        "symmetries": symmetries,
        "parts": parts,
        "captured": captured,
        "stream": stream,
        "start": start_from,
    }
    changed: dict[str, Any] = {  # whatever a training may be told
        name: value for name, value in given.items() if value is not None
    }
    config = replace(_preset(preset, model), seed=seed, checkpoint_every=checkpoint_every, **changed)
    settings = dict(_parse_setting(text) for text in setting or [])
    limit = parse_duration("--time-limit", time_limit)
    fabric = make_fabric(device)
    with Dataset(data) as dataset:
        run = Run(out, dataset, model, settings, config, fabric, resume)
    with run, progress_bar(visible=fabric.is_global_zero) as progress:
        task = progress.add_task("training", completed=run.epoch, total=config.epochs)
        outcome = run.train(
            lambda record: progress.update(task, completed=record.epoch, description=record.losses), limit
        )
    if fabric.is_global_zero:
        typer.echo(
            f"{out}: {outcome.epochs} of {config.epochs} epochs in {outcome.seconds:.0f} s, "
            f"best validation loss {outcome.best_validation_loss:.4g}"
        )
        if not outcome.finished:
            typer.echo("stopped at the time limit; --resume goes on")


def evaluate(
    run: Annotated[str, typer.Argument(help="The folder of a run, a checkpoint, or a shipped operator's name.")],
    data: Annotated[list[Path], typer.Argument(help="One dataset or more.")],
    split: Annotated[str, typer.Option(help="test, validation, train or all.")] = "test",
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Write the figures here, as JSON.")] = None,
    averaged: Annotated[
        bool,
        typer.Option("--averaged", help="The mean of its answers over all symmetries of the square."),
    ] = False,
    force: Force = False,
) -> None:
    """Relative L2 and other measures, mean and deviation over samples, beside the paper's figures."""
    from rich.console import Console
    from rich.table import Table

    from beno.datasets.dataset import Dataset
    from beno.datasets.splits import SPLITS
    from beno.evaluation.evaluation import evaluate as evaluate_on
    from beno.evaluation.metrics import METRICS
    from beno.learned.averaged import AveragedOperator
    from beno.paper.reported import METRICS_OF_THE_PAPER, figures_for
    from beno.support.errors import BenoError
    from beno.support.files import require_new_file, whole_file_or_none

    place = require_new_file(out, force) if out else None
    if split not in (*SPLITS, "all"):
        raise BenoError(f"there is no split {split!r}; there is {', '.join(SPLITS)}, all")
    operator = _load(run, device)
    operator = AveragedOperator.of(operator) if averaged else operator
    headings = [metric.heading for metric in METRICS.values()]
    table = Table("data", "samples", *headings, *(f"paper's BENO: {METRICS[n].heading}" for n in METRICS_OF_THE_PAPER))
    figures = []
    for path in data:
        with Dataset(path) as dataset:
            evaluation = evaluate_on(operator, dataset, split)
        paper = figures_for("BENO", operator.header.data, evaluation.data)
        table.add_row(
            path.name,
            str(evaluation.samples),
            *(METRICS[name].printed(figure) for name, figure in evaluation.figures.items()),
            *(METRICS[name].printed(paper[name]) if name in paper else "-" for name in METRICS_OF_THE_PAPER),
        )
        about = {"data": path.name, "corners": evaluation.data.corners, "split": split}
        figures.append(about | evaluation.summary())
    Console().print(table)
    typer.echo("The paper's data have another scale than these: its relative errors may be compared, its MAE may not.")
    if place is not None:
        facts = {"model": json.loads(operator.header.to_json()), "averaged": averaged, "figures": figures}
        with whole_file_or_none(place) as unfinished:
            unfinished.write_text(json.dumps(facts, indent=1))


def plot(
    run: Annotated[str, typer.Argument(help="The folder of a run, a checkpoint, or a shipped operator's name.")],
    data: Annotated[Path, typer.Argument(help="A dataset.")],
    sample: Annotated[int, typer.Option(help="Which sample of it.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Where the picture goes; by default prediction-N.png here.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    force: Force = False,
) -> None:
    """Draw truth, prediction, error, and what each branch adds."""
    from beno.datasets.dataset import Dataset
    from beno.evaluation.plotting import plot_prediction, save
    from beno.support.errors import BenoError

    picture = out or Path(f"prediction-{sample}.png")
    place = new_picture(picture, force)
    operator = _load(run, device)
    with Dataset(data) as dataset:
        if not 0 <= sample < len(dataset):
            raise BenoError(f"{data} has samples 0 to {len(dataset) - 1}, not {sample}")
        operator.require_trained_for(dataset.metadata.problem_class, str(data))
        truth = dataset[sample]
    branches = operator.predict_branches([truth.problem])[0]
    save(plot_prediction(truth, branches, f"{data.name}, sample {sample}"), place)
    typer.echo(f"picture: {picture}")


def _load(run: str, device: str) -> "LearnedOperator":
    from beno.learned.shipped import load
    from beno.nn.device import choose_device

    return load(run, choose_device(device))


def _preset(name: str | None, model: str) -> "TrainingConfig":
    """How to train: the preset of this name, or the one that suits the model."""
    from beno.models.registry import model_class
    from beno.support.errors import BenoError
    from beno.training.config import PRESETS

    name = name or model_class(model).preset
    if name not in PRESETS:
        raise BenoError(f"there is no preset {name!r}; there is {', '.join(PRESETS)}")
    return PRESETS[name]


def _parse_setting(text: str) -> tuple[str, object]:
    """Name and value: true or false, a number, or a word, as in TOML."""
    import tomllib

    from beno.support.errors import BenoError

    name, _, value = text.partition("=")
    try:
        return name, tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        raise BenoError(f"--set {text!r} is not NAME=VALUE with a number, true or false for VALUE") from None


def parse_duration(option: str, text: str | None) -> float:
    """Seconds; without end if the option was not given."""
    from beno.support.errors import BenoError

    if text is None:
        return float("inf")
    units = {"s": 1, "m": 60, "h": 3600}
    try:
        seconds = float(text[:-1]) * units[text[-1]] if text[-1:] in units else float(text)
    except ValueError:
        seconds = -1.0
    if not seconds > 0:
        raise BenoError(f"{option} {text!r} is not a duration such as 90s, 9m or 2h")
    return seconds
