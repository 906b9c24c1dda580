"""Which tests are long, and which run in one process when there are several processes.

Those of a file stay together, since they share what was set up for them; so do those of style, for
which every file is parsed; and all that need real nodes, since a machine has room for one such
cluster. The lanes that take longest begin first.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

END_TO_END = "tests/e2e/"
STYLE = ("tests/unit/test_tidy.py", "tests/unit/test_words.py")
REAL_NODES = ("tests/e2e/kubernetes/", "tests/contract/node/test_node_contract.py")
LONGEST = (
    "real nodes",
    "tests/e2e/autoscaler/test_training.py",
    "tests/e2e/scheduler/test_scheduler.py",
    # Of `make test`: begun last, one of these would keep one processor busy and the others idle.
    "tests/sim/test_planted.py",
    "tests/contract/test_behaviours.py",
    "tests/sim/test_seeds.py",
    "tests/unit/train/test_chaos.py",
    "tests/unit/train/bus/test_disturbed.py",
    "tests/sim/test_every_write.py",
    "tests/unit/train/launch/test_launch_group.py",
    "tests/unit/train/launch/test_launch_program.py",
    "tests/property/test_config_effects.py",
)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Every process gets one lane after the other."""
    scheduling = LoadScopeScheduling(config, log)
    scheduling._split_scope = lane_of  # made to be replaced, by a subclass
    return scheduling


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.nodeid.startswith(END_TO_END):
        item.add_marker(pytest.mark.long)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=lambda item: _rank(lane_of(item.nodeid)))


def lane_of(nodeid: str) -> str:
    if nodeid.startswith(REAL_NODES):
        return LONGEST[0]
    return STYLE[0] if nodeid.startswith(STYLE) else nodeid.partition("::")[0]


def _rank(lane: str) -> int:
    return LONGEST.index(lane) if lane in LONGEST else len(LONGEST)
