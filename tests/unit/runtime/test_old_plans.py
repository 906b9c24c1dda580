"""Deletes that rest on what was true a moment ago: too late they are decided anew."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from swell.api.kinds import PODS, SECRETS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import ConflictError, NotFoundError, OutcomeUnknownError
from swell.runtime.executor import TOO_LATE, Executor, FailureKind, Outcome
from swell.runtime.plan import CreateObject, DeleteObject, DeleteSecret, IssueSecret, Plan
from swell.sim.loop import run
from tests.unit.runtime.world import TOYS, World, key, pod_body

T = TypeVar("T")
Story = Callable[[World], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        await story(World())

    run(main())


async def make_secret(world: World) -> str:
    meta = {"name": "s", "namespace": key("s").namespace}
    body: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
    uid: str = (await world.user.create(SECRETS, body))["metadata"]["uid"]
    return uid


async def has_pod(world: World, name: str) -> bool:
    try:
        await world.user.get(PODS, key(name))
    except NotFoundError:
        return False
    return True


def test_delete_with_a_time_is_not_begun_after_it() -> None:
    """A step before it took long, as in a process that was stopped: the rest is decided anew."""

    async def story(world: World) -> None:
        pod = await world.user.create(PODS, pod_body("old"))
        line = world.line()
        line.delay_s = 11
        executor = Executor(line, clock=world.clock)
        forced = DeleteObject(PODS, key("old"), pod.metadata.uid, grace_s=0, within_s=10)
        slow = CreateObject(PODS, pod_body("slow"))
        outcome = await executor.execute(Plan((slow, forced)))

        assert outcome.n_done == 1
        assert [(one.kind, one.reason) for one in outcome.failures] == [
            (FailureKind.STALE, TOO_LATE)
        ]
        assert "decided 11 s ago" in outcome.failures[0].message
        assert await has_pod(world, "old")
        assert await executor.execute(Plan((forced,))) == Outcome(1)
        assert not await has_pod(world, "old")

    play(story)


def test_time_counts_from_the_decision() -> None:
    """A plan may wait before it is carried out; a delete without a time may wait for ever."""

    async def story(world: World) -> None:
        pod = await world.user.create(PODS, pod_body("old"))
        executor = Executor(world.line(), clock=world.clock)
        decided_s = world.clock.monotonic()
        await world.clock.sleep(30)
        forced = DeleteObject(PODS, key("old"), pod.metadata.uid, grace_s=0, within_s=10)
        outcome = await executor.execute(Plan((forced,)), decided_s=decided_s)
        assert [one.reason for one in outcome.failures] == [TOO_LATE]

        patient = DeleteObject(PODS, key("old"), pod.metadata.uid)
        assert await executor.execute(Plan((patient,)), decided_s=decided_s) == Outcome(1)

    play(story)


def test_secret_of_later_survives_a_delete_that_is_applied_late() -> None:
    """The delete names the UID of the one that was there when it was sent."""

    async def story(world: World) -> None:
        line, late = world.line(), list[Deletion]()

        async def time_out(resource: object, name: Key, deletion: Deletion) -> None:
            late.append(deletion)
            await asyncio.sleep(10)
            raise OutcomeUnknownError("no answer")

        former = await make_secret(world)
        line.delete = time_out  # type: ignore[assignment, method-assign]
        outcome = await Executor(line, clock=world.clock).execute(
            Plan((DeleteSecret(SECRETS, key("s")),))
        )
        assert [one.kind for one in outcome.failures] == [FailureKind.UNKNOWN]
        assert [one.uid for one in late] == [former]

        await world.user.delete(SECRETS, key("s"))
        later = await make_secret(world)
        assert later != former
        with pytest.raises(ConflictError):
            await world.user.delete(SECRETS, key("s"), late[0])
        # No reader of secrets is asked: the one call besides the delete is a dry run of it.
        assert line.calls == [f"trydelete {SECRETS} {key('s')}"]

    play(story)


def test_record_of_a_secret_is_not_written_over_a_later_state_of_its_owner() -> None:
    """One that is applied late would name a secret that has been replaced since."""

    async def story(world: World) -> None:
        toy, line = await world.add_toy(), world.line()
        create = line.create

        async def create_and_change_the_owner(resource: Resource[T], body: Body, *more: Any) -> T:
            made = await create(resource, body, *more)
            change = merge_patch({"metadata": {"labels": {"changed": "meanwhile"}}})
            await world.user.patch(TOYS, key("t"), change)
            return made

        line.create = create_and_change_the_owner  # type: ignore[assignment, method-assign]
        meta: Body = {"name": "s", "namespace": key("s").namespace}
        secret: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
        issue = IssueSecret(TOYS, key("t"), toy.metadata.uid, secret, "key", "toys.dev/token", b"l")
        outcome = await Executor(line, clock=world.clock).execute(Plan((issue,)))

        assert [one.kind for one in outcome.failures] == [FailureKind.STALE]
        assert (await world.user.get(TOYS, key("t"))).metadata.annotations == {}

    play(story)
