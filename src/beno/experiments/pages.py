"""Tables as pages and as LaTeX: the paper's figure, ours, and the difference, cell by cell."""

from pathlib import Path
from typing import Any

from beno import paper
from beno.experiments.queue import Queue
from beno.experiments.tables import Row, Table


def write_pages(queue: Queue, tables: list[Table], folder: Path) -> list[Path]:
    """A page and a LaTeX table for each table that has any figure."""
    written = []
    for table in tables:
        cells = {row: {c: queue.cell(table, row, c) for c in table.columns} for row in table.rows}
        if not any(cell for of_row in cells.values() for cell in of_row.values()):
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for suffix, text in ((".md", as_markdown(table, cells)), (".tex", as_latex(table, cells))):
            path = folder / f"{table.name}{suffix}"
            path.write_text(text)
            written.append(path)
    return written


Cells = dict[Row, dict[str, dict[str, Any] | None]]


def published(table: Table, row: Row, column: str) -> float | None:
    figures = paper.tables().get(table.name, {}).get(row.paper_label or "", {}).get(column)
    return figures["rel_l2"] if figures else None


def as_markdown(table: Table, cells: Cells) -> str:
    columns = list(table.columns)
    lines = [
        f"# {table.title}",
        "",
        "Relative L2 error in percent; below it the paper's, and ours less the paper's.",
        "",
    ]
    lines += ["| | " + " | ".join(columns) + " | epochs | seconds | weights |", "| --- " * (len(columns) + 4) + "|"]
    for row, of_row in cells.items():
        known = next((cell for cell in of_row.values() if cell), None)
        trained = known["trained"] if known else None
        facts = (
            [str(trained["epochs"]), f"{trained['seconds']:.0f}", f"{trained['parameters']:,}"] if trained else [""] * 3
        )
        ours = [f"{100 * cell['figures']['relative_l2']:.2f}" if (cell := of_row[c]) else "" for c in columns]
        lines.append(f"| **{row.label}** | " + " | ".join([*ours, *facts]) + " |")
        theirs = [published(table, row, c) for c in columns]
        if any(figure is not None for figure in theirs):
            lines.append("| the paper | " + " | ".join(_percent(figure) for figure in theirs) + " | | | |")
            gap = [_gap(of_row[c], figure) for c, figure in zip(columns, theirs, strict=True)]
            lines.append("| difference | " + " | ".join(gap) + " | | | |")
    return "\n".join(lines) + "\n"


def as_latex(table: Table, cells: Cells) -> str:
    columns = list(table.columns)
    lines = [
        r"\begin{tabular}{l" + "r" * len(columns) + "}",
        r"\toprule",
        " & " + " & ".join(columns) + r" \\",
        r"\midrule",
    ]
    for row, of_row in cells.items():
        ours = [f"{cell['figures']['relative_l2']:.4f}" if (cell := of_row[c]) else "--" for c in columns]
        lines.append(f"{row.label} & " + " & ".join(ours) + r" \\")
        theirs = [published(table, row, c) for c in columns]
        if any(figure is not None for figure in theirs):
            lines.append(r"\quad paper & " + " & ".join(f"{t:.4f}" if t is not None else "--" for t in theirs) + r" \\")
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}"]) + "\n"


def _percent(figure: float | None) -> str:
    return "" if figure is None else f"{100 * figure:.2f}"


def _gap(cell: dict[str, Any] | None, figure: float | None) -> str:
    if cell is None or figure is None:
        return ""
    return f"{100 * (cell['figures']['relative_l2'] - figure):+.2f}"
