"""Records from ConfigMaps, selected and in order. Pure: whoever has the ConfigMaps may ask.

Shards are written by the operator, and may be written by anybody who may write ConfigMaps there:
what cannot be read is left out, and what is read is never trusted with more than being shown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from swell.api.core import ConfigMap
from swell.history.life import JobLife, LifeError, unpack
from swell.history.shards import HISTORY_LABEL, ShelfName, split_key

ALL_SHARDS = HISTORY_LABEL  # as a label selector: every shard has the label

LabelMatch = Callable[[Mapping[str, str]], bool]


@dataclass(frozen=True, slots=True)
class HistoryFilter:
    """Which records are asked for; None asks for all."""

    since: float | None = None  # jobs that ended then or later
    name: str | None = None
    labels: LabelMatch | None = None


EVERY_LIFE = HistoryFilter()


def ended_lives(shards: Iterable[ConfigMap], wanted: HistoryFilter = EVERY_LIFE) -> list[JobLife]:
    """Returns the records of ended jobs, the last end first; each job once."""
    found: dict[str, JobLife] = {}
    for shard in shards:
        if shard.metadata.labels.get(HISTORY_LABEL) != ShelfName.ENDED:
            continue
        for key, text in shard.binary_data.items():
            ended, uid = split_key(key)
            if not uid or uid in found or (wanted.since is not None and ended < wanted.since):
                continue
            life = _read(text, shard, uid)
            if life is not None and life.ended is not None and _is_wanted(life, wanted):
                found[uid] = life
    return sorted(
        found.values(), key=lambda life: (-(life.ended or 0.0), life.namespace, life.name)
    )


def open_lives(shards: Iterable[ConfigMap]) -> dict[str, JobLife]:
    """Returns the checkpoints of living jobs by UID, for whoever continues them."""
    found: dict[str, JobLife] = {}
    for shard in shards:
        if shard.metadata.labels.get(HISTORY_LABEL) == ShelfName.OPEN:
            for key, text in shard.binary_data.items():
                life = _read(text, shard, split_key(key)[1])
                if life is not None and life.ended is None:
                    found[life.uid] = life
    return found


def _read(text: str, shard: ConfigMap, uid: str) -> JobLife | None:
    """Returns a record; None for one that is damaged, or is about a job of another namespace."""
    try:
        life = unpack(text)
    except LifeError:
        return None
    return life if life.namespace == shard.metadata.namespace and life.uid == uid else None


def _is_wanted(life: JobLife, wanted: HistoryFilter) -> bool:
    if wanted.name is not None and life.name != wanted.name:
        return False
    return wanted.labels is None or wanted.labels(life.labels)
