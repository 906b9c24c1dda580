"""Boards, alert rules and the page of metrics: as they are written, and of metrics there are."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.write_boards import ALERTS, BOARDS, all_metrics, families, files

ROOT = Path(__file__).parents[3]
NAME = re.compile(r"\b(?:swell|volcano)_[a-z0-9_]+")
BY = re.compile(r"by \(([^)]*)\)")
MATCH = re.compile(r"[{,]([a-z_]+)[!=~]+\"")
EXPRESSIONS = [
    *(query for panels in BOARDS.values() for panel in panels for query, _ in panel.queries),
    *(alert.expression for alert in ALERTS),
]


def samples() -> set[str]:
    """The names of all series, as a query has to write them."""
    endings = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
    return {f"{one.name}{ending}" for one in families() for ending in endings.get(one.type, ("",))}


def test_files_are_as_they_are_written() -> None:
    """`python -m tools.write_boards` changes nothing."""
    assert {path: (ROOT / path).read_text() for path in files()} == files()


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_of_an_expression_exists(expression: str) -> None:
    """A board of a metric that was renamed shows nothing, and says nothing."""
    found = NAME.findall(expression)

    assert found
    assert set(found) <= samples()


def test_expressions_sum_by_labels_that_there_are() -> None:
    """A label that no metric has makes one series of all."""
    known = all_metrics()._names_to_collectors
    for expression in EXPRESSIONS:
        names = [re.sub(r"_bucket$", "", name) for name in NAME.findall(expression)]
        had = {label for name in names for label in vars(known[name])["_labelnames"]}
        asked = {
            label.strip() for group in BY.findall(expression) for label in group.split(",")
        } | set(MATCH.findall(expression))

        assert asked <= had | {"le", "job", "instance", "quantile"}, expression


def test_every_part_has_a_board_and_alerts_say_who() -> None:
    """Operator, scheduler and autoscaler; names of alerts are told apart."""
    assert set(BOARDS) == {"operator", "scheduler", "autoscaler"}
    assert len({alert.name for alert in ALERTS}) == len(ALERTS)
