"""Problem files: what they say is what is solved, and all that is wrong with them is said at once."""

import numpy as np
import pytest

from beno.problems.problem_file import read_problem
from beno.problems.walls import Kind
from beno.support.errors import BenoError
from tests.places import ROOT

BOUNDARY = "[boundary]\nvalues = {family = 'constant', value = 1.0}\n"


@pytest.fixture
def read(tmp_path):
    def read_text(text):
        path = tmp_path / "a.toml"
        path.write_text(text)
        return read_problem(path)

    return read_text


def test_the_least_that_a_file_may_say_is_poisson_on_the_square(read):
    problem = read(BOUNDARY)
    assert problem.law.name == "poisson" and problem.domain.mask.shape == (32, 32) and problem.domain.mask.all()
    assert (problem.g == 1).all() and (problem.f == 0).all() and (problem.walls.kind == Kind.DIRICHLET).all()


def test_a_mask_drawn_in_text_has_its_first_row_at_the_top(read):
    problem = read("resolution = 8\nshape.mask = '''\n####\n#...\n#...\n#...\n'''\n" + BOUNDARY)
    mask = problem.domain.mask
    assert mask[:2].all() and mask[:, 6:].all() and not mask[2:, :6].any()


def test_cuts_take_the_corners_that_they_name(read):
    problem = read("resolution = 16\nshape.cuts = [[4, 2], [], [], [3, 3]]\n" + BOUNDARY)
    assert problem.domain.mask.sum() == 256 - 8 - 9


def test_fields_of_every_family_are_what_they_say(read):
    problem = read(
        "resolution = 16\nequation = 'darcy'\n"
        "source = {family = 'waves', amplitude = 3.0, waves = [1, 2]}\n"
        "coefficient = {family = 'random', seed = 1, contrast = 5}\n"
        "[boundary]\nkind = 'robin'\nalpha = 2.0\nvalues = {family = 'waves', waves = 3}\n"
    )
    x, y = problem.domain.points.T
    np.testing.assert_allclose(problem.f, 3 * np.sin(2 * np.pi * x) * np.sin(4 * np.pi * y))
    around = problem.domain.panels.arc_length / 4
    np.testing.assert_allclose(problem.g, np.sin(6 * np.pi * around), atol=1e-12)
    assert (problem.walls.alpha == 2).all() and 1 <= problem.law.coefficient.min() < problem.law.coefficient.max() <= 5
    values = ", ".join(map(str, range(64)))
    problem = read(
        "resolution = 16\nsource = {family = 'random', seed = 4, amplitude = 20}\n"
        f"[boundary]\nvalues = {{family = 'array', values = [{values}]}}\n"
    )
    assert problem.g.tolist() == list(range(64)) and np.abs(problem.f).max() == pytest.approx(20)


def test_neumann_walls_out_of_balance_are_refused_unless_it_is_asked_for(read):
    text = "source = {family = 'constant', value = 1.0}\n[boundary]\nkind = 'neumann'\n"
    text += "values = {family = 'constant', value = 1.0}\n"
    with pytest.raises(BenoError, match=r"a\.toml: a pure Neumann problem needs"):
        read(text)
    put_in, out, _ = (problem := read("balanced = true\n" + text)).operator.flows(problem.right)
    assert put_in == pytest.approx(out, abs=1e-12)


@pytest.mark.parametrize(
    "text, messages",
    [
        ("resolution = 1\nequaton = 'poisson'\n" + BOUNDARY, ["resolution", "equaton"]),
        ("", ["boundary: Field required"]),
        ("equation = 'darcy'\n" + BOUNDARY, ["darcy needs a coefficient"]),
        ("shape = {cuts = [[1, 1]]}\n" + BOUNDARY, ["shape.cuts"]),
        ("shape = {cuts = [[1,1],[],[],[]], mask = '#'}\n" + BOUNDARY, ["not both"]),
        ("shape.mask = '''\n##\n#x\n'''\n" + BOUNDARY, ["'x'"]),
        ("shape.mask = '''\n###\n##\n'''\n" + BOUNDARY, ["must be square"]),
        ("resolution = 9\nshape.mask = '''\n##\n##\n'''\n" + BOUNDARY, ["multiple of the mask's 2 rows"]),
        ("shape.mask = '''\n#.\n.#\n'''\n" + BOUNDARY, ["2 parts"]),
        ("[boundary]\nvalues = {family = 'array', values = [1.0]}\n", ["1 values", "128 panels"]),
        ("[boundary]\nvalues = {family = 'constant', value = nan}\n", ["finite"]),
        ("[boundary]\nvalues = {family = 'spline'}\n", ["spline"]),
        ("[boundary]\nvalues = {family = 'waves', waves = [1, 2]}\n", ["one number"]),
        ("resolution = 4096\n" + BOUNDARY, ["1024"]),
        ("[boundary\n", ["not TOML"]),
    ],
)
def test_all_that_is_wrong_with_a_file_is_said_with_its_name(read, text, messages):
    with pytest.raises(BenoError) as error:
        read(text)
    for message in ["a.toml", *messages]:
        assert message in str(error.value)


def test_a_file_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(BenoError, match="cannot read"):
        read_problem(tmp_path / "none.toml")


def test_the_example_in_the_documentation_can_be_read(read):
    page = (ROOT / "docs" / "problem_files.md").read_text()
    problem = read(page.split("```toml\n")[1].split("```")[0])
    assert problem.law.name == "darcy" and problem.domain.mask.sum() < 1024
