"""The executor: order, where it stops, and what each kind of failure means."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import hashlib
import hmac
from collections.abc import Awaitable, Callable

import pytest

from swell.api.core import EventSeverity
from swell.api.kinds import PODS, SECRETS
from swell.api.meta import Body, Uid
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import NotFoundError, OutcomeUnknownError, UnreachableError
from swell.runtime.executor import NAME_TAKEN, Executor, FailureKind, Outcome
from swell.runtime.plan import (
    Action,
    CreateObject,
    DeleteObject,
    DeleteSecret,
    EmitEvent,
    IssueSecret,
    PatchObject,
    PatchStatus,
    Plan,
    Step,
    Together,
    patch_object,
)
from swell.sim.loop import run
from tests.unit.runtime.world import TOYS, Line, Toy, World, failure, key, pod_body, started, until

Story = Callable[[World], Awaitable[None]]


def play(story: Story) -> None:
    async def main() -> None:
        await story(World())

    run(main())


async def execute(line: Line, *steps: Step, **options: object) -> Outcome:
    return await Executor(line, **options).execute(Plan(steps))  # type: ignore[arg-type]


def create(name: str, owner: Toy | None = None) -> CreateObject:
    return CreateObject(PODS, pod_body(name, owner))


def kinds(outcome: Outcome) -> list[FailureKind]:
    return [failure.kind for failure in outcome.failures]


def test_first_status_is_put_and_leaves_the_rest() -> None:
    """There is nothing to merge it with; under the same condition as every status."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()
        first = PatchStatus(
            TOYS, key("t"), toy.metadata.resource_version, {"phase": "New"}, is_first=True
        )

        assert await execute(line, first) == Outcome(1)
        assert line.calls == ["update toys.toys.dev t"]
        found = await world.user.get(TOYS, key("t"))
        assert (found.spec, found.status.phase) == (toy.spec, "New")
        assert kinds(await execute(line, first)) == [FailureKind.STALE]

    play(story)


def test_steps_run_in_order() -> None:
    """Intent is recorded before the act, the act before its confirmation."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()
        pod = await world.user.create(PODS, pod_body("old", toy))
        outcome = await execute(
            line,
            PatchStatus(TOYS, key("t"), toy.metadata.resource_version, {"phase": "Restarting"}),
            DeleteObject(PODS, key("old"), pod.metadata.uid, grace_s=0),
            create("new", toy),
            patch_object(TOYS, key("t"), toy.metadata.uid, {"metadata": {"labels": {"a": "b"}}}),
        )

        assert outcome == Outcome(4)
        assert line.calls == [
            "patch toys.toys.dev default/t",
            "delete pods default/old",
            "create pods new",
            "patch toys.toys.dev default/t",
        ]
        after = await world.user.get(TOYS, key("t"))
        assert after.status.phase == "Restarting"
        assert after.metadata.labels == {"a": "b"}

    play(story)


def test_plan_stops_at_the_first_failure() -> None:
    """When the intent cannot be recorded, nothing is done."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()
        stale = PatchStatus(TOYS, key("t"), "1", {"phase": "Restarting"})
        outcome = await execute(line, stale, create("p", toy))

        assert kinds(outcome) == [FailureKind.STALE]
        assert outcome.n_done == 0
        assert line.calls == ["patch toys.toys.dev default/t"]

    play(story)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (failure(409, "Conflict"), FailureKind.STALE),
        (failure(404, "NotFound"), FailureKind.STALE),
        (failure(403, "Forbidden"), FailureKind.REFUSED),
        (failure(422, "Invalid"), FailureKind.REFUSED),
        (failure(400, "BadRequest"), FailureKind.REFUSED),
        (failure(429, retry_after_s=7), FailureKind.RETRY),
        (UnreachableError("refused"), FailureKind.RETRY),
        (OutcomeUnknownError("time-out"), FailureKind.UNKNOWN),
        (TimeoutError(), FailureKind.UNKNOWN),
        (failure(500, "InternalError"), FailureKind.UNKNOWN),
        (failure(503), FailureKind.UNKNOWN),
    ],
)
def test_failure_has_its_kind(error: Exception, kind: FailureKind) -> None:
    """Each kind of failure says what the next decision has to do; a 5xx may have happened."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()
        line.fail_before["patch"] = [error]
        action = PatchStatus(TOYS, key("t"), toy.metadata.resource_version, {"phase": "X"})
        outcome = await execute(line, action)

        assert kinds(outcome) == [kind]

    play(story)


def test_retry_after_is_handed_on() -> None:
    """How long the server wants to be left alone is part of the failure."""

    async def story(world: World) -> None:
        line = world.line()
        line.fail_before["create"] = [failure(429, retry_after_s=7)]
        outcome = await execute(line, create("p"))

        assert outcome.failures[0].retry_after_s == 7

    play(story)


def test_write_without_an_answer_is_given_up_as_unknown() -> None:
    """No write is waited for for ever."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 10_000
        outcome = await execute(line, create("p"), write_s=30)

        assert kinds(outcome) == [FailureKind.UNKNOWN]
        assert world.clock.monotonic() == 30

    play(story)


