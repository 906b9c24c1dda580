"""The loop, with a toy controller that keeps as many pods as its toy asks for."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from swell.api.kinds import PODS
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.runtime.cluster import Malformed, Selection, merge_patch
from swell.runtime.controller import (
    WAKE_S_MAX,
    WAKE_S_MIN,
    Controller,
    KeyHistory,
    Reconciler,
    RejectedWrite,
)
from swell.runtime.errors import OutcomeUnknownError
from swell.runtime.executor import Executor
from swell.runtime.informer import Informer
from swell.runtime.plan import NOTHING, CreateObject, DeleteObject, PatchStatus, Plan, Together
from swell.runtime.queue import WorkQueue
from swell.runtime.uncertain import Children
from swell.sim.loop import run
from tests.unit.runtime.world import (
    TOYS,
    Line,
    Toy,
    World,
    failure,
    held_keys,
    key,
    pod_body,
    started,
    toy_body,
    until,
)

Story = Callable[["Stage"], Awaitable[None]]


@dataclass(frozen=True)
class Snapshot:
    toy: Toy
    pods: tuple[Pod, ...]
    refusal: RejectedWrite | None


def decide(snapshot: Snapshot, now: float) -> Plan:
    """Dense indexes up to the size asked for; the status says what was last refused."""
    toy = snapshot.toy
    if toy.spec.replicas < 0:
        raise ZeroDivisionError("a planted bug")
    wanted = [f"{toy.metadata.name}-{n}" for n in range(toy.spec.replicas)]
    held = {pod.metadata.name: pod for pod in snapshot.pods}
    surplus = [pod for name, pod in held.items() if name not in wanted]
    missing = [name for name in wanted if name not in held]
    refusal = snapshot.refusal
    if refusal and now < refusal.retry_at:
        status = {"phase": refusal.reason}
        write = PatchStatus(TOYS, toy.metadata.key, toy.metadata.resource_version, status)
        actions = () if toy.status.phase == refusal.reason else (write,)
        return Plan(actions, wake_at=refusal.retry_at)
    if not surplus and not missing:
        return NOTHING
    deletes = [DeleteObject(PODS, p.metadata.key, p.metadata.uid, grace_s=0) for p in surplus]
    creates = [CreateObject(PODS, pod_body(name, toy)) for name in missing]
    return Plan((Together((*deletes, *creates)),))


@dataclass
class Stage:
    """The store, one controller, and what it did."""

    world: World
    line: Line
    toys: Informer[Toy] = field(init=False)
    pods: Informer[Pod] = field(init=False)
    controller: Controller[Snapshot] = field(init=False)
    results: list[str] = field(default_factory=list)
    malformed: list[Malformed] = field(default_factory=list)
    decide: Callable[[Snapshot, float], Plan] = decide

    def __post_init__(self) -> None:
        world = self.world
        self.toys, self.pods = world.toys(self.line), world.pods(self.line)
        self.queue = WorkQueue[Key](clock=world.clock, random=world.random)
        self.controller = Controller(
            "toy",
            Reconciler(self.snapshot, self.decided, self.on_malformed),
            owners=self.toys,
            children=(Children(self.pods, "controller Toy", children_of),),
            executor=Executor(self.line, informers=(self.toys, self.pods)),
            queue=self.queue,
            clock=world.clock,
            meter=self,
        )

    def snapshot(self, at: Key) -> Snapshot | None:
        toy = self.toys.get(at)
        if toy is None:
            return None
        return Snapshot(
            toy, self.pods.by_owner(toy.metadata.uid), self.controller.rejected_write(at)
        )

    def decided(self, snapshot: Snapshot, now: float) -> Plan:
        return self.decide(snapshot, now)  # which a test may have replaced

    def on_malformed(self, malformed: Malformed, now: float) -> Plan:
        self.malformed.append(malformed)
        return NOTHING

    def reconciled(self, controller: str, result: str, seconds: float) -> None:
        self.results.append(result)

    def queued(self, controller: str, n_keys: int) -> None:
        pass

    async def start(self) -> asyncio.Task[None]:
        await started(self.toys, self.pods)
        return asyncio.create_task(self.controller.run())

    async def names(self) -> list[str]:
        return [pod.metadata.name for pod in (await self.world.user.list(PODS)).items]

    async def settle(self, n_pods: int, within_s: float = 60) -> None:
        async with asyncio.timeout(within_s):
            while len(await self.names()) != n_pods:  # noqa: ASYNC110 (virtual time)
                await asyncio.sleep(0.01)


def children_of(owner: Key) -> Selection:
    return Selection(owner.namespace, labels=f"toy={owner.name}")


def play(story: Story) -> None:
    async def main() -> None:
        world = World()
        await story(Stage(world, world.line()))

    run(main())


def test_state_follows_the_spec_and_then_is_quiet() -> None:
    """Changes of owners and of children lead to passes; a settled world to no writes at all."""

    async def story(stage: Stage) -> None:
        await stage.start()
        await stage.world.add_toy("t", replicas=3)
        await stage.settle(3)
        await stage.world.user.delete(PODS, key("t-1"))
        await stage.settle(3)
        await stage.world.user.patch(TOYS, key("t"), merge_patch({"spec": {"replicas": 1}}))
        await stage.settle(1)
        n_writes = len(stage.line.writes())
        await asyncio.sleep(4000)

        assert len(stage.line.writes()) == n_writes
        assert await stage.names() == ["t-0"]
        assert held_keys(stage.queue) == set()

    play(story)


def test_nothing_is_decided_before_caches_are_synced() -> None:
    """With half a view, missing children would be created a second time."""

    async def story(stage: Stage) -> None:
        await stage.world.add_toy("t", replicas=1)
        running = asyncio.create_task(stage.controller.run())
        toys = asyncio.create_task(stage.toys.run())
        await asyncio.sleep(100)
        assert stage.toys.synced
        assert stage.results == []
        pods = asyncio.create_task(stage.pods.run())
        await stage.settle(1)
        for task in (running, toys, pods):
            task.cancel()

    play(story)


def test_unknown_outcome_is_followed_by_consistent_reads() -> None:
    """After a lost answer, owner and children are read from the server before the next decision.

    The watch is silent throughout: without the reads the controller would not know its own pod.
    """

    async def story(stage: Stage) -> None:
        await stage.start()
        stage.line.fail_after["create"] = [OutcomeUnknownError("lost")]
        seen: list[list[str]] = []

        def spied(snapshot: Snapshot, now: float) -> Plan:
            seen.append([pod.metadata.name for pod in snapshot.pods])
            return decide(snapshot, now)

        stage.decide = spied
        toy = await stage.world.add_toy("t", replicas=1)
        await until(lambda: stage.toys.get(key("t")) == toy)
        stage.line.holds_events = True
        await until(lambda: len(seen) == 2)

        assert seen == [[], ["t-0"]]
        calls = stage.line.calls
        lost = calls.index("create pods t-0")
        assert calls[lost + 1 : lost + 3] == [
            "list toys.toys.dev metadata.name=t",
            "list pods toy=t",
        ]
        assert stage.line.writes() == ["create pods t-0"]

    play(story)


def test_missing_object_is_read_for_before_it_counts() -> None:
    """A plan that rests on something not being there is made again from a consistent read."""

    async def story(stage: Stage) -> None:
        seen: list[list[str]] = []

        def end_without_pods(snapshot: Snapshot, now: float) -> Plan:
            toy = snapshot.toy
            seen.append([pod.metadata.name for pod in snapshot.pods])
            if snapshot.pods or toy.status.phase:
                return NOTHING
            version = toy.metadata.resource_version
            done = PatchStatus(TOYS, key("t"), version, {"phase": "empty"})
            return Plan((done,), needs_consistent_read=True)

        stage.decide = end_without_pods
        toy = await stage.world.add_toy("t")
        await started(stage.toys, stage.pods)
        stage.line.holds_events = True
        await stage.world.user.create(PODS, pod_body("t-0", toy))
        running = asyncio.create_task(stage.controller.run())
        await until(lambda: len(seen) > 1)

        assert seen[:2] == [[], ["t-0"]]
        assert stage.line.writes() == []
        running.cancel()

    play(story)


def test_key_stays_uncertain_until_the_reads_succeed() -> None:
    """While the server cannot be read, the key waits and nothing is decided for it."""

    async def story(stage: Stage) -> None:
        await stage.start()
        stage.line.fail_after["create"] = [OutcomeUnknownError("lost")]
        stage.line.fail_before["list"] = [failure(503), failure(429, retry_after_s=30)]
        await stage.world.add_toy("t", replicas=1)
        await until(lambda: stage.results.count("unread") == 2, within_s=100)
        unread = stage.world.clock.monotonic()
        await until(lambda: stage.results[-1] == "quiet", within_s=100)

        assert stage.world.clock.monotonic() - unread > 29
        assert stage.line.writes() == ["create pods t-0"]

    play(story)


def test_stale_view_is_corrected_by_reading_the_target() -> None:
    """After a conflict the next decision sees the present state, even if the watch stands still."""

    async def story(stage: Stage) -> None:
        phases: list[str] = []

        def write_phase(snapshot: Snapshot, now: float) -> Plan:
            toy = snapshot.toy
            phases.append(toy.status.phase)
            if toy.status.phase == "mine":
                return NOTHING
            version = toy.metadata.resource_version
            return Plan((PatchStatus(TOYS, key("t"), version, {"phase": "mine"}),))

        stage.decide = write_phase
        toy = await stage.world.add_toy("t")
        await started(stage.toys, stage.pods)
        stage.line.holds_events = True
        status = merge_patch({"status": {"phase": "theirs"}})
        await stage.world.user.patch(TOYS.status, key("t"), status)
        running = asyncio.create_task(stage.controller.run())
        await until(lambda: phases[-1:] == ["mine"])

        assert phases == ["", "theirs", "mine"]
        assert toy.status.phase == ""
        running.cancel()

    play(story)


def test_bug_for_one_key_does_not_stop_the_others() -> None:
    """A decision that raises is logged and backs off; its neighbours are served."""

    async def story(stage: Stage) -> None:
        await stage.start()
        await stage.world.add_toy("bad", replicas=-1)
        await stage.world.add_toy("good", replicas=2)
        await stage.settle(2)
        await asyncio.sleep(600)
        n_bugs = stage.results.count("bug")
        assert 5 < n_bugs < 30

        await stage.world.user.patch(TOYS, key("bad"), merge_patch({"spec": {"replicas": 1}}))
        await stage.settle(3)

    play(story)


def test_malformed_owner_has_its_own_decision() -> None:
    """An owner that cannot be understood is decided on by who knows how to say so."""

    async def story(stage: Stage) -> None:
        await stage.start()
        hostile = toy_body("hostile")
        hostile["spec"]["replicas"] = "many"
        await stage.world.user.create(TOYS.untyped(), hostile)
        await stage.world.add_toy("good", replicas=1)
        await stage.settle(1)

        assert [m.key for m in stage.malformed] == [key("hostile")]

    play(story)


def test_refusal_is_known_to_the_next_decision_and_retried_ever_later() -> None:
    """What the server does not want is reported once and tried again at a falling rate."""

    async def story(stage: Stage) -> None:
        await stage.start()
        stage.line.fail_before["create"] = [failure(403, "Forbidden")] * 8
        await stage.world.add_toy("t", replicas=1)
        phase: Callable[[], str] = lambda: (  # noqa: E731
            found.status.phase if (found := stage.toys.get(key("t"))) else ""
        )
        await until(lambda: phase() == "Forbidden", within_s=1)
        await asyncio.sleep(60)
        tried = stage.line.calls.count("create pods t-0")
        assert 4 <= tried <= 7
        assert stage.line.calls.count("patch toys.toys.dev default/t") == 1
        refusal = stage.controller.rejected_write(key("t"))
        assert refusal is not None
        assert refusal.count == tried

        await stage.settle(1, within_s=600)
        assert stage.controller.rejected_write(key("t")) is None

    play(story)


def test_writes_refused_in_turn_are_no_hot_loop() -> None:
    """A decision that tries another write after each refusal is slowed down all the same."""

    async def story(stage: Stage) -> None:
        def in_turn(snapshot: Snapshot, now: float) -> Plan:
            refused = snapshot.refusal.action.key.name if snapshot.refusal else ""
            name = "t-1" if refused == "t-0" else "t-0"
            return Plan((CreateObject(PODS, pod_body(name, snapshot.toy)),))

        stage.decide = in_turn
        await stage.start()
        stage.line.fail_before["create"] = [failure(403, "Forbidden")] * 1000
        await stage.world.add_toy("t")
        await asyncio.sleep(60)

        assert 2 <= stage.line.calls.count("create pods t-0") <= 10

    play(story)


def test_wake_brings_a_key_back_in_time() -> None:
    """A plan's wake-up is kept to, and never lies so far ahead that a set clock could break it."""

    async def story(stage: Stage) -> None:
        times: list[float] = []

        def sleepy(snapshot: Snapshot, now: float) -> Plan:
            times.append(stage.world.clock.monotonic())
            return Plan(wake_at=now + (40 if len(times) == 1 else 10_000))

        stage.decide = sleepy
        await stage.start()
        await stage.world.add_toy("t")
        await asyncio.sleep(45 + WAKE_S_MAX)

        first, second, third = times
        assert 40 <= second - first < 40.01
        assert WAKE_S_MAX <= third - second < WAKE_S_MAX + 0.01

    play(story)


