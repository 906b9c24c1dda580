"""The store against an obvious model: whatever is done in whatever order, both say the same.

The model is a dict, a counter and a list of all that ever happened. It has no log to compact, no
indexes, no caches, no encoding: everything the store does to be fast is what this checks.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, rule

from swell.api.meta import Body
from swell.cluster.embedded.storage import Stored
from swell.cluster.embedded.verbs.requests import (
    DeleteOptions,
    ListOptions,
    StoredEvent,
    WatchOptions,
)
from swell.cluster.embedded.verbs.watching import FailedWatch, Watch
from swell.runtime.errors import (
    AlreadyExistsError,
    ConflictError,
    GoneError,
    InvalidError,
    NotFoundError,
)
from tests.unit.cluster.embedded.world import NAMESPACE, a_world

KIND = "widgets"
SELECTOR = "color=red"
NAMES = st.sampled_from(["a", "a-b", "b", "c"])
COLORS = st.sampled_from(["", "red", "blue"])
NUMBERS = st.integers(0, 2)
# More of each in the long runs: `HYPOTHESIS_EXAMPLES=2000 pytest tests/property`.
EXAMPLES = int(os.environ.get("HYPOTHESIS_EXAMPLES", "60"))


@dataclass(frozen=True)
class Thing:
    """A stored object as the model sees it."""

    uid: str
    version: int
    generation: int = 1
    color: str = ""
    size: int = 0
    seen: int = 0
    held: bool = False
    ending: bool = False

    @property
    def is_red(self) -> bool:
        return self.color == "red"


@dataclass(frozen=True)
class Happening:
    """One entry of the model's history."""

    version: int
    name: str
    before: Thing | None
    after: Thing | None


@dataclass
class Paging:
    """A paged list that was begun: what is still to come."""

    token: str
    rest: list[tuple[str, Thing]]
    version: int


@dataclass
class Watching:
    """A watch that was opened: what it has not been told yet begins after `version`."""

    watch: Watch | FailedWatch
    version: int
    red_only: bool = False
    lost: bool = field(default=False)


def shown(stored: Stored) -> tuple[str, Thing]:
    """What the store says of an object, in the model's terms."""
    body, metadata = stored.body, stored.metadata
    assert metadata["resourceVersion"] == str(stored.version)
    assert body["metadata"] == metadata
    return metadata["name"], Thing(
        uid=metadata["uid"],
        version=stored.version,
        generation=metadata["generation"],
        color=metadata.get("labels", {}).get("color", ""),
        size=body["spec"]["size"],
        seen=body.get("status", {}).get("seen", 0),
        held="finalizers" in metadata,
        ending="deletionTimestamp" in metadata,
    )


