"""Get, list and watch: snapshots, pages, selectors, resumption, and what falls out of the log."""

from __future__ import annotations

import pytest

from swell.cluster.embedded.verbs.requests import ListOptions, StoredEvent, WatchOptions
from swell.runtime.errors import BadRequestError, GoneError
from tests.unit.cluster.embedded.world import NAMESPACE, World, a_world, event_names, names, refusal


def seven(world: World) -> World:
    for n in range(7):
        world.create("configmaps", metadata={"name": f"c{n}", "labels": {"odd": str(n % 2)}})
    return world


def page(world: World, **options: object) -> ListOptions:
    return ListOptions(NAMESPACE, **options)  # type: ignore[arg-type]


def events_since(
    world: World, version: int, plural: str = "configmaps", **options: str
) -> list[StoredEvent]:
    wanted = WatchOptions(NAMESPACE, resource_version=str(version), **options)  # type: ignore[arg-type]
    return world.watch(plural, wanted).poll()


def test_list_is_in_key_order_over_namespaces() -> None:
    """Order is that of namespace/name as bytes, which is not that of the pairs."""
    world = a_world()
    kind = world.kind("configmaps")
    for namespace in ("a", "a-b"):
        world.create("namespaces", namespace)
        for name in ("y", "x"):
            world.api.create(kind, namespace, {"metadata": {"name": name}}, world.call())

    listed = world.api.list(kind, ListOptions()).items

    found = [(stored.metadata["namespace"], stored.metadata["name"]) for stored in listed]
    assert found == [("a-b", "x"), ("a-b", "y"), ("a", "x"), ("a", "y")]


def test_pages_are_one_snapshot() -> None:
    """What is created, changed or deleted meanwhile is not seen on later pages."""
    world = seven(a_world())
    first = world.list("configmaps", page(world, limit=3))
    world.create("configmaps", "c4b")
    world.delete("configmaps", "c2")
    world.delete("configmaps", "c3")
    world.patch("configmaps", "c5", {"data": {"new": "1"}})

    rest = world.list("configmaps", page(world, continue_token=first.continue_token))

    assert (names(first), first.remaining) == (["c0", "c1", "c2"], 4)
    assert names(rest) == ["c3", "c4", "c5", "c6"]
    assert rest.version == first.version
    assert "data" not in rest.items[2].body
    assert (rest.continue_token, rest.remaining) == ("", None)


def test_page_of_a_selection_counts_what_matches() -> None:
    """The limit counts matching objects; with a selector the remaining number is not sent."""
    world = seven(a_world())

    first = world.list("configmaps", page(world, labels="odd=0", limit=3))
    rest = world.list(
        "configmaps", page(world, labels="odd=0", continue_token=first.continue_token)
    )

    assert (names(first), first.remaining) == (["c0", "c2", "c4"], None)
    assert names(rest) == ["c6"]


def test_page_after_compaction_is_gone() -> None:
    """A continue token of a compacted snapshot is refused."""
    world = seven(a_world())
    token = world.list("configmaps", page(world, limit=3)).continue_token
    world.delete("configmaps", "c6")
    world.storage.compact(world.storage.version)

    with pytest.raises(GoneError):
        world.list("configmaps", page(world, continue_token=token))


@pytest.mark.parametrize("token", ["%%%", "bm90LWpzb24", "e30"])
def test_broken_continue_is_a_bad_request(token: str) -> None:
    """Whatever is no token of ours is refused."""
    with pytest.raises(BadRequestError):
        a_world().list("configmaps", ListOptions(continue_token=token))


def test_list_exactly_at_an_older_version() -> None:
    """An exact version shows the past; a version and a limit without a rule mean exactly, too."""
    world = seven(a_world())
    then = str(world.storage.version)
    world.delete("configmaps", "c0")
    exact = page(world, resource_version=then, resource_version_match="Exact")

    assert names(world.list("configmaps", exact))[0] == "c0"
    assert names(world.list("configmaps", page(world, resource_version=then, limit=1))) == ["c0"]
    assert names(world.list("configmaps", page(world, resource_version=then)))[0] == "c1"


