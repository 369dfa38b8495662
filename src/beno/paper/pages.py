"""Tables as pages and as LaTeX: the paper's figure, ours, and the difference, cell by cell."""

import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from beno.evaluation.metrics import METRICS, Measured
from beno.paper import capabilities, reported
from beno.paper.cells import Cell, Cells
from beno.paper.tables import TABLES, Row, Table
from beno.support.files import whole_file_or_none

Known = Mapping[Row, Mapping[str, Cell]]  # the cells that there are, by row and column


def write_pages(cells: Cells, tables: Sequence[Table], folder: Path) -> list[Path]:
    """A page and a LaTeX table for each table that has any figure; with all of them, what each method can do."""
    written = []
    for name, text in pages(cells, tables).items():
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file_or_none(folder / name) as unfinished:
            unfinished.write_text(text)
        written.append(folder / name)
    return written


def pages(cells: Cells, tables: Sequence[Table]) -> dict[str, str]:
    """What write_pages writes, by the names of the files."""
    texts: dict[str, str] = {}
    for table in tables:
        known = {row: cells.of_row(table, row) for row in table.rows}
        if any(known.values()):
            page, latex = as_markdown(table, known), as_latex(table, known)
            if cells.budget.smoke:
                page, latex = page.replace("\n", f"\n\n**{IN_SMALL}**\n", 1), f"% {IN_SMALL}\n{latex}"
            texts |= {f"{table.name}.md": page, f"{table.name}.tex": latex}
    if list(tables) == list(TABLES.values()):
        texts |= capabilities.pages()
    return texts


IN_SMALL = "Made with --smoke, to see that it runs: these figures say nothing of the methods."
NOT_MEASURED = "not measured"  # of a cell that was made before a metric was there


def as_markdown(table: Table, known: Known) -> str:
    number = reported.number_of(table.name)
    lines = [f"# {table.title}", "", INTRODUCTION + PAPER_BESIDE.format(number) * bool(number), ""]
    lines += ["| system | epochs | best | seconds (its share) | weights | seed | device |", "| --- " * 7 + "|"]
    lines += [_training_line(row, list(of_row.values())) for row, of_row in known.items() if of_row]
    for name in _measured(known):
        lines += ["", f"## {METRICS[name].heading}", "", *_figures(table, known, name)]
    absent = [row.label for row, of_row in known.items() if not of_row]
    if absent:
        lines += ["", f"Not trained yet: {'; '.join(absent)}."]
    return "\n".join(lines) + "\n"


INTRODUCTION = "Mean ± deviation over the test samples."
PAPER_BESIDE = (
    " In italics the figure in the paper's Table {}, on its own data, and ours less the paper's."
    " Absolute errors are in the units of u, which is larger here than in the paper's data."
)


def _measured(known: Known) -> list[str]:
    """The metrics that any cell has; all where there is no cell."""
    there = {name for of_row in known.values() for cell in of_row.values() for name in cell.figures}
    return [name for name in METRICS if name in there or not there]


def _training_line(row: Row, cells: Sequence[Cell]) -> str:
    """How the operator of a row was trained; its cells may be of several stages of that."""
    device = _each(cell.trained.device.name for cell in cells)
    tested_on = {cell.tested_on.name for cell in cells}
    for other in sorted(tested_on - {device}):
        device += f"; {'in part ' * (len(tested_on) > 1)}tested on {other}"
    trainings = [cell.trained for cell in cells]
    facts = [
        row.label,
        _each(f"{one.epochs}{', to go on' * one.unfinished}" for one in trainings),
        _each(str(one.best_epoch) for one in trainings),
        _each(f"{one.seconds:.0f} ({one.device_seconds:.0f})" for one in trainings),
        _each(f"{one.parameters:,}" for one in trainings),
        str(row.training.seed),
        device,
    ]
    return "| " + " | ".join(facts) + " |"


def _each(texts: Iterable[str]) -> str:
    """Every text once; a single one where all are the same."""
    return " / ".join(dict.fromkeys(texts))


@dataclass(frozen=True)
class Line:
    """One line of a page's table."""

    kind: str  # one of LABELS
    label: str
    entries: list[str]  # one a column, empty where there is nothing to say


LABELS = {  # in Markdown and in LaTeX
    "ours": ("**{}**", "{}"),
    "paper": ("*the paper's {}*", r"\quad paper"),
    "difference": ("*difference*", r"\quad difference"),
    "seeds": ("**{}**: mean ± deviation of their means", "{}, deviation of their means"),
}


