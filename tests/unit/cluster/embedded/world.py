"""A small world for tests of the API server: a clock that stands still, and short ways to ask."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field

from swell.api.meta import Body, Key
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.registry import Registry, ServedKind
from swell.cluster.embedded.storage import Storage, Stored
from swell.cluster.embedded.verbs.requests import (
    Deleted,
    DeleteOptions,
    ListOptions,
    Page,
    RequestContext,
    StoredEvent,
    WatchOptions,
    Written,
)
from swell.cluster.embedded.verbs.watching import FailedWatch, Watch
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ClusterError
from tests.plainrules import PlainRules, plain_registry

NAMESPACE = "default"
NOON = 1_750_000_000.0


class StillClock:
    """Time that passes when the test says so."""

    def __init__(self, now: float = NOON) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, delay_s: float) -> None:
        self.time += delay_s


def a_registry() -> Registry:
    """The built-in kinds with plain rules, and two custom ones: with and without status."""
    registry = plain_registry()
    for plural, kind, has_status in (("widgets", "Widget", True), ("plains", "Plain", False)):
        registry.add(
            ServedKind(
                group="example.com",
                version="v1",
                kind=kind,
                plural=plural,
                rules=PlainRules(has_status=has_status),
                subresources=frozenset({"status"} if has_status else ()),
                custom=True,
                unconditional_update=False,
            )
        )
    return registry


@dataclass
class World:
    """One server and one client of it; verbs by the plural name of a kind."""

    storage: Storage
    clock: StillClock = field(default_factory=StillClock)
    registry: Registry = field(default_factory=a_registry)
    actor: str = "tester"

    def __post_init__(self) -> None:
        rng = random.Random(7)
        self.api = ApiServer(
            self.storage,
            self.registry,
            self.clock,
            new_uid=lambda: str(uuid.UUID(int=rng.getrandbits(128), version=4)),
            rng=rng,
        )
        self.api.ensure_namespaces()

    def kind(self, plural: str) -> ServedKind:
        return next(kind for kind in self.registry if kind.plural == plural)

    def call(self, *, dry_run: bool = False) -> RequestContext:
        return RequestContext(self.actor, dry_run=dry_run)

    def create(
        self, plural: str, name: str = "", *, dry_run: bool = False, **fields: object
    ) -> Stored:
        kind = self.kind(plural)
        body: Body = {"apiVersion": kind.api_version, "kind": kind.kind, "metadata": {}, **fields}
        if name:
            body["metadata"] = {"name": name, **body["metadata"]}
        namespace = NAMESPACE if kind.namespaced else ""
        return self.api.create(kind, namespace, body, self.call(dry_run=dry_run))

    def pod(self, name: str, *, node: str = "", phase: str = "", **metadata: object) -> Stored:
        stored = self.create(
            "pods", metadata={"name": name, **metadata}, spec={"containers": [{"name": "main"}]}
        )
        if node:
            self.bind(name, node)
        if phase:
            self.patch("pods", name, {"status": {"phase": phase}}, subresource="status")
        return self.get("pods", name) if node or phase else stored

    def get(self, plural: str, name: str) -> Stored:
        return self.api.get(self.kind(plural), self.key(plural, name))

    def update(
        self, plural: str, body: Body, *, subresource: str = "", dry_run: bool = False
    ) -> Written:
        key = self.key(plural, body["metadata"]["name"])
        call = self.call(dry_run=dry_run)
        return self.api.update(self.kind(plural), key, body, call, subresource=subresource)

    def patch(
        self,
        plural: str,
        name: str,
        body: Body,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> Stored:
        return self.api.patch(
            self.kind(plural),
            self.key(plural, name),
            merge_patch(body),
            self.call(dry_run=dry_run),
            subresource=subresource,
        )

    def delete(
        self, plural: str, name: str, options: DeleteOptions | None = None, *, dry_run: bool = False
    ) -> Deleted:
        call = self.call(dry_run=dry_run)
        key = self.key(plural, name)
        return self.api.delete(self.kind(plural), key, options or DeleteOptions(), call)

    def bind(self, name: str, node: str, **metadata: object) -> int:
        binding: Body = {"metadata": {"name": name, **metadata}, "target": {"name": node}}
        return self.api.bind(self.kind("pods"), Key(NAMESPACE, name), binding, self.call())

    def list(self, plural: str, options: ListOptions | None = None) -> Page:
        return self.api.list(self.kind(plural), options or ListOptions(NAMESPACE))

    def watch(self, plural: str, options: WatchOptions) -> Watch | FailedWatch:
        return self.api.watch(self.kind(plural), options)

    def key(self, plural: str, name: str) -> Key:
        return Key(NAMESPACE if self.kind(plural).namespaced else "", name)


def a_world(**storage_options: int) -> World:
    clock = StillClock()
    return World(Storage(clock.now, **storage_options), clock)


def names(page: Page) -> list[str]:
    return [stored.metadata["name"] for stored in page.items]


def event_names(events: list[StoredEvent]) -> list[tuple[str, str]]:
    """Events as (type, object name); a bookmark names nothing."""
    return [
        (event.type.value, event.stored.metadata["name"] if event.stored else "")
        for event in events
    ]


def refusal(act: Callable[[], object]) -> tuple[int, str, str, str]:
    """What an action is refused with: code, reason, and the kind and name of the details."""
    try:
        act()
    except ClusterError as error:
        details = error.status.details
        kind, name = (details.kind, details.name) if details else ("", "")
        return error.status.code, error.status.reason, kind, name
    raise AssertionError("it was not refused")


def causes(act: Callable[[], object]) -> list[tuple[str, str]]:
    """What an action is refused for: field and reason of every cause."""
    try:
        act()
    except ClusterError as error:
        details = error.status.details
        return [(cause.field, cause.reason) for cause in details.causes] if details else []
    raise AssertionError("it was not refused")
