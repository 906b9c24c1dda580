"""The registrar keeps the registry up to date with the stored definitions.

It works from the store's commits: a definition is served from the moment it is stored. While a
definition is being deleted, its objects are deleted first; `run` does that until cancelled, `drain`
does what can be done now.
"""

from __future__ import annotations

import asyncio

from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.customresources.definition import CLEANUP_FINALIZER, CRDS
from swell.cluster.embedded.customresources.kinds import CustomRules, kinds_of
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
        self._wake = asyncio.Event()
        for key, stored in api.storage.list(CRDS).items:
            self._serve(key, stored.body)
        api.storage.on_commit.append(self._on_commit)

    def drain(self) -> None:
        """Do what can be done now for the definitions that are being deleted."""
        while self._due:
            key = next(iter(self._due))
            del self._due[key]
            try:
                self._clean(key)
            except NotFoundError:
                continue  # it has been deleted meanwhile

    async def run(self) -> None:
        """Clean up until cancelled."""
        while True:
            self.drain()
            self._wake.clear()
            await self._wake.wait()

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
        is rarer.
        """
        kind = self._api.registry.stored(collection)
        if kind is None or not isinstance(kind.rules, CustomRules):
            return
        changed: list[tuple[Key, Stored]] = []
        for key, stored in self._api.storage.list(collection).items:
            body = stored.copy()  # decoded for this comparison only
            reshaped = kind.rules.reshape(body)
            if reshaped != body:
                changed.append((key, Stored.of(reshaped, stored.version)))
        self._api.storage.load(collection, changed)

    def _clean(self, key: Key) -> None:
        """Delete the objects; when none is left, remove the definition's finalizer."""
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
                    self._api.delete(custom, object_key, options, RequestContext(ACTOR))
        if self._api.storage.count(collection) == 0:
            self._cleaned.pop(collection, None)
            left = [
                name
                for name in definition.metadata.get("finalizers") or ()
                if name != CLEANUP_FINALIZER
            ]
            patch = merge_patch({"metadata": {"finalizers": left or None}})
            self._api.patch(kind, key, patch, RequestContext(ACTOR))
