"""Every sample is in one split, and the splits are as large as the paper's."""

import numpy as np
import pytest

from beno.datasets.splits import SPLITS, split_numbers, split_sizes


def test_splits_follow_the_paper():
    assert split_sizes(1000) == (810, 90, 100)


@pytest.mark.parametrize("count", [*range(1, 60), 299, 1000])
def test_every_sample_is_in_one_split_in_the_order_of_their_names(count):
    assert sum(split_sizes(count)) == count and split_sizes(count)[0] >= 1
    numbers = split_numbers(count)
    assert (np.diff(numbers.astype(int)) >= 0).all()
    assert tuple(np.bincount(numbers, minlength=len(SPLITS))) == split_sizes(count)
