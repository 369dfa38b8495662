"""Laws are checked on the same random cases every time, so that a failure can be repeated."""

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile(
    "beno", deadline=None, max_examples=25, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("beno")


def pytest_configure(config: pytest.Config) -> None:
    # The runtime shape checks pick at random which element of a list to look at, also inside strategies.
    config.addinivalue_line("filterwarnings", "ignore:Do not use the `random` module inside strategies")


try:
    import torch
except ImportError:
    pass
else:
    # Test processes run side by side; threads of one would wait for those of the others.
    torch.set_num_threads(1)
