"""Writes and reads the shards of one kind of record. It decides nothing.

A write sets or removes single keys of a ConfigMap by a merge patch, so that to repeat one whose
outcome is unknown, also by another process, changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.core import ConfigMap
from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body, Key
from swell.history.life import JobLife, LifeError, unpack
from swell.history.shards import (
    HISTORY_LABEL,
    KIND_LABEL,
    RecordKey,
    ShardWrite,
    ShelfIndex,
    ShelfName,
    number_of,
    removals,
    shard_name,
    split_key,
    writes_for,
)
from swell.runtime.cluster import Cluster, Deletion, Selection, merge_patch
from swell.runtime.errors import AlreadyExistsError, NotFoundError

_PAGE = 20  # shards of a list; 20 of them are 2.5 MiB


class Shelf:
    """The records of one kind of job, ended or open, of all namespaces that an operator sees."""

    def __init__(self, cluster: Cluster, kind: str, name: ShelfName, namespace: str) -> None:
        self._cluster = cluster
        self._kind = kind
        self._name = name
        self._namespace = namespace
        self.index = ShelfIndex()

    async def load(self) -> list[JobLife]:
        """Read all shards consistently into the index. Of the open shelf, returns the records."""
        self.index = ShelfIndex()
        labels = f"{HISTORY_LABEL}={self._name.value},{KIND_LABEL}={self._kind}"
        selection, token = Selection(self._namespace, labels=labels), ""
        found: list[JobLife] = []
        while True:
            page = await self._cluster.list(
                CONFIG_MAPS, selection, limit=_PAGE, continue_token=token
            )
            for shard in page.items:
                found += self._take(shard)
            token = page.continue_token
            if not token:
                return found

    def _take(self, shard: ConfigMap) -> list[JobLife]:
        meta, number = shard.metadata, number_of(shard.metadata.name)
        if number < 0:
            return []
        self.index.sizes.setdefault((meta.namespace, number), 0)
        newest = self.index.newest.get(meta.namespace, 0)
        self.index.newest[meta.namespace] = max(newest, number)
        lives = []
        for key, text in shard.binary_data.items():
            ended, uid = split_key(key)
            if uid:
                place = RecordKey(meta.namespace, number, key, len(key) + len(text), ended)
                self.index.add(uid, place)
                lives += _unpacked(text) if self._name is ShelfName.OPEN else []
        return lives

    async def put(self, lives: Iterable[JobLife]) -> None:
        """Write records; one that is there already is replaced."""
        for write in writes_for(self.index, lives):
            await self.put_shard(write)

    async def put_shard(self, write: ShardWrite) -> None:
        """Write the records of one shard, and note them in the index."""
        await self._send(write)
        for uid, place in write.places.items():
            self.index.add(uid, place)

    async def remove(self, uids: Iterable[str]) -> None:
        """Remove records; a shard that is left empty goes, unless new records go there."""
        for write in removals(self.index, uids):
            shard = write.namespace, write.number
            n_left = self.index.sizes.get(shard, 0) - sum(p.size for p in write.places.values())
            if n_left <= 0 and write.number < self.index.newest.get(write.namespace, 0):
                await self._drop(write)
            else:
                await self._send(write)
            for uid in write.places:
                self.index.remove(uid)

    async def _send(self, write: ShardWrite) -> None:
        key = Key(write.namespace, shard_name(self._kind, self._name, write.number))
        change = merge_patch({"binaryData": write.texts})
        try:
            await self._cluster.patch(CONFIG_MAPS, key, change)
        except NotFoundError:
            self.index.forget_shard(write.namespace, write.number)
            if not any(write.texts.values()):
                return  # there is nothing to be removed from it any more
            try:
                await self._cluster.create(CONFIG_MAPS, self._body(key, write))
            except AlreadyExistsError:
                await self._cluster.patch(CONFIG_MAPS, key, change)

    async def _drop(self, write: ShardWrite) -> None:
        key = Key(write.namespace, shard_name(self._kind, self._name, write.number))
        try:
            await self._cluster.delete(CONFIG_MAPS, key, Deletion())
        except NotFoundError:
            return

    def _body(self, key: Key, write: ShardWrite) -> Body:
        return {
            "apiVersion": "v1",
            "kind": CONFIG_MAPS.kind,
            "metadata": {
                "namespace": key.namespace,
                "name": key.name,
                "labels": {HISTORY_LABEL: self._name.value, KIND_LABEL: self._kind},
            },
            "binaryData": {name: text for name, text in write.texts.items() if text is not None},
        }


def _unpacked(text: str) -> list[JobLife]:
    try:
        return [unpack(text)]
    except LifeError:
        return []  # somebody else wrote it; the job's own status says what it can
