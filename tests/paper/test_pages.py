"""Pages and LaTeX say what cells say."""

from dataclasses import replace

from beno.evaluation.metrics import METRICS, Measured, Metric
from beno.paper import reported as paper
from beno.paper.pages import as_latex, as_markdown, write_pages
from beno.paper.tables import TABLES
from tests.paper.small import SMALL, figures_of, queue_in


def test_a_page_and_its_latex_have_our_figures_the_papers_and_the_difference(filled):
    written = write_pages(queue_in(filled).cells, [SMALL], filled / "pages")
    assert [path.suffix for path in written] == [".md", ".tex"]
    page, latex = (path.read_text() for path in written)
    theirs = paper.tables()["darcy_train_4_corners"]["BENO"]["4-Corners"]["rel_l2"]
    assert f"{100 * theirs:.2f}" in page and "**harmonic**" in page and "difference" in page
    assert latex.count(r" \\") == 1 + 2 * (1 + 3 + 2 + 2) and f"{100 * theirs:.2f}" in latex and "difference" in latex
    assert (
        "with --smoke" in page and latex.startswith("% Made with --smoke") and "booktabs" in latex and r"$\pm$" in latex
    )
    empty = {row: {} for row in SMALL.rows}
    assert "Not trained yet: MP-PDE; BENO; harmonic." in as_markdown(SMALL, empty) and "--" in as_latex(SMALL, empty)
    assert write_pages(queue_in(filled).cells, [TABLES["train_mixed"]], filled / "pages") == []


def test_the_spread_of_seeds_stands_in_the_page_for_every_row_that_has_several(filled):
    known = {}
    for row in SMALL.rows[-2:]:
        cell = queue_in(filled).cells.of_row(SMALL, row)["4-Corners"]
        for seed, error in enumerate((0.1, 0.2, 0.3)):
            twin = replace(row, label=f"{row.label}, seed {seed}", training=replace(row.training, seed=seed))
            known[twin] = {"4-Corners": replace(cell, figures=figures_of(relative_l2=error))}
    for label in ("BENO", "harmonic"):
        assert f"| **{label}, 3 seeds**: mean ± deviation of their means | 20.00 ± 10.00 |" in as_markdown(SMALL, known)
        assert f"{label}, 3 seeds, deviation of their means &  & 20.00 $\\pm$ 10.00 &" in as_latex(SMALL, known)


def test_a_row_of_several_stages_says_so(filled):
    row = SMALL.rows[0]
    cells = queue_in(filled).cells.of_row(SMALL, row)
    trained = replace(cells["4-Corners"].trained, epochs=48, best_epoch=47, unfinished=True)
    cells["4-Corners"] = replace(cells["4-Corners"], trained=trained)
    page, latex = as_markdown(SMALL, {row: cells}), as_latex(SMALL, {row: cells})
    assert f"| {row.label} | 48, to go on / 1 | 47 / 1 |" in page
    assert rf"{row.label} & 48$^\dagger$ / 1 &" in latex and "to go on" in latex


def test_the_difference_has_its_sign(filled):
    row = next(row for row in SMALL.rows if row.label == "BENO")
    theirs = 100 * paper.tables()["darcy_train_4_corners"]["BENO"]["4-Corners"]["rel_l2"]
    cell = queue_in(filled).cells.of_row(SMALL, row)["4-Corners"]
    better = {row: {"4-Corners": replace(cell, figures=figures_of(relative_l2=0.01))}}
    assert f"| *difference* | -{theirs - 1:.2f} |" in as_markdown(SMALL, better)
    assert rf"\quad difference &  & $-${theirs - 1:.2f} &" in as_latex(SMALL, better)


def test_a_new_metric_is_shown_once_a_cell_has_it_and_as_not_measured_in_those_that_do_not(filled, monkeypatch):
    row, other = SMALL.rows[:2]
    known = {one: queue_in(filled).cells.of_row(SMALL, one) for one in (row, other)}
    before = as_markdown(SMALL, known), as_latex(SMALL, known)
    monkeypatch.setitem(METRICS, "largest", Metric(lambda predicted, truth: 1.0, "Largest error", "", 10.0, 1))
    assert before == (as_markdown(SMALL, known), as_latex(SMALL, known)), "no cell has it yet"
    cell = known[row]["4-Corners"]
    known[row] |= {"4-Corners": replace(cell, figures={**cell.figures, "largest": Measured(0.25, 0.01)})}
    page, latex = as_markdown(SMALL, known), as_latex(SMALL, known)
    assert page.startswith(before[0])
    assert "## Largest error\n" in page and f"| **{row.label}** | 2.5 ± 0.1 | not measured |" in page
    assert f"| **{other.label}** | not measured | not measured |" in page
    assert "Largest error" in latex and "not measured" in latex
