"""The lists of node labels that describe the network, as arguments of network-topology-aware.

`topology.labels` is one list, `topology.labels.<name>` are further ones, each a text with commas
between the keys. Without any nothing about labels is computed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Final

from swell.scheduler.config import Config, PluginOption
from swell.scheduler.model.label_topology import LabelList

PLUGIN: Final = "network-topology-aware"
LABELS: Final = "topology.labels"
LABELS_OF: Final = "topology.labels."


def lists_in(config: Config) -> tuple[LabelList, ...]:
    """Returns the lists that a configuration has, in the order in which nodes are asked."""
    for tier in config.tiers:
        for option in tier:
            if option.name == PLUGIN:
                return _lists(option.arguments.values)
    return ()


def problems(option: PluginOption) -> Iterator[str]:
    """Yields why the lists of a plugin cannot be used: the whole configuration is refused then."""
    for one in _lists(option.arguments.values):
        setting = f"{LABELS_OF}{one.name}" if one.name else LABELS
        for problem in one.problems():
            yield f"argument {setting!r}: {problem}"


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields the keys that stand on different tiers of several lists."""
    tiers: dict[str, int] = {}
    for one in _lists(option.arguments.values):
        for place, key in enumerate(one.keys):
            if tiers.setdefault(key, one.tier(place)) != one.tier(place):
                yield f"{key!r} is on several tiers: who names it gets the lowest, in every list"


def _lists(arguments: Mapping[str, object]) -> tuple[LabelList, ...]:
    given = [
        (name.removeprefix(LABELS).removeprefix("."), text)
        for name, text in arguments.items()
        if (name == LABELS or name.startswith(LABELS_OF)) and isinstance(text, str)
    ]
    # Compared at each cycle, hence the same values each time.
    return _parsed(tuple(sorted(given))) if given else ()


@lru_cache(maxsize=16)
def _parsed(given: tuple[tuple[str, str], ...]) -> tuple[LabelList, ...]:
    return tuple(
        LabelList(name, tuple(key.strip() for key in text.split(","))) for name, text in given
    )