def test_list_at_version_zero_knows_no_pages() -> None:
    """Any version will do, so the answer is whole."""
    world = seven(a_world())

    assert len(world.list("configmaps", page(world, resource_version="0", limit=2)).items) == 7


def test_list_of_the_future_times_out() -> None:
    """A version that does not exist yet gets another error than one that no longer does."""
    world = a_world()
    ahead = page(world, resource_version=str(world.storage.version + 1))

    assert refusal(lambda: world.list("configmaps", ahead))[:2] == (504, "Timeout")


@pytest.mark.parametrize(
    "options",
    [
        {"send_initial_events": True},
        {"resource_version_match": "Exact"},
        {"resource_version_match": "Exact", "resource_version": "0"},
        {"resource_version_match": "Sometimes", "resource_version": "1"},
    ],
)
def test_list_options_that_contradict_are_invalid(options: dict[str, object]) -> None:
    """A match rule needs a version it can be about."""
    world = a_world()

    assert refusal(lambda: world.list("configmaps", page(world, **options)))[:3] == (
        422,
        "Invalid",
        "ListOptions",
    )


@pytest.mark.parametrize(
    "options",
    [
        {"labels": "a=1=2"},
        {"fields": "data.x=1"},
        {"fields": "metadata.name"},
        {"resource_version": "abc"},
    ],
)
def test_list_options_that_cannot_be_read_are_bad_requests(options: dict[str, str]) -> None:
    """Selectors and versions are parsed before anything is looked up."""
    world = a_world()

    with pytest.raises(BadRequestError):
        world.list("configmaps", page(world, **options))


def test_fields_select_pods() -> None:
    """Node, phase and name select; a missing value counts as empty."""
    world = a_world()
    world.pod("p1")
    world.pod("p2", node="n1", phase="Running")

    assert names(world.list("pods", page(world, fields="spec.nodeName=n1"))) == ["p2"]
    assert names(world.list("pods", page(world, fields="spec.nodeName="))) == ["p1"]
    assert names(world.list("pods", page(world, fields="status.phase!=Running"))) == ["p1"]
    assert names(world.list("pods", page(world, fields="spec.hostNetwork=false"))) == ["p1", "p2"]


