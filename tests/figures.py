"""Figures that tests find, shown at the end of a run, whichever process found them.

A test asks for `figure` and calls it with a line of text.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

NAME = "figure"
Figure = Callable[[str], None]


@pytest.fixture
def figure(record_property: Callable[[str, object], None]) -> Figure:
    """Shows a line when all tests are over."""
    return lambda text: record_property(NAME, text)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    lines = [
        str(value)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for name, value in report.user_properties
        if name == NAME
    ]
    if lines:
        terminalreporter.section("figures")
        terminalreporter.write_line("\n".join(lines))