def test_wake_up_that_is_due_does_not_spin() -> None:
    """What is due in less than a time of day can tell is looked at again only when time passed."""

    async def story(stage: Stage) -> None:
        times: list[float] = []

        def impatient(snapshot: Snapshot, now: float) -> Plan:
            times.append(stage.world.clock.monotonic())
            return Plan(wake_at=now + 1e-9)

        stage.decide = impatient
        await stage.start()
        await stage.world.add_toy("t")
        await asyncio.sleep(0.1)

        assert len(times) > 1
        gaps = [later - earlier for earlier, later in itertools.pairwise(times)]
        assert min(gaps) >= WAKE_S_MIN / 2

    play(story)


def test_vanished_owner_leaves_nothing_behind() -> None:
    """A key without an object is forgotten with all that was known of it."""

    async def story(stage: Stage) -> None:
        await stage.start()
        stage.line.fail_before["create"] = [failure(403, "Forbidden")] * 100
        await stage.world.add_toy("t", replicas=1)
        await until(lambda: stage.controller.rejected_write(key("t")) is not None)
        await stage.world.user.delete(TOYS, key("t"))
        await until(lambda: stage.results[-1:] == ["gone"])

        assert held_keys(stage.queue) == set()
        assert stage.controller.rejected_write(key("t")) is None

    play(story)