def test_existing_object_of_the_same_owner_is_as_good_as_created() -> None:
    """A create that finds its own earlier work has succeeded, and the cache learns of it."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()
        pods = world.pods(line)
        await started(pods)
        line.holds_events = True
        await world.user.create(PODS, pod_body("p", toy))
        outcome = await execute(line, create("p", toy), informers=(pods,))

        assert outcome == Outcome(1)
        assert pods.get(key("p")) is not None

    play(story)


@pytest.mark.parametrize("theirs", ["nobody", "namesake"])
def test_existing_object_of_somebody_else_is_refused(theirs: str) -> None:
    """A name that belongs to another owner, be it one of the same name, is never adopted."""

    async def story(world: World) -> None:
        former = await world.add_toy()
        await world.user.create(PODS, pod_body("p", former if theirs == "namesake" else None))
        await world.user.delete(TOYS, key("t"))
        toy = await world.add_toy()
        outcome = await execute(world.line(), create("p", toy))

        assert kinds(outcome) == [FailureKind.REFUSED]
        assert outcome.failures[0].reason == NAME_TAKEN

    play(story)


def test_deleting_what_is_gone_is_fine() -> None:
    """Whether we or another deleted it, it is gone, and the cache knows at once."""

    async def story(world: World) -> None:
        line = world.line()
        toys = world.toys(line)
        toy = await world.add_toy()
        await started(toys)
        line.holds_events = True
        await world.user.delete(TOYS, key("t"))
        outcome = await execute(
            line, DeleteObject(TOYS, key("t"), toy.metadata.uid), informers=(toys,)
        )

        assert outcome == Outcome(1)
        assert toys.get(key("t")) is None

    play(story)


def test_delete_never_hits_a_successor_of_the_same_name() -> None:
    """A delete of an object that was replaced succeeds without touching the new one."""

    async def story(world: World) -> None:
        former = await world.add_toy()
        await world.user.delete(TOYS, key("t"))
        successor = await world.add_toy()
        line = world.line()
        toys = world.toys(line)
        outcome = await execute(
            line, DeleteObject(TOYS, key("t"), former.metadata.uid), informers=(toys,)
        )

        assert outcome == Outcome(1)
        assert (await world.user.get(TOYS, key("t"))).metadata.uid == successor.metadata.uid
        found = toys.get(key("t"))
        assert found is not None
        assert found.metadata.uid == successor.metadata.uid

    play(story)


def test_conflict_on_the_very_object_to_delete_is_decided_again() -> None:
    """A conflict of the server's own is not mistaken for the object being gone."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()
        line.fail_before["delete"] = [failure(409, "Conflict")]
        outcome = await execute(line, DeleteObject(TOYS, key("t"), toy.metadata.uid))

        assert kinds(outcome) == [FailureKind.STALE]

    play(story)


