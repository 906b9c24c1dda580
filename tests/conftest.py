"""What every test may ask for by name, and how examples are drawn."""

from hypothesis import HealthCheck, settings

pytest_plugins = ("tests.figures", "tests.lanes", "tests.testbed.plugin")

# How long an example takes says nothing on a busy machine.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")