def test_stop_finishes_what_was_begun() -> None:
    """A plan under way is carried to its end; no new key is taken up."""

    async def story(stage: Stage) -> None:
        running = await stage.start()
        stage.line.delay_s = 5
        await stage.world.add_toy("t", replicas=2)
        await until(lambda: "create pods t-0" in stage.line.calls)
        stage.controller.stop()
        await asyncio.wait_for(running, 20)

        assert await stage.names() == ["t-0", "t-1"]

    play(story)


def test_throttled_server_is_left_alone_for_as_long_as_it_asks() -> None:
    """Retry-After outweighs the key's own back-off."""

    async def story(stage: Stage) -> None:
        await stage.start()
        stage.line.fail_before["create"] = [failure(429, retry_after_s=25)]
        await stage.world.add_toy("t", replicas=1)
        await asyncio.sleep(24)
        assert await stage.names() == []
        await stage.settle(1)

    play(story)


def test_loop_without_owners_serves_a_single_key() -> None:
    """Work about the whole world, as a scheduler's, has one key that any change may wake."""

    async def story(stage: Stage) -> None:
        world, whole = stage.world, Key("", "world")
        seen: list[int] = []

        def note(n_toys: int, now: float) -> Plan:
            seen.append(n_toys)
            return NOTHING

        toys = world.toys(stage.line)
        queue = WorkQueue[Key](clock=world.clock, random=world.random)
        controller = Controller(
            "whole",
            Reconciler(lambda _: len(toys), note),
            owners=None,
            others=(toys,),
            executor=Executor(stage.line),
            queue=queue,
            clock=world.clock,
        )
        toys.add_handler(lambda _: controller.wake(whole))
        await started(toys)
        running = asyncio.create_task(controller.run())
        for name in ("a", "b", "c"):
            await world.add_toy(name)
        await until(lambda: seen[-1:] == [3])
        controller.stop()
        await running

        assert len(seen) <= 4

    play(story)


def test_history_keeps_the_last_lines_of_the_last_keys() -> None:
    """Memory is bounded by keys and by lines; the oldest go first."""
    history = KeyHistory(keys_max=2, lines_max=3)
    a, b, c = (Key("ns", name) for name in "abc")
    for n in range(5):
        history.add(a, f"a{n}")
    history.add(b, "b")
    history.add(a, "a5")
    history.add(c, "c")

    assert history.lines(a) == ["a3", "a4", "a5"]
    assert history.lines(b) == []
    assert history.lines(c) == ["c"]