def _lines(table: Table, known: Known, name: str, sign: str = "±", minus: str = "-") -> Iterator[Line]:
    """For each row our figures, the paper's, and ours less the paper's; then the spread over seeds."""
    metric = METRICS[name]

    def printed(figures: Mapping[str, Measured]) -> list[str]:
        return [metric.printed(figures[c], sign) if c in figures else "" for c in table.columns]

    for row, of_row in known.items():
        ours = {column: cell.figures[name] for column, cell in of_row.items() if name in cell.figures}
        lacks = {column for column in of_row if column not in ours}
        entries = [NOT_MEASURED if c in lacks else text for c, text in zip(table.columns, printed(ours), strict=True)]
        yield Line("ours", row.label, entries)
        places = {c: reported.figures_of(table.name, row.paper_label, c) for c in table.columns}
        theirs = {column: figures[name] for column, figures in places.items() if name in figures}
        if theirs:
            yield Line("paper", row.label, printed(theirs))
        if gaps := {c: metric.factor * (ours[c].mean - theirs[c].mean) for c in theirs if c in ours}:
            shown = [f"{gaps[c]:+.{metric.digits}f}".replace("-", minus) if c in gaps else "" for c in table.columns]
            yield Line("difference", row.label, shown)
    for label, of_seeds in _seeds(known).items():
        yield Line("seeds", f"{label}, {len(of_seeds)} seeds", printed(_over_seeds(of_seeds, table.columns, name)))


def _over_seeds(of_seeds: Sequence[Mapping[str, Cell]], columns: Iterable[str], name: str) -> dict[str, Measured]:
    """The mean and the deviation of the seeds' means, in columns where all seeds have one."""
    spread = {}
    for column in columns:
        cells = [cells[column] for cells in of_seeds if column in cells]
        means = [cell.figures[name].mean for cell in cells if name in cell.figures]
        if len(means) == len(of_seeds):
            spread[column] = Measured(statistics.mean(means), statistics.stdev(means))
    return spread


def _figures(table: Table, known: Known, name: str) -> list[str]:
    lines = ["| | " + " | ".join(table.columns) + " |", "| --- " * (len(table.columns) + 1) + "|"]
    for line in _lines(table, known, name):
        if any(line.entries):
            lines.append(f"| {LABELS[line.kind][0].format(line.label)} | {' | '.join(line.entries)} |")
    return lines


def _seeds(known: Known) -> dict[str, list[Mapping[str, Cell]]]:
    """The cells of rows that differ in their seed alone, by label, where there are several."""
    alike: dict[tuple[str, bool], dict[str, Mapping[str, Cell]]] = {}
    for row, of_row in known.items():
        if of_row:
            alike.setdefault((replace(row.training, seed=0).name, row.averaged), {})[row.label] = of_row
    return {next(iter(rows)).partition(", seed")[0]: list(rows.values()) for rows in alike.values() if len(rows) > 1}


def as_latex(table: Table, known: Known) -> str:
    """For the booktabs package. A dagger stands at trainings that are to go on."""
    columns = list(table.columns)
    lines = ["% needs the package booktabs", r"\begin{tabular}{lr" + "r" * len(columns) + "}", r"\toprule"]
    lines.append(_latex_row(["", "epochs", *columns]))

    def across(text: str) -> str:
        return rf"\multicolumn{{{len(columns) + 2}}}{{l}}{{{text}}} \\"

    epochs = {row.label: _latex_epochs(list(of_row.values())) for row, of_row in known.items()}
    for name in _measured(known):
        lines += [r"\midrule", across(_escaped(METRICS[name].heading))]
        for line in _lines(table, known, name, r"$\pm$", "$-$"):
            of_ours = epochs[line.label] if line.kind == "ours" else ""
            label = LABELS[line.kind][1].format(_escaped(line.label))
            lines.append(_latex_row([label, of_ours, *(entry or "--" for entry in line.entries)]))
    if any(DAGGER in of_row for of_row in epochs.values()):
        lines += [
            r"\midrule",
            across(f"{DAGGER}: to go on, neither all its epochs nor, on a GPU, five minutes of it"),
        ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


DAGGER = r"$^\dagger$"


def _latex_epochs(cells: Sequence[Cell]) -> str:
    return _each(f"{cell.trained.epochs}{DAGGER * cell.trained.unfinished}" for cell in cells)


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)


def _latex_row(entries: Sequence[str]) -> str:
    return " & ".join(entries) + r" \\"
