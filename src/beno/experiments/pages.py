"""Tables as pages and as LaTeX: the paper's figure, ours, and the difference, cell by cell."""

import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

from beno import paper
from beno.experiments.cells import Cell, Cells
from beno.experiments.tables import Row, Table

Known = dict[Row, dict[str, Cell]]


def write_pages(cells: Cells, tables: list[Table], folder: Path) -> list[Path]:
    """A page and a LaTeX table for each table that has any figure."""
    written = []
    for name, text in pages(cells, tables).items():
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
        written.append(folder / name)
    return written


def pages(cells: Cells, tables: list[Table]) -> dict[str, str]:
    """What write_pages writes, by the names of the files."""
    texts: dict[str, str] = {}
    for table in tables:
        known = {row: cells.of_row(table, row) for row in table.rows}
        if any(known.values()):
            texts |= {f"{table.name}.md": as_markdown(table, known), f"{table.name}.tex": as_latex(table, known)}
    return texts


MEASURES = {"relative_l2": ("Relative L2, %", 100.0, 2), "mae": ("Mean absolute error, thousandths", 1000.0, 3)}
PAPER_NAMES = {"relative_l2": ("rel_l2", 1.0), "mae": ("mae_e3", 1e-3)}


def published(table: Table, row: Row, column: str, measure: str) -> tuple[float, float] | None:
    """The paper's mean and deviation."""
    figures = paper.tables().get(table.name, {}).get(row.paper_label or "", {}).get(column)
    name, unit = PAPER_NAMES[measure]
    return (figures[name] * unit, figures[f"{name}_std"] * unit) if figures else None


def as_markdown(table: Table, known: Known) -> str:
    lines = [f"# {table.title}", "", INTRODUCTION, ""]
    lines += ["| system | epochs | best | seconds (its share) | weights | seed | device |", "| --- " * 7 + "|"]
    lines += [_facts(row, list(of_row.values())) for row, of_row in known.items() if of_row]
    for measure in MEASURES:
        lines += ["", f"## {MEASURES[measure][0]}", "", *_measured(table, known, measure)]
    absent = [row.label for row, of_row in known.items() if not of_row]
    if absent:
        lines += ["", f"Not trained yet: {'; '.join(absent)}."]
    return "\n".join(lines) + "\n"


INTRODUCTION = (
    "Mean ± deviation over the test samples. In italics the paper's figure, on its own data, and ours less the paper's."
    " Absolute errors are in the units of u, which is larger here than in the paper's data."
)


def _facts(row: Row, cells: list[Cell]) -> str:
    trained = cells[0]["trained"]
    device = _device(trained["device"])
    tested_on = [_device(cell.get("device", trained["device"])) for cell in cells]
    for other in sorted(set(tested_on) - {device}):
        device += f"; {'in part ' * (len(set(tested_on)) > 1)}tested on {other}"
    seconds = f"{trained['seconds']:.0f} ({trained['device_seconds']:.0f})"
    epochs = f"{trained['epochs']}{', to go on' * trained.get('stopped', False)}"
    facts = [row.label, epochs, trained["best_epoch"], seconds, f"{trained['parameters']:,}"]
    return "| " + " | ".join(map(str, [*facts, trained["seed"], device])) + " |"


def _device(described: dict[str, Any]) -> str:
    return described.get("gpu") or described.get("cpu") or "?"


def _measured(table: Table, known: Known, measure: str) -> list[str]:
    columns = list(table.columns)
    _, unit, digits = MEASURES[measure]

    def both(figure: tuple[float, float] | None) -> str:
        return "" if figure is None else f"{unit * figure[0]:.{digits}f} ± {unit * figure[1]:.{digits}f}"

    lines = ["| | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 1) + "|"]
    for row, of_row in known.items():
        ours = {c: (cell["figures"][measure], cell["figures"][f"{measure}_deviation"]) for c, cell in of_row.items()}
        theirs = {c: published(table, row, c, measure) for c in columns}
        if ours:
            lines.append(f"| **{row.label}** | " + " | ".join(both(ours.get(c)) for c in columns) + " |")
        if any(theirs.values()):
            lines.append(f"| *the paper's {row.label}* | " + " | ".join(both(theirs[c]) for c in columns) + " |")
        if ours and any(theirs.values()):
            gaps = [
                (mine[0] - his[0]) * unit if (mine := ours.get(c)) and (his := theirs[c]) else None for c in columns
            ]
            lines.append(
                "| *difference* | " + " | ".join("" if gap is None else f"{gap:+.{digits}f}" for gap in gaps) + " |"
            )
    for label, of_seeds in _seeds(known).items():
        means = {
            c: [cells[c]["figures"][measure] for cells in of_seeds] for c in columns if all(c in s for s in of_seeds)
        }
        spread = [both((statistics.mean(m), statistics.stdev(m))) if (m := means.get(c)) else "" for c in columns]
        lines.append(
            f"| **{label}, {len(of_seeds)} seeds**: mean ± deviation of their means | " + " | ".join(spread) + " |"
        )
    return lines


def _seeds(known: Known) -> dict[str, list[dict[str, Cell]]]:
    """Rows that differ in their seed alone, where there are several."""
    alike: dict[tuple[str, bool], list[dict[str, Cell]]] = {}
    for row, of_row in known.items():
        if of_row:
            alike.setdefault((replace(row.training, seed=0).name, row.averaged), []).append(of_row)
    return {name.partition("-")[0]: cells for (name, _), cells in alike.items() if len(cells) > 1}


def as_latex(table: Table, known: Known) -> str:
    """For each measure the paper's figure, ours, and the difference."""
    columns = list(table.columns)
    lines = [r"\begin{tabular}{l" + "r" * len(columns) + "}", r"\toprule", _latex_row("", columns)]
    for measure, (title, unit, digits) in MEASURES.items():
        title = title.replace("%", r"\%")
        lines += [r"\midrule", rf"\multicolumn{{{len(columns) + 1}}}{{l}}{{{title}}} \\"]
        for row, of_row in known.items():
            ours = [unit * of_row[c]["figures"][measure] if c in of_row else None for c in columns]
            theirs = [unit * both[0] if (both := published(table, row, c, measure)) else None for c in columns]
            gaps = [a - b if a is not None and b is not None else None for a, b in zip(ours, theirs, strict=True)]
            lines.append(_latex_row(row.label, [_digits(figure, f".{digits}f") for figure in ours]))
            if any(figure is not None for figure in theirs):
                lines.append(_latex_row(r"\quad paper", [_digits(figure, f".{digits}f") for figure in theirs]))
            if any(gap is not None for gap in gaps):
                lines.append(_latex_row(r"\quad difference", [_digits(gap, f"+.{digits}f") for gap in gaps]))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _latex_row(label: str, entries: list[str]) -> str:
    return " & ".join([label, *entries]) + r" \\"


def _digits(figure: float | None, form: str) -> str:
    return "--" if figure is None else format(figure, form)
