"""What has to be read before the next decision, and that nothing else is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from swell.api.kinds import NODES, PODS
from swell.api.meta import Key, Uid
from swell.runtime.cluster import Selection
from swell.runtime.errors import ServerError
from swell.runtime.executor import Failure, FailureKind
from swell.runtime.plan import DeleteObject
from swell.runtime.uncertain import Children, UncertainKeys
from swell.sim.loop import run
from tests.unit.runtime.world import Line, World, failure, key

Story = Callable[[World, Line, UncertainKeys], Awaitable[None]]
OWNER = key("t")


def play(story: Story) -> None:
    async def main() -> None:
        world = World()
        line = world.line()
        children = Children(
            world.pods(line), "controller Toy", lambda owner: Selection("", f"toy={owner.name}")
        )
        await story(world, line, UncertainKeys(world.toys(line), [children]))

    run(main())


def failed(kind: FailureKind, name: str = "p") -> Failure:
    return Failure(DeleteObject(PODS, key(name), Uid("u")), kind, "reason", "message")


@pytest.mark.parametrize("kind", [FailureKind.RETRY, FailureKind.REFUSED])
def test_failure_without_effect_leaves_nothing_uncertain(kind: FailureKind) -> None:
    """Where nothing happened there is nothing to read."""

    async def story(_: World, line: Line, uncertain: UncertainKeys) -> None:
        uncertain.record(OWNER, [failed(kind)])
        await uncertain.resolve(OWNER)

        assert OWNER not in uncertain
        assert line.calls == []

    play(story)


def test_stale_view_has_its_targets_read() -> None:
    """Each object that was not as expected is read, and no other."""

    async def story(_: World, line: Line, uncertain: UncertainKeys) -> None:
        uncertain.record(OWNER, [failed(FailureKind.STALE), failed(FailureKind.STALE, "q")])
        await uncertain.resolve(OWNER)

        assert line.calls == ["list pods metadata.name=p", "list pods metadata.name=q"]

    play(story)


def test_unknown_outcome_has_the_family_read() -> None:
    """The owner, all its children, and the target, in this order; then the owner is certain."""

    async def story(_: World, line: Line, uncertain: UncertainKeys) -> None:
        uncertain.record(OWNER, [failed(FailureKind.UNKNOWN)])
        assert OWNER in uncertain
        await uncertain.resolve(OWNER)

        assert line.calls == [
            "list toys.toys.dev metadata.name=t",
            "list pods toy=t",
            "list pods metadata.name=p",
        ]
        assert OWNER not in uncertain

    play(story)


def test_failed_read_keeps_the_key_uncertain() -> None:
    """Only reads that succeed settle anything."""

    async def story(_: World, line: Line, uncertain: UncertainKeys) -> None:
        uncertain.record(OWNER, [failed(FailureKind.UNKNOWN)])
        line.fail_before["list"] = [failure(500)]
        with pytest.raises(ServerError):
            await uncertain.resolve(OWNER)

        assert OWNER in uncertain

    play(story)


def test_uncertainty_is_the_owners_alone() -> None:
    """What is unknown about one owner does not keep others waiting."""

    async def story(_: World, line: Line, uncertain: UncertainKeys) -> None:
        uncertain.record(OWNER, [failed(FailureKind.UNKNOWN)])
        await uncertain.resolve(key("other"))

        assert line.calls == []

    play(story)


def test_target_nobody_follows_is_not_read() -> None:
    """A kind without an informer is in no cache, so no decision can be misled by it."""

    async def story(_: World, line: Line, uncertain: UncertainKeys) -> None:
        action = DeleteObject(NODES, Key("", "n"), Uid("u"))
        uncertain.record(OWNER, [Failure(action, FailureKind.STALE, "reason", "message")])
        await uncertain.resolve(OWNER)

        assert OWNER not in uncertain
        assert line.calls == []

    play(story)