def test_watch_shows_every_change_after_its_version_once() -> None:
    """Resuming at any version of the past gives exactly what came after it."""
    world = a_world()
    versions = [world.storage.version]
    for act in (
        lambda: world.create("configmaps", "a"),
        lambda: world.patch("configmaps", "a", {"data": {"k": "2"}}),
        lambda: world.create("configmaps", "b"),
        lambda: world.delete("configmaps", "a"),
    ):
        act()
        versions.append(world.storage.version)
    everything = [("ADDED", "a"), ("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]

    for n, version in enumerate(versions):
        assert event_names(events_since(world, version)) == everything[n:]


def test_watch_from_the_start_shows_what_is_there_first() -> None:
    """Without a version, or with 0, a watch begins with existing objects as added."""
    world = a_world()
    world.create("configmaps", "a")

    watch = world.watch("configmaps", WatchOptions(NAMESPACE, resource_version="0"))
    first = watch.poll()
    world.patch("configmaps", "a", {"data": {"k": "2"}})

    assert event_names(first) == [("ADDED", "a")]
    assert event_names(watch.poll()) == [("MODIFIED", "a")]


def test_watch_marks_the_end_of_initial_events() -> None:
    """Asked for, a bookmark with a mark follows the existing objects."""
    world = a_world()
    world.create("configmaps", "a")
    options = WatchOptions(
        NAMESPACE, resource_version_match="NotOlderThan", send_initial_events=True, bookmarks=True
    )

    events = world.watch("configmaps", options).poll()

    assert event_names(events) == [("ADDED", "a"), ("BOOKMARK", "")]
    assert events[1].ends_initial


def test_watch_reports_leaving_a_selection_as_deleted() -> None:
    """Who leaves shows its old labels under the new version, and is added when it comes back."""
    world = a_world()
    start = world.storage.version
    world.create("configmaps", metadata={"name": "a", "labels": {"app": "x"}})
    left = world.patch("configmaps", "a", {"metadata": {"labels": {"app": None}}}).version
    world.patch("configmaps", "a", {"data": {"k": "5"}})
    world.patch("configmaps", "a", {"metadata": {"labels": {"app": "x"}}})

    events = events_since(world, start, labels="app=x")

    assert event_names(events) == [("ADDED", "a"), ("DELETED", "a"), ("ADDED", "a")]
    assert events[1].stored is not None
    assert events[1].stored.labels == {"app": "x"}
    assert events[1].stored.metadata["resourceVersion"] == str(left)


def test_watch_by_node_begins_with_the_binding() -> None:
    """A node's pods appear to its watcher when they are bound."""
    world = a_world()
    start = world.storage.version
    world.pod("a", node="n1")
    world.pod("b", node="n2")

    assert event_names(events_since(world, start, "pods", fields="spec.nodeName=n1")) == [
        ("ADDED", "a")
    ]


def test_deleted_event_carries_the_last_state_and_a_newer_version() -> None:
    """The end of an object shows it as it was last, finalizers and all."""
    world = a_world()
    world.create("configmaps", metadata={"name": "a", "finalizers": ["x.example/f"]})
    world.delete("configmaps", "a")
    marked = world.storage.version
    world.patch("configmaps", "a", {"metadata": {"finalizers": None}})

    (event,) = events_since(world, marked)

    assert event_names([event]) == [("DELETED", "a")]
    assert event.stored is not None
    assert event.stored.metadata["finalizers"] == ["x.example/f"]
    assert event.stored.version > marked


def test_immediate_pod_delete_is_modified_then_deleted() -> None:
    """The mark is a write of its own, also when nothing waits for it."""
    world = a_world()
    world.pod("a")
    start = world.storage.version
    world.delete("pods", "a")

    assert event_names(events_since(world, start, "pods")) == [("MODIFIED", "a"), ("DELETED", "a")]


def test_watch_of_compacted_history_is_gone() -> None:
    """A watch from before the kept log is refused, and one that falls behind it ends."""
    world = seven(a_world())
    start = world.storage.version
    slow = world.watch("configmaps", WatchOptions(NAMESPACE, resource_version=str(start)))
    world.delete("configmaps", "c0")
    world.storage.compact(world.storage.version)

    with pytest.raises(GoneError):
        events_since(world, start)
    with pytest.raises(GoneError):
        slow.poll()


def test_log_is_bounded_by_count_and_by_bytes() -> None:
    """However much is written, the kept past stays small, and the present is whole."""
    for limits in ({"kept_commits_max": 50}, {"kept_bytes_max": 10_000}):
        world = a_world(**limits)
        world.create("configmaps", "a")
        for n in range(500):
            world.patch("configmaps", "a", {"data": {"k": str(n)}})

        assert world.storage.version - world.storage.compacted <= 60
        assert world.get("configmaps", "a").body["data"] == {"k": "499"}


def test_events_expire_after_an_hour() -> None:
    """An event expires an hour after its last write, and watchers see it deleted."""
    world = a_world()
    world.create("events", "old")
    world.create("events", "kept")
    start = world.storage.version
    world.clock.time += 1800
    world.patch("events", "kept", {"count": 2})
    world.clock.time += 1801

    assert names(world.list("events")) == ["kept"]
    assert event_names(events_since(world, start, "events")) == [
        ("MODIFIED", "kept"),
        ("DELETED", "old"),
    ]


def test_events_are_bounded_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest go first, and one that was written again is not old."""
    monkeypatch.setattr("swell.cluster.embedded.verbs.core.EXPIRING_MAX", 4)
    world = a_world()
    for n in range(3):
        world.create("events", f"e{n}")
    world.patch("events", "e0", {"count": 2})
    world.create("events", "e3")
    world.create("events", "e4")

    assert names(world.list("events")) == ["e0", "e2", "e3", "e4"]
