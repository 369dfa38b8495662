"""Tables as pages and as LaTeX: the paper's figure, ours, and the difference, cell by cell."""

import statistics
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from beno.paper import capabilities
from beno.paper import reported as paper
from beno.paper.cells import Cell, Cells
from beno.paper.tables import TABLES, Row, Table
from beno.support.files import whole_file_or_none

Known = dict[Row, dict[str, Cell]]
Figure = tuple[float, float]  # mean and deviation


def write_pages(cells: Cells, tables: list[Table], folder: Path) -> list[Path]:
    """A page and a LaTeX table for each table that has any figure; with all of them, what each method can do."""
    written = []
    for name, text in pages(cells, tables).items():
        folder.mkdir(parents=True, exist_ok=True)
        with whole_file_or_none(folder / name) as unfinished:
            unfinished.write_text(text)
        written.append(folder / name)
    return written


def pages(cells: Cells, tables: list[Table]) -> dict[str, str]:
    """What write_pages writes, by the names of the files."""
    texts: dict[str, str] = {}
    for table in tables:
        known = {row: cells.of_row(table, row) for row in table.rows}
        if any(known.values()):
            page, latex = as_markdown(table, known), as_latex(table, known)
            if cells.smoke:
                page, latex = page.replace("\n", f"\n\n**{IN_SMALL}**\n", 1), f"% {IN_SMALL}\n{latex}"
            texts |= {f"{table.name}.md": page, f"{table.name}.tex": latex}
    if tables == list(TABLES.values()):
        texts |= capabilities.pages()
    return texts


IN_SMALL = "Made with --smoke, to see that it runs: these figures say nothing of the methods."
MEASURES = {"relative_l2": ("Relative L2, %", 100.0, 2), "mae": ("Mean absolute error, thousandths", 1000.0, 3)}
PAPER_NAMES = {"relative_l2": ("rel_l2", 1.0), "mae": ("mae_e3", 1e-3)}


def published(table: Table, row: Row, column: str, measure: str) -> Figure | None:
    """The paper's mean and deviation."""
    figures = paper.tables().get(table.name, {}).get(row.paper_label or "", {}).get(column)
    name, unit = PAPER_NAMES[measure]
    return (figures[name] * unit, figures[f"{name}_std"] * unit) if figures else None


def as_markdown(table: Table, known: Known) -> str:
    number = paper.number_of(table.name)
    lines = [f"# {table.title}", "", INTRODUCTION + PAPER_BESIDE.format(number) * bool(number), ""]
    lines += ["| system | epochs | best | seconds (its share) | weights | seed | device |", "| --- " * 7 + "|"]
    lines += [_facts(row, list(of_row.values())) for row, of_row in known.items() if of_row]
    for measure in MEASURES:
        lines += ["", f"## {MEASURES[measure][0]}", "", *_measured(table, known, measure)]
    absent = [row.label for row, of_row in known.items() if not of_row]
    if absent:
        lines += ["", f"Not trained yet: {'; '.join(absent)}."]
    return "\n".join(lines) + "\n"


INTRODUCTION = "Mean ± deviation over the test samples."
PAPER_BESIDE = (
    " In italics the figure in the paper's Table {}, on its own data, and ours less the paper's."
    " Absolute errors are in the units of u, which is larger here than in the paper's data."
)


def _facts(row: Row, cells: list[Cell]) -> str:
    """Of all its cells: they may be of several stages of a training."""
    device = _each(_device(cell["trained"]["device"]) for cell in cells)
    tested_on = [_device(cell.get("device", cell["trained"]["device"])) for cell in cells]
    for other in sorted(set(tested_on) - {device}):
        device += f"; {'in part ' * (len(set(tested_on)) > 1)}tested on {other}"
    trainings = [cell["trained"] for cell in cells]
    facts = [
        row.label,
        _each(f"{one['epochs']}{', to go on' * one.get('stopped', False)}" for one in trainings),
        _each(str(one["best_epoch"]) for one in trainings),
        _each(f"{one['seconds']:.0f} ({one['device_seconds']:.0f})" for one in trainings),
        _each(f"{one['parameters']:,}" for one in trainings),
        str(row.training.seed),
        device,
    ]
    return "| " + " | ".join(facts) + " |"


def _each(texts: Iterable[str]) -> str:
    """That of all, or those that there are."""
    return " / ".join(dict.fromkeys(texts))


def _device(described: dict[str, Any]) -> str:
    return described.get("gpu") or described.get("cpu") or "?"


Line = tuple[str, str, list[str]]  # which of LABELS, of whom, an entry a column


