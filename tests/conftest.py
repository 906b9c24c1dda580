"""What every test may ask for by name."""

pytest_plugins = ("tests.testbed.plugin",)
