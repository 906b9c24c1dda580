"""Two versions of Swell take turns on a cluster while jobs live their lives."""

from __future__ import annotations

import asyncio
from pathlib import Path

from image.build import reference
from swell.api.meta import Body
from tests.e2e.kubernetes.containers import pods
from tests.e2e.kubernetes.happenings import another, ends, of
from tests.e2e.kubernetes.installed import DEPLOYMENTS, NAMESPACE, wait_for
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.kubernetes.recorder import writes
from tests.e2e.kubernetes.stage import play
from tests.e2e.kubernetes.versions import PREVIOUS, previous_image
from tests.e2e.operator.actions import deletes_job, scales
from tests.e2e.operator.checks import (
    becomes,
    members_are,
    nothing_is_left,
    pods_are,
    restarts,
    runs,
    shows,
    stays,
)
from tests.e2e.operator.jobs import job
from tests.e2e.operator.scenario import Step, Trial, scenario

THIS = reference()
ELASTIC: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 4}
RIGID: Body = {"restartPolicy": "OnFailure", "restartScope": "Pod"}
QUIET_S = 4.0
QUIET_TRIES = 5


def rolls_to(machine: RealMachine, operator: str, scheduler: str) -> Step:
    """Operator and scheduler begin to be replaced; the story goes on meanwhile."""

    async def act(_: Trial) -> None:
        for name, image in zip(DEPLOYMENTS, (operator, scheduler), strict=True):
            container = name.removeprefix("swell-")
            change = f"{container}={image}"
            await machine.ok("set", "image", "-n", NAMESPACE, f"deployment/{name}", change)

    return Step(f"the operator becomes {operator}, the scheduler {scheduler}", act)


def is_quiet(machine: RealMachine) -> Step:
    """When the new pods are all there are, a time comes when nobody writes: no one undoes another's
    work. Numbers that are told late may come before that."""

    async def act(_: Trial) -> None:
        for name in DEPLOYMENTS:
            await asyncio.to_thread(wait_for, machine, name)
        for _try in range(QUIET_TRIES):
            before = writes(machine)
            await asyncio.sleep(QUIET_S)
            written = writes(machine) - before
            if not written:
                return
        raise AssertionError(f"they go on writing: {written}")

    return Step("everything is as both versions want it", act)


def keeps(*names: str) -> Step:
    """These pods are still the ones that were remembered."""

    async def act(play: Trial) -> None:
        found = {name: pod.metadata.uid for name, pod in play.pods().items()}

        assert {name: found.get(name) for name in names} == {n: play.uids[n] for n in names}

    return Step(f"{', '.join(names)} are kept", act)


def test_versions_take_turns(machine: RealMachine, tmp_path: Path) -> None:
    """Jobs are resized, restarted, started and ended under either version, and nothing is lost."""
    machine.cluster.load_images(previous_image(tmp_path))
    reported = scenario(
        "versions",
        job({"a": pods(2, **ELASTIC)}),
        runs(),
        another("kept", job({"a": pods(2, **RIGID)})),
        of("kept", runs()),
        rolls_to(machine, PREVIOUS, THIS),
        scales("a", 4),
        _grown(),
        is_quiet(machine),
        of("kept", stays("Running")),
        rolls_to(machine, THIS, PREVIOUS),
        of("kept", ends("a-0", code=1), restarts("a-0")),
        keeps("a-0", "a-1", "a-2", "a-3"),
        scales("a", 1),
        is_quiet(machine),
        keeps("a-0"),
        pods_are("a-0"),
        rolls_to(machine, PREVIOUS, PREVIOUS),
        another("new", job({"a": pods(2)})),
        of("new", runs()),
        is_quiet(machine),
        keeps("a-0"),
        of("kept", stays("Running")),
        of("new", stays("Running")),
        rolls_to(machine, THIS, THIS),
        ends("a-0"),
        becomes("Succeed"),
        of("kept", ends("a-0", "a-1"), becomes("Succeed")),
        of("new", deletes_job(), nothing_is_left()),
        is_quiet(machine),
        shows("no restart", lambda status: status.restarts == 0),
        of("kept", shows("one restart", lambda status: status.restart_counts == {"a": 1})),
    )
    for failure in play(machine, [reported]).values():
        raise failure


def _grown() -> Step:
    """The two that were there stay, and two more come."""
    names = ("a-0", "a-1", "a-2", "a-3")

    async def act(play: Trial) -> None:
        await play.until(lambda: sorted(play.pods()) == sorted(names), "four pods")
        await keeps("a-0", "a-1").act(play)
        await runs().act(play)
        await members_are({"a": len(names)}).act(play)

    return Step("the job grows to four pods", act)