def _lines(table: Table, known: Known, measure: str, sign: str = "±", minus: str = "-") -> Iterator[Line]:
    """For each row our figure, the paper's, and ours less the paper's; then the spread of seeds. Nothing where there is
    none."""
    _, unit, digits = MEASURES[measure]

    def both(figures: dict[str, Figure]) -> list[str]:
        values = {c: (unit * mean, unit * deviation) for c, (mean, deviation) in figures.items()}
        return [f"{v[0]:.{digits}f} {sign} {v[1]:.{digits}f}" if (v := values.get(c)) else "" for c in table.columns]

    for row, of_row in known.items():
        ours = {c: (cell["figures"][measure], cell["figures"][f"{measure}_deviation"]) for c, cell in of_row.items()}
        theirs = {c: figure for c in table.columns if (figure := published(table, row, c, measure))}
        yield "ours", row.label, both(ours)
        if theirs:
            yield "paper", row.label, both(theirs)
        if gaps := {c: unit * (ours[c][0] - theirs[c][0]) for c in theirs if c in ours}:
            shown = [f"{gaps[c]:+.{digits}f}".replace("-", minus) if c in gaps else "" for c in table.columns]
            yield "difference", row.label, shown
    for label, of_seeds in _seeds(known).items():
        means = {
            c: [cells[c]["figures"][measure] for cells in of_seeds]
            for c in table.columns
            if all(c in cells for cells in of_seeds)
        }
        spread = {c: (statistics.mean(m), statistics.stdev(m)) for c, m in means.items()}
        yield "seeds", f"{label}, {len(of_seeds)} seeds", both(spread)


LABELS = {
    "ours": ("**{}**", "{}"),
    "paper": ("*the paper's {}*", r"\quad paper"),
    "difference": ("*difference*", r"\quad difference"),
    "seeds": ("**{}**: mean ± deviation of their means", "{}, deviation of their means"),
}


def _measured(table: Table, known: Known, measure: str) -> list[str]:
    lines = ["| | " + " | ".join(table.columns) + " |", "| --- " * (len(table.columns) + 1) + "|"]
    for kind, label, entries in _lines(table, known, measure):
        if any(entries):
            lines.append(f"| {LABELS[kind][0].format(label)} | {' | '.join(entries)} |")
    return lines


def _seeds(known: Known) -> dict[str, list[dict[str, Cell]]]:
    """Rows that differ in their seed alone, where there are several."""
    alike: dict[tuple[str, bool], dict[str, dict[str, Cell]]] = {}
    for row, of_row in known.items():
        if of_row:
            alike.setdefault((replace(row.training, seed=0).name, row.averaged), {})[row.label] = of_row
    return {next(iter(rows)).partition(", seed")[0]: list(rows.values()) for rows in alike.values() if len(rows) > 1}


def as_latex(table: Table, known: Known) -> str:
    """With the booktabs package. A dagger stands at trainings that are to go on."""
    columns = list(table.columns)
    lines = ["% needs the package booktabs", r"\begin{tabular}{lr" + "r" * len(columns) + "}", r"\toprule"]
    lines.append(_latex_row(["", "epochs", *columns]))

    def line(text: str) -> str:
        return rf"\multicolumn{{{len(columns) + 2}}}{{l}}{{{text}}} \\"

    epochs = {row.label: _latex_epochs(list(of_row.values())) for row, of_row in known.items()}
    for measure, (title, _, _) in MEASURES.items():
        lines += [r"\midrule", line(_escaped(title))]
        for kind, label, entries in _lines(table, known, measure, r"$\pm$", "$-$"):
            of_ours = epochs[label] if kind == "ours" else ""
            label = LABELS[kind][1].format(_escaped(label))
            lines.append(_latex_row([label, of_ours, *(entry or "--" for entry in entries)]))
    if any(DAGGER in of_row for of_row in epochs.values()):
        lines += [
            r"\midrule",
            line(f"{DAGGER}: to go on, neither all its epochs nor, on a GPU, five minutes of it"),
        ]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


DAGGER = r"$^\dagger$"


def _latex_epochs(cells: list[Cell]) -> str:
    trainings = [cell["trained"] for cell in cells]
    return _each(f"{one['epochs']}{DAGGER * one.get('stopped', False)}" for one in trainings)


def _escaped(text: str) -> str:
    return "".join(f"\\{letter}" if letter in "&%$#_{}" else letter for letter in text)


def _latex_row(entries: list[str]) -> str:
    return " & ".join(entries) + r" \\"
