"""Which samples are for training, for validation and for testing."""

import numpy as np

SPLITS = ("train", "validation", "test")


def split_sizes(samples: int) -> tuple[int, int, int]:
    """A tenth to test; of the rest a tenth to validate.

    >>> split_sizes(1000)
    (810, 90, 100)
    """
    test = round(samples / 10)
    validation = round((samples - test) / 10)
    return samples - test - validation, validation, test


def split_numbers(samples: int) -> np.ndarray:
    """For each sample the number of its split in SPLITS."""
    return np.repeat(np.arange(len(SPLITS), dtype=np.uint8), split_sizes(samples))
