"""Pictures: what is compared has one scale, and what is said of errors is right."""

from dataclasses import replace
from io import BytesIO

import numpy as np
import pytest
from matplotlib import pyplot as plt
from matplotlib.colors import LogNorm, to_rgba

from beno.evaluation.drawing import OUTSIDE, POSITIVE, SIGNED, error_scale
from beno.evaluation.plotting import PAGE, Compared, plot_comparison, plot_prediction, plot_samples, save
from beno.problems.families import Family
from beno.problems.norms import relative_l2
from beno.solvers.direct import Direct


@pytest.fixture(autouse=True)
def closed():
    yield
    plt.close("all")


def solution_of(corners, index=0, **choices):
    return Direct().solve(Family(corners=corners, resolution=8, **choices).problem(0, index))


def images(figure, colours):
    """In the order in which they were drawn."""
    return [image for axes in figure.axes for image in axes.images if image.get_cmap().name == colours]


def compared(index=0):
    truth = solution_of(4, index)
    noise = np.random.default_rng(index).normal(size=len(truth.u))
    of_models = {name: truth.u + size * noise for name, size in (("poor", 0.3), ("good", 1e-2), ("best", 1e-4))}
    return Compared(f"sample {index}", truth, of_models)


def test_all_errors_that_are_compared_share_one_scale():
    figure = plot_comparison([compared(0), compared(1)], "two")
    errors = images(figure, POSITIVE)
    assert len(errors) == 6
    scale = errors[0].norm
    assert isinstance(scale, LogNorm) and all(image.norm is scale for image in errors)
    assert scale.vmax == max(image.get_array().max() for image in errors), "none is beyond it"
    assert all(np.median(image.get_array().compressed()) >= scale.vmin for image in errors), "the smallest has a form"
    bars = [axes for axes in figure.axes if axes.get_ylabel() == "|prediction - truth|"]
    assert len(bars) == 2
    for bar in bars:
        np.testing.assert_allclose(bar.get_ylim(), (scale.vmin, scale.vmax))


def test_a_truth_and_its_predictions_share_one_scale():
    both = [compared(0), compared(1)]
    signed = iter(images(plot_comparison(both, "two"), SIGNED))
    for one in both:
        truth, first, second, third, source = (next(signed) for _ in range(5))
        assert truth.norm is first.norm is second.norm is third.norm is not source.norm
        assert truth.norm.vmax == max(np.abs(values).max() for values in (one.truth.u, *one.predictions.values()))
        assert truth.norm.vmin == -truth.norm.vmax


def test_a_comparison_fits_a_page_and_says_how_large_errors_are():
    one = compared()
    figure = plot_comparison([one], "one")
    assert figure.get_figwidth() == PAGE
    panels = [axes for axes in figure.axes if axes.images]
    assert {axes.get_subplotspec().get_gridspec().ncols for axes in panels} == {4}
    titles = [axes.get_title() for axes in panels]
    for model, values in one.predictions.items():
        assert model in titles
        error = f"{100 * relative_l2(values, one.truth.u):.3g} %"
        assert sum(error in title and f"{np.abs(values - one.truth.u).max():.2g}" in title for title in titles) == 1


def test_no_error_at_all_is_the_smallest_there_is():
    nothing, some = np.zeros(4), np.full(4, 0.5)
    assert error_scale(nothing, some)(nothing).tolist() == [0, 0, 0, 0], "and no hole in the picture"
    assert error_scale(nothing, some).vmin < 1e-5 * 0.51
    assert error_scale(nothing)(nothing).tolist() == [0, 0, 0, 0]


def test_inside_is_told_from_outside_where_a_field_is_zero():
    truth = solution_of(4)
    for figure in (
        plot_samples([replace(truth, u=0 * truth.u)]),
        plot_comparison([compared()], "one"),
        plot_prediction(truth, truth.u[None], "one"),
    ):
        for axes in (axes for axes in figure.axes if axes.images):
            assert axes.get_facecolor() == to_rgba(OUTSIDE) != axes.images[0].cmap(0.5)
            outlines = [lines for lines in axes.collections if lines.get_array() is None]
            assert sum(len(lines.get_segments()) for lines in outlines) == len(truth.problem.g)


@pytest.mark.parametrize("count", [1, 2])
def test_what_branches_add_is_on_the_scale_of_their_sum(count):
    truth = solution_of(4)
    branches = np.stack([3 * truth.u, -2.1 * truth.u])[:count]
    figure = plot_prediction(truth, branches, "title")
    assert f"{100 * relative_l2(branches.sum(axis=0), truth.u):.3g} %" in figure.get_suptitle()
    by_title = {axes.get_title(): axes.images[0] for axes in figure.axes if axes.images}
    assert len(by_title) == 3 * count
    of_u = [image for title, image in by_title.items() if title not in ("error", "source")]
    assert len(of_u) == 2 * count and all(image.norm is of_u[0].norm for image in of_u)
    assert of_u[0].norm.vmax == 3 * np.abs(truth.u).max()


def test_panels_stand_below_each_other_in_every_file():
    figure = plot_comparison([compared(0), compared(1)], "two")
    for form in ("svg", "png"):
        figure.savefig(BytesIO(), format=form)
        panels = [axes for axes in figure.axes if axes.images]
        for column in range(4):
            left = [axes.get_position().x0 for axes in panels if axes.get_subplotspec().colspan.start == column]
            np.testing.assert_allclose(left, left[0], atol=1e-3)
            assert len(left) == 4


@pytest.mark.parametrize("form", ["svg", "png"])
def test_the_same_figure_makes_the_same_file(tmp_path, form):
    for name in ("first", "second"):
        save(plot_samples([solution_of(4)]), tmp_path / f"{name}.{form}")
    assert (tmp_path / f"first.{form}").read_bytes() == (tmp_path / f"second.{form}").read_bytes()


def test_a_coefficient_and_kinds_of_walls_are_shown_where_there_are_some():
    figure = plot_samples([solution_of(4, 1, equation="darcy", boundary="mixed")])
    assert [axes.get_title() for axes in figure.axes if axes.images] == ["sample 0: source", "coefficient", "solution"]
    (kappa,) = images(figure, POSITIVE)
    assert kappa.norm.vmin >= 1 and "walls: Dirichlet solid" in figure.axes[2].get_xlabel()


def test_a_truth_is_framed_by_its_boundary_values_on_its_own_scale():
    one = compared()
    figure = plot_comparison([replace(one, framed=True)], "title")
    truth = next(axes for axes in figure.axes if axes.get_title() == "truth")
    (frame,) = [lines for lines in truth.collections if lines.get_array() is not None]
    np.testing.assert_array_equal(frame.get_array(), one.truth.problem.g)
    assert frame.norm is truth.images[0].norm