def test_writes_reach_the_cache_before_the_next_decision() -> None:
    """After a plan the caches hold what it wrote, though the watch has reported nothing yet."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()
        toys, pods = world.toys(line), world.pods(line)
        await started(toys, pods)
        line.holds_events = True
        await execute(
            line,
            PatchStatus(TOYS, key("t"), toy.metadata.resource_version, {"phase": "Running"}),
            create("p", toy),
            informers=(toys, pods),
        )

        held = toys.get(key("t"))
        assert held is not None
        assert held.status.phase == "Running"
        assert [p.metadata.name for p in pods.by_owner(toy.metadata.uid)] == ["p"]

    play(story)


def test_dry_run_leaves_no_trace() -> None:
    """A question to the server is neither stored nor cached."""

    async def story(world: World) -> None:
        line = world.line()
        pods = world.pods(line)
        action = CreateObject(PODS, pod_body("p"), dry_run=True)
        outcome = await execute(line, action, informers=(pods,))

        assert outcome == Outcome(1)
        assert len(pods) == 0
        with pytest.raises(NotFoundError):
            await world.user.get(PODS, key("p"))

    play(story)


def test_actions_together_run_at_once_but_bounded() -> None:
    """A thousand creations take the time of a few, begun in order, never too many at a time."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 1
        names = [f"p{n:04}" for n in range(1000)]
        outcome = await execute(line, Together(tuple(map(create, names))), concurrency=50)

        assert outcome == Outcome(1000)
        assert line.calls == [f"create pods {name}" for name in names]
        assert line.n_under_way_max == 50
        assert world.clock.monotonic() == 20

    play(story)


def test_failure_among_many_begins_no_more_and_awaits_the_rest() -> None:
    """Those under way end by themselves; the gravest failure says what comes next."""

    async def story(world: World) -> None:
        line = world.line()
        line.delay_s = 1
        line.fail_before["create"] = [failure(403, "Forbidden"), OutcomeUnknownError("lost")]
        together = Together(tuple(create(f"p{n}") for n in range(10)))
        outcome = await execute(line, together, create("after"), concurrency=3)

        assert len(line.calls) == 3
        assert kinds(outcome) == [FailureKind.REFUSED, FailureKind.UNKNOWN]
        assert outcome.worst is not None
        assert outcome.worst.kind is FailureKind.UNKNOWN
        assert outcome.n_done == 0
        assert len((await world.user.list(PODS)).items) == 1

    play(story)


def test_bug_among_many_is_raised_after_the_rest_ended() -> None:
    """An unexpected exception is not lost among the results."""

    async def story(world: World) -> None:
        line = world.line()
        line.fail_before["create"] = [ZeroDivisionError("bug")]
        with pytest.raises(ZeroDivisionError):
            await execute(line, Together((create("a"), create("b"))))

        assert (await world.user.get(PODS, key("b"))).metadata.name == "b"

    play(story)


def test_events_go_to_the_recorder_and_metrics_count_writes() -> None:
    """Events are no writes of the plan; each write is counted with its result."""

    async def story(world: World) -> None:
        recorded: list[Action] = []
        counted: list[tuple[str, str, str]] = []

        class Sink:
            def record(self, event: EmitEvent) -> None:
                recorded.append(event)

            def wrote(self, resource: str, verb: str, result: str) -> None:
                counted.append((resource, verb, result))

        event = EmitEvent(TOYS, key("t"), Uid("u"), EventSeverity.NORMAL, "Created", "one pod")
        await execute(world.line(), create("p"), event, events=Sink(), meter=Sink())

        assert recorded == [event]
        assert counted == [("pods", "CreateObject", "done")]

    play(story)


def test_patch_by_uid_is_refused_by_a_successor() -> None:
    """A patch made for one object does not change another of its name."""

    async def story(world: World) -> None:
        former = await world.add_toy()
        await world.user.delete(TOYS, key("t"))
        await world.add_toy()
        change = {"metadata": {"labels": {"a": "b"}}}
        outcome = await execute(
            world.line(), patch_object(TOYS, key("t"), former.metadata.uid, change)
        )

        assert kinds(outcome) == [FailureKind.STALE]

    play(story)


