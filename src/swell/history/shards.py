"""Which ConfigMap a record goes to, and which records are too old. Pure.

Records of one namespace share ConfigMaps, the shards: a key for each job, and a new shard when one
is full. They lie in the job's own namespace, so that whoever may read its ConfigMaps may read its
history, and nobody else's (docs/adr/0128).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum

from swell.history.life import JobLife, pack

# The label of every shard, with the shelf it belongs to, and the label with the kind of its jobs.
HISTORY_LABEL = "elasticdeeplearning.ai/history"
KIND_LABEL = "elasticdeeplearning.ai/history-of"
NAME_PREFIX = "swell-history"
# A write changes one shard, and a server stores all of it anew. A ConfigMap may have 1 MiB.
SHARD_BYTES_MAX = 128 * 1024


class ShelfName(StrEnum):
    """The two kinds of records: of jobs that have ended, and of jobs that live."""

    ENDED = "ended"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class RecordKey:
    """Where a record lies: namespace, number of the shard, and key within it."""

    namespace: str
    number: int
    key: str
    size: int
    ended: float


@dataclass(frozen=True, slots=True)
class ShardWrite:
    """Records that go into one shard together."""

    namespace: str
    number: int
    texts: dict[str, str | None]  # None removes the key
    places: dict[str, RecordKey]  # by UID


def shard_name(kind: str, shelf: ShelfName, number: int) -> str:
    return f"{NAME_PREFIX}-{kind}-{shelf.value}-{number:05d}"


def number_of(name: str) -> int:
    """Returns the number in the name of a shard; -1 for another name."""
    tail = name.rpartition("-")[2]
    return int(tail) if name.startswith(NAME_PREFIX) and tail.isdecimal() else -1


def record_key(life: JobLife) -> str:
    """Returns the key of a record: its end, so that readers may skip it unread, and the UID."""
    return f"{int(life.ended or 0)}.{life.uid}"


def split_key(key: str) -> tuple[float, str]:
    """Returns the end and the UID in a record's key; an empty UID for a key of another form."""
    head, _, uid = key.partition(".")
    return (float(head), uid) if head.isdecimal() else (0.0, "")


@dataclass(slots=True)
class ShelfIndex:
    """Which records there are, where they lie, and which comes next to go."""

    places: dict[str, RecordKey] = field(default_factory=dict)  # by UID
    sizes: dict[tuple[str, int], int] = field(default_factory=dict)  # bytes by shard
    newest: dict[str, int] = field(default_factory=dict)  # number by namespace
    oldest: list[tuple[float, str]] = field(default_factory=list)  # a heap of ends and UIDs

    def add(self, uid: str, place: RecordKey) -> None:
        shard = place.namespace, place.number
        self.newest[place.namespace] = max(self.newest.get(place.namespace, 0), place.number)
        former = self.places.get(uid)
        if former is not None:
            self.sizes[former.namespace, former.number] -= former.size
        self.sizes[shard] = self.sizes.get(shard, 0) + place.size
        self.places[uid] = place
        if former is None:
            heapq.heappush(self.oldest, (place.ended, uid))

    def remove(self, uid: str) -> None:
        place = self.places.pop(uid, None)
        if place is not None:
            self.sizes[place.namespace, place.number] -= place.size

    def forget_shard(self, namespace: str, number: int) -> None:
        """Forget what lay in a shard that is gone."""
        self.sizes.pop((namespace, number), None)
        gone = [u for u, p in self.places.items() if (p.namespace, p.number) == (namespace, number)]
        for uid in gone:
            del self.places[uid]


def writes_for(index: ShelfIndex, lives: Iterable[JobLife]) -> list[ShardWrite]:
    """Returns the writes that put these records on the shelf: one for each shard concerned.

    A record that is there already is replaced where it lies.
    """
    sizes = dict(index.sizes)
    newest = dict(index.newest)
    found: dict[tuple[str, int], ShardWrite] = {}
    for life in lives:
        text, key = pack(life), record_key(life)
        size = len(text) + len(key)
        former = index.places.get(life.uid)
        number = former.number if former is not None else newest.get(life.namespace, 0)
        if former is None and sizes.get((life.namespace, number), 0) + size > SHARD_BYTES_MAX:
            number += 1
        newest[life.namespace] = max(number, newest.get(life.namespace, 0))
        shard = life.namespace, number
        sizes[shard] = sizes.get(shard, 0) + size
        write = found.setdefault(shard, ShardWrite(*shard, {}, {}))
        if former is not None and former.key != key:
            write.texts[former.key] = None
        write.texts[key] = text
        write.places[life.uid] = RecordKey(*shard, key, size, life.ended or 0.0)
    return list(found.values())


def too_old(index: ShelfIndex, jobs_max: int, before: float) -> list[str]:
    """Returns the UIDs of records that ended before a time, or are more than there may be.

    They are taken from the index' heap, and stay in the index until they are removed.
    """
    gone: list[str] = []
    left = len(index.places)
    while index.oldest and (left > jobs_max or index.oldest[0][0] < before):
        _, uid = heapq.heappop(index.oldest)
        if uid in index.places:
            gone.append(uid)
            left -= 1
    return gone


def removals(index: ShelfIndex, uids: Iterable[str]) -> list[ShardWrite]:
    """Returns the writes that remove these records."""
    found: dict[tuple[str, int], ShardWrite] = {}
    for uid in uids:
        place = index.places.get(uid)
        if place is not None:
            shard = place.namespace, place.number
            write = found.setdefault(shard, ShardWrite(*shard, {}, {}))
            write.texts[place.key] = None
            write.places[uid] = place
    return list(found.values())
