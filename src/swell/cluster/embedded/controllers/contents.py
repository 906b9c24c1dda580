"""What the namespace controller sees: everything in a deleted namespace, read from the store.

Works from the store's own commits, as the garbage collector does: what is in a namespace is of any
kind, and following every kind would cost a cache of the whole cluster. Decides nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from swell.api.meta import Body, Key, Uid
from swell.api.namespace import Namespace
from swell.api.resource import Resource
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.controllers.namespace import Content, NamespaceView, is_emptying
from swell.cluster.embedded.registry import Kind
from swell.cluster.embedded.storage import Commit
from swell.runtime.informer import Informer


class ContentsSight:
    """Snapshots for `decide_namespace`."""

    def __init__(self, api: ApiServer, namespaces: Informer[Namespace]) -> None:
        self._api = api
        self._namespaces = namespaces
        self._emptying: dict[str, None] = {}

    def snapshot(self, key: Key) -> NamespaceView | None:
        namespace = self._namespaces.get(key)
        if namespace is None or not is_emptying(namespace):
            self._emptying.pop(key.name, None)
            return None
        self._emptying[key.name] = None
        return NamespaceView(namespace, tuple(self._contents(key.name)))

    def on_removal(self, tell: Callable[[Key], object]) -> None:
        """Tell the key of a namespace being emptied whenever something in it has gone."""

        def see(commit: Commit) -> None:
            if commit.after is None and commit.key.namespace in self._emptying:
                tell(Key("", commit.key.namespace))

        self._api.storage.on_commit.append(see)

    def _contents(self, namespace: str) -> Iterable[Content]:
        for kind in self._api.registry:
            if not kind.namespaced or self._api.registry.stored(kind.collection) is not kind:
                continue
            resource = _resource(kind)
            for key, stored in self._api.storage.list(kind.collection, namespace).items:
                metadata = stored.body["metadata"]
                yield Content(
                    resource=resource,
                    key=key,
                    uid=Uid(stored.uid),
                    is_deleted=bool(metadata.get("deletionTimestamp")),
                    finalizers=tuple(metadata.get("finalizers") or ()),
                )


def _resource(kind: Kind) -> Resource[Body]:
    return Resource(kind.group, kind.version, kind.kind, kind.plural, dict)
