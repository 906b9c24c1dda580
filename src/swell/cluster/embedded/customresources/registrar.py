"""The registrar keeps the registry up to date with the stored definitions.

It works from the store's commits: a definition is served from the moment it is stored. While a
definition is being deleted, its objects are deleted first; `run` does that until cancelled, `drain`
does what can be done now. `run` takes its work in slices, since a definition may have thousands of
objects.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice

from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.customresources.definition import CLEANUP_FINALIZER, CRDS
from swell.cluster.embedded.customresources.kinds import CustomRules, kinds_of
from swell.cluster.embedded.slices import AT_ONCE, take_all
from swell.cluster.embedded.storage import Commit, Stored
from swell.cluster.embedded.verbs.requests import DeleteOptions, RequestContext
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import NotFoundError

ACTOR = "definition-cleaner"


class Registrar:
    """Serves stored definitions, and cleans up after deleted ones."""

    def __init__(self, api: ApiServer) -> None:
        self._api = api
        self._due: dict[Key, None] = {}  # definitions being deleted, in order
        self._cleaned: dict[str, Key] = {}  # their collections, to notice the last delete
        self._reshaping: dict[str, Iterator[None]] = {}  # the rest of it by collection
        self._wake = asyncio.Event()
        for key, stored in api.storage.list(CRDS).items:
            self._serve(key, stored.body)
        api.storage.on_commit.append(self._on_commit)

    def drain(self) -> None:
        """Do what can be done now: reshape stored objects, clean up after deleted definitions."""
        for _ in self._steps():
            pass

    async def run(self) -> None:
        """Reshape and clean up until cancelled."""
        while True:
            await take_all(self._steps())
            self._wake.clear()
            await self._wake.wait()

    def _steps(self) -> Iterator[None]:
        """Handle one object at each step."""
        while self._reshaping:
            yield from self._reshaping.pop(next(iter(self._reshaping)))
        while self._due:
            key = next(iter(self._due))
            del self._due[key]
            with suppress(NotFoundError):  # it has been deleted meanwhile
                yield from self._clean(key)

    def _on_commit(self, commit: Commit) -> None:
        if commit.collection == CRDS:
            if commit.after is not None:
                self._serve(commit.key, commit.after.body, commit.before)
            elif commit.before is not None:
                spec = commit.before.body["spec"]
                self._api.registry.remove(spec["group"], spec["names"]["plural"])
        elif commit.after is None and commit.collection in self._cleaned:
            self._due[self._cleaned[commit.collection]] = None
        if self._due:
            self._wake.set()

    def _serve(self, key: Key, definition: Body, before: Stored | None = None) -> None:
        spec = definition["spec"]
        if definition["metadata"].get("deletionTimestamp"):
            self._due[key] = None
            self._cleaned[f"{spec['names']['plural']}.{spec['group']}"] = key
        # Nothing but metadata has changed: schemas are not compiled for that.
        is_served = any(kind.resource == key.name for kind in self._api.registry)
        if is_served and before is not None and before.body["spec"] == spec:
            return
        conditions = definition.get("status", {}).get("conditions") or ()
        if not any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
            return
        kinds = kinds_of(definition)
        served = {(kind.version, kind.kind) for kind in kinds}
        held = [kind for kind in self._api.registry if kind.resource == key.name]
        if any((kind.version, kind.kind) not in served for kind in held):
            self._api.registry.remove(spec["group"], spec["names"]["plural"])
        former = self._api.registry.stored(key.name)
        for kind in kinds:
            self._api.registry.add(kind)
        current = self._api.registry.stored(key.name)
        # The same schema has the same rules, see `kinds`: stored objects fit it already.
        if former is None or current is None or former.rules is not current.rules:
            self._reshape(key.name)

    def _reshape(self, collection: str) -> None:
        """Prune and default stored objects by the newest schema, without a new version.

        kube-apiserver does this at every read. Here it is done when the definition changes, which
        is rarer: for the first objects at once, for thousands in slices later, during which the
        others are read in their old shape, as from a real server that has not noticed the change.
        """
        steps = self._reshaped(collection)
        for _ in islice(steps, AT_ONCE):
            pass
        self._reshaping[collection] = steps
        self._wake.set()

    def _reshaped(self, collection: str) -> Iterator[None]:
        """Reshape one object at each step."""
        kind = self._api.registry.stored(collection)
        if kind is None or not isinstance(kind.rules, CustomRules):
            return
        for key, _ in self._api.storage.list(collection).items:
            if self._api.registry.stored(collection) is not kind:
                return  # the definition has changed again
            stored = self._api.storage.get(collection, key)
            if stored is not None:
                body = stored.copy()  # decoded for this comparison only
                reshaped = kind.rules.reshape(body)
                if reshaped != body:
                    reloaded = Stored.of(reshaped, stored.version)
                    self._api.storage.load(collection, [(key, reloaded)])
            yield

    def _clean(self, key: Key) -> Iterator[None]:
        """Delete an object at each step; when none is left, remove the definition's finalizer."""
        definition = self._api.storage.get(CRDS, key)
        kind = self._api.registry.stored(CRDS)
        if definition is None or kind is None:
            return
        collection = key.name
        custom = next((k for k in self._api.registry if k.collection == collection), None)
        if custom is not None:
            for object_key, stored in self._api.storage.list(collection).items:
                if not stored.metadata.get("deletionTimestamp"):
                    options = DeleteOptions(propagation="Background")
                    with suppress(NotFoundError):
                        self._api.delete(custom, object_key, options, RequestContext(ACTOR))
                yield
        if self._api.storage.count(collection) == 0:
            self._cleaned.pop(collection, None)
            left = [
                name
                for name in definition.metadata.get("finalizers") or ()
                if name != CLEANUP_FINALIZER
            ]
            patch = merge_patch({"metadata": {"finalizers": left or None}})
            self._api.patch(kind, key, patch, RequestContext(ACTOR))
