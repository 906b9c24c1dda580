"""Which tests are long, and which of them run in one process when there are several processes.

Those of a file stay together, since they share what was set up for them; and all that need real
nodes, since a machine has room for one such cluster. The lanes that take longest begin first.
"""

from __future__ import annotations

from pathlib import Path

import pytest

TESTS = Path(__file__).parent
END_TO_END = TESTS / "e2e"
REAL_NODES = (TESTS / "e2e/kubernetes", TESTS / "contract/node/test_node_contract.py")
LONGEST = ("real nodes", "e2e/autoscaler/test_training.py", "e2e/scheduler/test_scheduler.py")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lanes = {item: _lane(item.path) for item in items}
    for item, lane in lanes.items():
        item.add_marker(pytest.mark.xdist_group(lane))
        if item.path.is_relative_to(END_TO_END):
            item.add_marker(pytest.mark.long)
    items.sort(key=lambda item: _rank(lanes[item]))


def _lane(path: Path) -> str:
    if any(path.is_relative_to(place) for place in REAL_NODES):
        return LONGEST[0]
    return path.relative_to(TESTS).as_posix()


def _rank(lane: str) -> int:
    return LONGEST.index(lane) if lane in LONGEST else len(LONGEST)
