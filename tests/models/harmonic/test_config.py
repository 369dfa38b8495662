"""The settings of the harmonic operator, and what they make of its sizes."""

import pytest

from beno.models.harmonic.config import HarmonicConfig
from beno.problems.families import Family
from beno.support.errors import BenoError
from tests.learning import small_model


@pytest.mark.parametrize(
    ("family", "boundary", "coefficient"),
    [
        (Family(), "dirichlet", False),
        (Family(boundary="zero"), "dirichlet", False),
        (Family(boundary="neumann"), "neumann", False),
        (Family(boundary="robin"), "mixed", False),
        (Family(boundary="mixed"), "mixed", False),
        (Family("darcy", "neumann"), "neumann", True),
    ],
    ids=lambda value: value.name if isinstance(value, Family) else None,
)
def test_a_family_asks_for_its_walls_and_its_coefficient(family, boundary, coefficient):
    settings = HarmonicConfig.settings_for(family.problem_class)
    assert (settings["boundary"], settings["coefficient"]) == (boundary, coefficient)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"boundary": "periodic"}, "boundary is 'periodic'; it must be one of dirichlet, neumann, mixed"),
        ({"heads": 3}, "width 128 must be a multiple of the 3 heads"),
        ({"layers": 0}, "layers is 0; it must be at least 1"),
        ({"pair_width": 0}, "pair_width is 0"),
        ({"rank": 0}, "rank is 0"),
    ],
)
def test_settings_that_make_no_network_are_refused(settings, message):
    with pytest.raises(BenoError, match=message):
        HarmonicConfig.from_settings(settings)


@pytest.mark.parametrize(("boundary", "numbers"), [("dirichlet", 1), ("neumann", 4), ("mixed", 5)])
@pytest.mark.parametrize("equation", ["poisson", "darcy"])
def test_the_network_of_pairs_says_as_many_numbers_as_its_walls_need(equation, boundary, numbers):
    pair = small_model("harmonic", Family(equation, boundary)).pair
    assert pair.outputs == pair.last.out_features == numbers
    assert pair.from_view.in_features == (16 if equation == "poisson" else 24)
