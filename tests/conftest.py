"""What every test may ask for by name."""

pytest_plugins = ("tests.figures", "tests.lanes", "tests.testbed.plugin")
