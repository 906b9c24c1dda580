"""Bookmarks promise only what was handed out."""

from __future__ import annotations

from swell.cluster.embedded.verbs.requests import WatchOptions
from tests.unit.cluster.embedded.world import NAMESPACE, a_world, event_names


def test_bookmark_does_not_cover_a_commit_that_was_not_handed_out() -> None:
    """A change in the moment a bookmark is made must not count as seen: it would be lost."""
    world = a_world()
    before = world.storage.version
    watch = world.watch("configmaps", WatchOptions(NAMESPACE, resource_version=str(before)))
    assert watch.poll() == []

    world.create("configmaps", "late")

    assert watch.version == before
    assert event_names(watch.poll()) == [("ADDED", "late")]
    assert watch.version == world.storage.version


def test_bookmark_of_a_quiet_kind_follows_the_others() -> None:
    """Versions move with every kind, so that a quiet watch can be taken up again late."""
    world = a_world()
    watch = world.watch(
        "configmaps", WatchOptions(NAMESPACE, resource_version=str(world.storage.version))
    )
    watch.poll()

    world.create("secrets", "other")

    assert watch.version == world.storage.version
