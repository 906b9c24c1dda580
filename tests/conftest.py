"""What every test may ask for by name, and how examples are drawn."""

import signal

import pytest
from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.figures", "tests.garbage", "tests.lanes", "tests.testbed.plugin")

# How long an example takes says nothing on a busy machine.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

# A script starts programs in the background with Ctrl-C ignored, and programs that tests start and
# interrupt would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# Whole clusters, builds of packages and images, lives of jobs: most take minutes.
LONG_TEST_S = 3600


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Long tests may take longer than the limit of pyproject.toml."""
    for item in items:
        if item.get_closest_marker("long") and not item.get_closest_marker("timeout"):
            item.add_marker(pytest.mark.timeout(LONG_TEST_S))