def test_answer_that_cannot_be_read_is_an_unknown_outcome() -> None:
    """A write on a malformed object is done, though its answer is not understood."""

    async def story(world: World) -> None:
        await world.add_toy()
        await world.user.patch(
            TOYS.untyped(), key("t"), merge_patch({"spec": {"replicas": "many"}})
        )
        line = world.line()
        toys = world.toys(line)
        await started(toys)
        await until(lambda: toys.malformed(key("t")) is not None)
        patch = merge_patch({"metadata": {"labels": {"a": "b"}}})
        outcome = await execute(line, PatchObject(TOYS, key("t"), patch), informers=(toys,))

        assert kinds(outcome) == [FailureKind.UNKNOWN]
        await asyncio.sleep(1)
        assert (await world.user.get(TOYS.untyped(), key("t")))["metadata"]["labels"] == {"a": "b"}

    play(story)


def issue(toy: Toy) -> IssueSecret:
    meta: Body = {"name": "s", "namespace": key("s").namespace}
    body: Body = {"apiVersion": "v1", "kind": "Secret", "metadata": meta}
    return IssueSecret(TOYS, key("t"), toy.metadata.uid, body, "key", "toys.dev/token", b"label")


def test_secret_is_drawn_and_its_owner_says_so() -> None:
    """The owner gets what only those can compute who know the value."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        line = world.line()

        assert await execute(line, issue(toy), draw=lambda: "drawn") == Outcome(1)
        found = await world.user.get(SECRETS, key("s"))
        owner = await world.user.get(TOYS, key("t"))
        assert base64.b64decode(found["data"]["key"]) == b"drawn"
        token = hmac.new(b"drawn", b"label", hashlib.sha256).hexdigest()
        assert owner.metadata.annotations == {"toys.dev/token": token}
        reads = [call for call in line.calls if call.startswith(("get", "list"))]
        assert reads == [f"list {TOYS} metadata.name=t"]

    play(story)


def test_secrets_differ() -> None:
    """By default they come from the machine's own source of random numbers."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        found: set[str] = set()
        for _ in range(3):
            remove = DeleteSecret(SECRETS, key("s"))
            assert await execute(world.line(), remove, issue(toy)) == Outcome(2)
            found.add((await world.user.get(SECRETS, key("s")))["data"]["key"])
        assert len(found) == 3
        assert all(len(base64.b64decode(text)) == 64 for text in found)

    play(story)


def test_owner_changes_before_its_secret_is_replaced() -> None:
    """So a record of that secret, made for the version before, is refused if it comes late."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        remove = DeleteSecret(SECRETS, key("s"), (TOYS, key("t"), toy.metadata.uid), "toys.dev/old")
        assert await execute(world.line(), remove) == Outcome(1)
        assert await world.user.get(TOYS, key("t")) == toy
        await execute(world.line(), issue(toy))
        before = await world.user.get(TOYS, key("t"))
        secret = await world.user.get(SECRETS, key("s"))
        assert await execute(world.line(), remove) == Outcome(1)

        owner = await world.user.get(TOYS, key("t"))
        assert owner.metadata.resource_version != before.metadata.resource_version
        assert owner.metadata.annotations["toys.dev/old"] == secret["metadata"]["uid"]

    play(story)


def test_secret_that_is_there_lets_its_owner_be_decided_on_anew() -> None:
    """Its value cannot be known, so that there is no token to record."""

    async def story(world: World) -> None:
        toy = await world.add_toy()
        await execute(world.line(), issue(toy))
        before = await world.user.get(TOYS, key("t"))

        assert kinds(await execute(world.line(), issue(toy))) == [FailureKind.STALE]
        assert await world.user.get(TOYS, key("t")) == before

    play(story)


def test_secret_of_another_owner_of_the_name_is_not_recorded() -> None:
    async def story(world: World) -> None:
        toy = await world.add_toy()
        action = dataclasses.replace(issue(toy), uid=Uid("other"))

        assert kinds(await execute(world.line(), action)) == [FailureKind.STALE]
        assert (await world.user.get(TOYS, key("t"))).metadata.annotations == {}

    play(story)
