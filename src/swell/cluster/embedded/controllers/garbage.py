"""The garbage collector of owners and dependents.

It works from the store's commits and keeps an index of dependents by owner UID, so the work for one
commit does not grow with the cluster. An owner is identified by its UID: another object of the same
name is not the owner. `step` handles one object that is due; `run` handles them as they come.

The rules, which are Kubernetes':
- An object is deleted when all its owners are gone. While one exists, references to owners that are
  gone are removed.
- An owner deleted with propagation Foreground waits for the dependents that block it, which are
  deleted.
- An owner deleted with propagation Orphan waits until no dependent refers to it.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.objectmeta import FOREGROUND, ORPHAN
from swell.cluster.embedded.registry import ServedKind
from swell.cluster.embedded.slices import take_all
from swell.cluster.embedded.storage import Commit, Stored
from swell.cluster.embedded.verbs.requests import DeleteOptions, RequestContext
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ClusterError, NotFoundError

ACTOR = "garbage-collector"
RETRY_S = 5.0  # until failed writes are tried again


class DependencyNode(NamedTuple):
    """An object of the graph of owners and dependents, by where it is stored."""

    collection: str
    key: Key


class GarbageCollector:
    """Collects garbage in one API server's store."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        # Dicts instead of sets, since they keep the order of events: simulations must repeat.
        self._dependents: dict[str, dict[DependencyNode, None]] = {}
        # UIDs of owners that were removed while they had dependents. They are known to be gone,
        # even when their kind is no longer served.
        self._gone: dict[str, None] = {}
        self._due: dict[DependencyNode, None] = {}
        self._failed: dict[DependencyNode, None] = {}
        self._wake: asyncio.Event = asyncio.Event()
        # The store may have been loaded from disk, with work left from before.
        for collection in api.storage.collections():
            for key, stored in api.storage.list(collection).items:
                self._index(DependencyNode(collection, key), stored)
                if _concerns(stored):
                    self._due[DependencyNode(collection, key)] = None
        api.storage.on_commit.append(self._on_commit)

    @property
    def idle(self) -> bool:
        return not self._due and not self._failed

    def step(self) -> bool:
        """Handle one object that is due; returns whether there was one."""
        if not self._due:
            return False
        node = next(iter(self._due))
        del self._due[node]
        try:
            self._handle(node)
        except NotFoundError:
            pass  # removed meanwhile: the commit of its removal has marked what is due
        except ClusterError:
            self._failed[node] = None
        return True

    def drain(self) -> None:
        """Handle everything that is due, including what becomes due meanwhile."""
        while self.step():
            pass

    async def run(self) -> None:
        """Collect until cancelled."""
        while True:
            await take_all(iter(self.step, False))
            self._wake.clear()
            try:
                async with asyncio.timeout(RETRY_S if self._failed else None):
                    await self._wake.wait()
            except TimeoutError:
                self._due.update(self._failed)
                self._failed.clear()

    # -- the graph ---------------------------------------------------------------------------

    def _on_commit(self, commit: Commit) -> None:
        """Update the index, and mark what this commit makes due."""
        before, after = commit.before, commit.after
        if before is not None and after is not None and not _differ(before, after):
            return
        node = DependencyNode(commit.collection, commit.key)
        if after is not None:
            self._gone.pop(after.uid, None)  # its removal was undone
        if before is not None:
            self._unindex(node, before)
        if after is not None:
            self._index(node, after)
            if _concerns(after):
                self._due[node] = None
        if before is not None:
            if after is None:
                self._owner_gone(before.uid)
            self._wake_owners(node, before)
        if self._due:
            self._wake.set()

    def _owner_gone(self, uid: str) -> None:
        dependents = self._dependents.get(uid)
        if dependents:
            self._gone[uid] = None
            self._due.update(dependents)

    def _wake_owners(self, node: DependencyNode, before: Stored) -> None:
        """Mark owners as due that are deleted in the foreground: they may wait for this one."""
        for reference in _owners(before):
            owner = self._owner_node(node, reference)
            stored = self._api.storage.get(*owner) if owner else None
            if owner and stored is not None and _waits_for_dependents(stored):
                self._due[owner] = None

    def _index(self, node: DependencyNode, stored: Stored) -> None:
        for reference in _owners(stored):
            self._dependents.setdefault(reference.get("uid", ""), {})[node] = None

    def _unindex(self, node: DependencyNode, stored: Stored) -> None:
        for reference in _owners(stored):
            uid = reference.get("uid", "")
            held = self._dependents.get(uid)
            if held is not None:
                held.pop(node, None)
                if not held:
                    del self._dependents[uid]
                    self._gone.pop(uid, None)

    def _owner_node(self, dependent: DependencyNode, reference: Body) -> DependencyNode | None:
        """Where an owner is stored, if it exists; None when its kind is not served."""
        kind = self._api.registry.of_object(
            reference.get("apiVersion", ""), reference.get("kind", "")
        )
        if kind is None:
            return None
        namespace = dependent.key.namespace if kind.namespaced else ""
        return DependencyNode(kind.collection, Key(namespace, reference.get("name", "")))

    # -- what is due -------------------------------------------------------------------------

    def _handle(self, node: DependencyNode) -> None:
        stored = self._api.storage.get(*node)
        if stored is None:
            return
        if stored.metadata.get("deletionTimestamp"):
            finalizers = stored.metadata.get("finalizers") or ()
            if ORPHAN in finalizers:
                self._orphan_dependents(node, stored)
            elif FOREGROUND in finalizers:
                self._delete_dependents(node, stored)
            return
        if _owners(stored):
            self._handle_dependent(node, stored)

    def _orphan_dependents(self, node: DependencyNode, owner: Stored) -> None:
        for dependent in self._others(node, owner):
            stored = self._api.storage.get(*dependent)
            if stored is not None:
                kept = [ref for ref in _owners(stored) if ref.get("uid") != owner.uid]
                self._write(dependent, stored, "ownerReferences", kept)
        self._drop_finalizer(node, owner, ORPHAN)

    def _delete_dependents(self, node: DependencyNode, owner: Stored) -> None:
        """Remove the owner's finalizer when no dependent blocks it; else mark those as due."""
        blocking = False
        for dependent in self._others(node, owner):
            stored = self._api.storage.get(*dependent)
            if stored is None:
                continue
            blocking = blocking or (
                _blocks(stored, owner.uid) and not self._waits_for(dependent, node)
            )
            if not stored.metadata.get("deletionTimestamp"):
                self._due[dependent] = None
        if not blocking:
            self._drop_finalizer(node, owner, FOREGROUND)

    def _waits_for(self, node: DependencyNode, goal: DependencyNode) -> bool:
        """Whether `node` waits, directly or through others, for `goal`.

        In a cycle of owners each would wait for the next for ever; so a dependent that waits for
        its own owner does not block it.
        """
        seen, todo = {node}, [node]
        while todo:
            waiting = todo.pop()
            owner = self._api.storage.get(*waiting)
            if owner is None or not _waits_for_dependents(owner):
                continue
            for dependent in self._others(waiting, owner):
                stored = self._api.storage.get(*dependent)
                if stored is None or not _blocks(stored, owner.uid):
                    continue
                if dependent == goal:
                    return True
                if dependent not in seen:
                    seen.add(dependent)
                    todo.append(dependent)
        return False

    def _others(self, node: DependencyNode, owner: Stored) -> list[DependencyNode]:
        """The dependents without the owner, which may be its own dependent."""
        return [found for found in self._dependents.get(owner.uid, {}) if found != node]

    def _handle_dependent(self, node: DependencyNode, stored: Stored) -> None:
        """Delete an object without owners; remove references to owners that are gone."""
        solid: list[Body] = []
        waiting = False
        for reference in _owners(stored):
            if reference.get("uid") in self._gone:
                continue
            owner_node = self._owner_node(node, reference)
            if owner_node is None:
                return  # its kind is not served, so whether it is gone is unknown
            owner = self._api.storage.get(*owner_node)
            if owner is None or owner.uid != reference.get("uid"):
                continue
            if _waits_for_dependents(owner):
                waiting = True
            else:
                solid.append(reference)
        if solid:
            if len(solid) < len(_owners(stored)):
                self._write(node, stored, "ownerReferences", solid)
        elif waiting and self._dependents.get(stored.uid):
            self._delete(node, stored, "Foreground")
        else:
            self._delete(node, stored, _own_propagation(stored))

    # -- writes ------------------------------------------------------------------------------

    def _drop_finalizer(self, node: DependencyNode, stored: Stored, finalizer: str) -> None:
        kept = [name for name in stored.metadata.get("finalizers") or () if name != finalizer]
        self._write(node, stored, "finalizers", kept)

    def _write(
        self, node: DependencyNode, stored: Stored, field: str, value: list[Body] | list[str]
    ) -> Stored:
        # With the version: a concurrent change of the same list is not overwritten, but seen.
        version = str(stored.version)
        patch = merge_patch({"metadata": {"resourceVersion": version, field: value or None}})
        return self._api.patch(self._kind(node), node.key, patch, RequestContext(ACTOR))

    def _delete(self, node: DependencyNode, stored: Stored, propagation: str) -> None:
        options = DeleteOptions(
            uid=stored.uid, resource_version=str(stored.version), propagation=propagation
        )
        self._api.delete(self._kind(node), node.key, options, RequestContext(ACTOR))

    def _kind(self, node: DependencyNode) -> ServedKind:
        kind = self._api.registry.stored(node.collection)
        if kind is None:
            raise AssertionError("what is stored is of a kind that is served")
        return kind


def _owners(stored: Stored) -> list[Body]:
    return stored.metadata.get("ownerReferences") or []


def _concerns(stored: Stored) -> bool:
    """Whether an object has owners or is being deleted, so that it may be due."""
    return bool(_owners(stored)) or bool(stored.metadata.get("deletionTimestamp"))


def _differ(before: Stored, after: Stored) -> bool:
    """Whether a write changed what the graph consists of; most writes do not."""
    old, new = before.metadata, after.metadata
    return any(
        old.get(field) != new.get(field)
        for field in ("ownerReferences", "deletionTimestamp", "finalizers")
    )


def _waits_for_dependents(stored: Stored) -> bool:
    finalizers = stored.metadata.get("finalizers") or ()
    return bool(stored.metadata.get("deletionTimestamp")) and FOREGROUND in finalizers


def _blocks(stored: Stored, owner_uid: str) -> bool:
    return any(
        reference.get("uid") == owner_uid and reference.get("blockOwnerDeletion")
        for reference in _owners(stored)
    )


def _own_propagation(stored: Stored) -> str:
    finalizers = stored.metadata.get("finalizers") or ()
    if ORPHAN in finalizers:
        return "Orphan"
    return "Foreground" if FOREGROUND in finalizers else "Background"