class StoreMachine(RuleBasedStateMachine):
    pagings = Bundle("pagings")
    watchings = Bundle("watchings")

    def __init__(self) -> None:
        super().__init__()
        self.world = a_world()
        self.things: dict[str, Thing] = {}
        self.history: list[Happening] = []
        self.version = self.world.storage.version
        self.compacted = self.world.storage.compacted

    # -- the model ---------------------------------------------------------------------------

    def happen(self, name: str, after: Thing | None) -> None:
        """Note a change. An object that stays shows the new version."""
        self.version += 1
        after = replace(after, version=self.version) if after else None
        self.history.append(Happening(self.version, name, self.things.get(name), after))
        if after:
            self.things[name] = after
        else:
            self.things.pop(name)

    def ordered(self) -> list[tuple[str, Thing]]:
        return sorted(self.things.items())

    def body(self, name: str, **changes: int) -> Body:
        """A whole object as a client that read it would send it back."""
        stored = self.world.get(KIND, name).copy()
        stored["spec"]["size"] = changes.get("size", stored["spec"]["size"])
        return stored

    # -- writes ------------------------------------------------------------------------------

    @rule(name=NAMES, color=COLORS, size=NUMBERS, held=st.booleans(), dry_run=st.booleans())
    def create(self, name: str, color: str, size: int, held: bool, dry_run: bool) -> None:
        metadata: Body = {"name": name, "labels": {"color": color} if color else {}}
        if held:
            metadata["finalizers"] = ["example.com/held"]
        try:
            stored = self.world.create(
                KIND, metadata=metadata, spec={"size": size}, status={"seen": 9}, dry_run=dry_run
            )
        except AlreadyExistsError:
            assert name in self.things
            return
        assert name not in self.things
        if not dry_run:
            self.happen(name, Thing(stored.uid, 0, color=color, size=size, held=held))

    @rule(name=NAMES, size=NUMBERS, age=st.integers(0, 2))
    def update(self, name: str, size: int, age: int) -> None:
        """With the current version, an older one, or none, which this kind refuses."""
        thing = self.things.get(name)
        if thing is None:
            return
        body = self.body(name, size=size)
        body["metadata"]["resourceVersion"] = ["", str(thing.version - 1), str(thing.version)][age]
        try:
            self.world.update(KIND, body)
        except ConflictError:
            assert age == 1
        except InvalidError:
            assert age == 0
        else:
            assert age == 2
            if size != thing.size:
                self.happen(name, replace(thing, size=size, generation=thing.generation + 1))

    @rule(name=NAMES, color=COLORS)
    def patch_labels(self, name: str, color: str) -> None:
        thing = self.things.get(name)
        change = {"metadata": {"labels": {"color": color or None}}, "status": {"seen": 7}}
        try:
            self.world.patch(KIND, name, change)
        except NotFoundError:
            assert thing is None
            return
        assert thing is not None
        if color != thing.color:
            self.happen(name, replace(thing, color=color))

    @rule(name=NAMES, seen=st.integers(1, 3))
    def write_status(self, name: str, seen: int) -> None:
        thing = self.things.get(name)
        if thing is None:
            return
        change = {"spec": {"size": 9}, "status": {"seen": seen}}
        self.world.patch(KIND, name, change, subresource="status")
        if seen != thing.seen:
            self.happen(name, replace(thing, seen=seen))

    @rule(name=NAMES, meant=st.sampled_from(["any", "this", "stale", "another"]))
    def delete(self, name: str, meant: str) -> None:
        thing = self.things.get(name)
        options = DeleteOptions(
            uid={"another": "another", "this": thing.uid if thing else None}.get(meant),
            resource_version="1" if meant == "stale" else None,
        )
        try:
            deleted = self.world.delete(KIND, name, options)
        except NotFoundError:
            assert thing is None
        except ConflictError:
            assert meant in {"stale", "another"}
        else:
            assert thing is not None
            assert meant in {"any", "this"}
            assert deleted.gone is not thing.held
            if not thing.held:
                self.happen(name, None)
            elif not thing.ending:
                self.happen(name, replace(thing, ending=True, generation=thing.generation + 1))

    @rule(name=NAMES)
    def release(self, name: str) -> None:
        """Take the finalizer off: a deleted object goes, any other stays."""
        thing = self.things.get(name)
        if thing is None or not thing.held:
            return
        self.world.patch(KIND, name, {"metadata": {"finalizers": None}})
        self.happen(name, None if thing.ending else replace(thing, held=False))

    @rule()
    def compact(self) -> None:
        self.compacted = (self.compacted + self.version) // 2
        self.world.storage.compact(self.compacted)

    # -- reads -------------------------------------------------------------------------------

    @rule()
    def list_red(self) -> None:
        page = self.world.list(KIND, ListOptions(NAMESPACE, labels=SELECTOR))

        assert [shown(stored) for stored in page.items] == [
            (name, thing) for name, thing in self.ordered() if thing.is_red
        ]

    @rule(back=st.integers(0, 12))
    def list_the_past(self, back: int) -> None:
        """Exactly at a version: the model rolls its history back."""
        version = max(self.version - back, 1)
        options = ListOptions(
            NAMESPACE, resource_version=str(version), resource_version_match="Exact"
        )
        try:
            page = self.world.list(KIND, options)
        except GoneError:
            assert version < self.compacted
            return
        past: dict[str, Thing] = dict(self.things)
        for happening in reversed(self.history):
            if happening.version > version:
                past.pop(happening.name, None)
                if happening.before:
                    past[happening.name] = happening.before
        assert [shown(stored) for stored in page.items] == sorted(past.items())

    @rule(target=pagings, limit=st.integers(1, 3))
    def begin_pages(self, limit: int) -> Paging:
        page = self.world.list(KIND, ListOptions(NAMESPACE, limit=limit))

        assert [shown(stored) for stored in page.items] == self.ordered()[:limit]
        assert page.remaining == (len(self.things) - limit if page.continue_token else None)
        return Paging(page.continue_token, self.ordered()[limit:], self.version)

    @rule(paging=consumes(pagings))
    def end_pages(self, paging: Paging) -> None:
        """However much later, the rest of the list is that of the moment it was begun."""
        assert bool(paging.token) == bool(paging.rest)
        if not paging.token:
            return
        try:
            page = self.world.list(KIND, ListOptions(NAMESPACE, continue_token=paging.token))
        except GoneError:
            assert paging.version < self.compacted
            return
        assert [shown(stored) for stored in page.items] == paging.rest
        assert page.version == paging.version

    @rule(target=watchings, back=st.integers(0, 12), red_only=st.booleans())
    def open_watch(self, back: int, red_only: bool) -> Watching:
        version = max(self.version - back, 1)
        labels = SELECTOR if red_only else ""
        options = WatchOptions(NAMESPACE, labels=labels, resource_version=str(version))
        return Watching(self.world.watch(KIND, options), version, red_only)

    @rule(watching=watchings)
    def poll(self, watching: Watching) -> None:
        """Every change since, once, in order, told as the selection saw it."""
        if watching.lost:
            return
        try:
            events = watching.watch.poll()
        except GoneError:
            assert watching.version < self.compacted
            watching.lost = True
            return
        expected: list[tuple[str, str, Thing]] = []
        for happening in self.history:
            if happening.version > watching.version:
                expected += reported_as(happening, watching.red_only)
        watching.version = self.version
        assert [said(event) for event in events] == expected

    @invariant()
    def store_holds_what_the_model_holds(self) -> None:
        page = self.world.list(KIND)

        assert [shown(stored) for stored in page.items] == self.ordered()
        assert page.version == self.version == self.world.storage.version


def reported_as(happening: Happening, red_only: bool) -> list[tuple[str, str, Thing]]:
    """How a watcher sees a change: by whether the object was, and is, in its selection."""
    before, after = happening.before, happening.after
    was = before is not None and (not red_only or before.is_red)
    now = after is not None and (not red_only or after.is_red)
    if now and after:
        return [("MODIFIED" if was else "ADDED", happening.name, after)]
    if was and before:
        return [("DELETED", happening.name, replace(before, version=happening.version))]
    return []


def said(event: StoredEvent) -> tuple[str, str, Thing]:
    assert event.stored is not None
    assert event.version == event.stored.version
    return (event.type.value, *shown(event.stored))


TestStore = StoreMachine.TestCase
TestStore.settings = settings(max_examples=EXAMPLES, stateful_step_count=40, deadline=None)
