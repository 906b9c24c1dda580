"""What Swell seldom does, and has rights for."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from swell.api.kinds import NAMESPACES
from swell.api.meta import Body, Key
from tests.e2e.deploy.lives import LOOKS, take_names
from tests.e2e.deploy.queues import close_and_open
from tests.e2e.deploy.rights import Right
from tests.e2e.deploy.volumes import RIGHTS, need_them_no_more, need_volumes
from tests.e2e.kubernetes.containers import pods
from tests.e2e.kubernetes.happenings import another, ends, of
from tests.e2e.kubernetes.installed import DEPLOYMENTS
from tests.e2e.kubernetes.leaders import leaders_are_killed
from tests.e2e.kubernetes.machine import RealMachine
from tests.e2e.kubernetes.recorder import uses
from tests.e2e.kubernetes.stage import WITHIN_S, play
from tests.e2e.operator.checks import becomes, restarts, runs
from tests.e2e.operator.jobs import job
from tests.e2e.operator.scenario import Step, Trial, scenario

OPERATOR, SCHEDULER = DEPLOYMENTS
TAKEN = "e2e-taken"
EVENTS = (Right("patch", "events.k8s.io", "events"),)
POLL_S = 0.5


def asks(machine: RealMachine, account: str, rights: Sequence[Right]) -> Step:
    """The API server comes to see requests of all these kinds."""

    async def act(_: Trial) -> None:
        async with asyncio.timeout(WITHIN_S):
            while not {*rights} <= {use.right for use in uses(machine, account)}:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)

    return Step(f"{account} asks for {', '.join(map(str, rights))}", act)


async def _names_are_taken(play: Trial) -> None:
    body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": TAKEN}}
    await play.cluster.create(NAMESPACES.untyped(), body)
    await take_names(play.cluster, TAKEN)


async def _volumes_are_needed(play: Trial) -> None:
    await need_volumes(play.cluster, TAKEN)


async def _volumes_go(play: Trial) -> None:
    await need_them_no_more(play.cluster, TAKEN)


async def _namespace_goes(play: Trial) -> None:
    await play.cluster.delete(NAMESPACES, Key("", TAKEN))


async def _queue_closes_and_opens(play: Trial) -> None:
    await close_and_open(play.cluster)


def test_second_lives_and_taken_names(machine: RealMachine) -> None:
    """What happened before the leaders were killed happens again, twice, and is counted."""
    reported = scenario(
        "again",
        job({"a": pods(1, restartPolicy="Always")}),
        Step("names are taken", _names_are_taken),
        runs(),
        ends("a-0", code=1),
        restarts("a-0"),
        Step("a queue closes and opens", _queue_closes_and_opens),
        asks(machine, OPERATOR, LOOKS),
        Step("volumes are needed", _volumes_are_needed),
        asks(machine, SCHEDULER, RIGHTS),
        Step("volumes go", _volumes_go),
        Step("the namespace goes", _namespace_goes),
        another("begun", job({"a": pods(2)})),
        leaders_are_killed(machine),
        of("begun", runs(), ends("a-0", "a-1"), becomes("Succeed")),
        ends("a-0", code=1),
        restarts("a-0"),
        runs(),
        ends("a-0", code=1),
        restarts("a-0"),
        Step("a queue closes and opens", _queue_closes_and_opens),
        Step("a queue closes and opens again", _queue_closes_and_opens),
        asks(machine, OPERATOR, EVENTS),
        asks(machine, SCHEDULER, EVENTS),
    )
    for failure in play(machine, [reported]).values():
        raise failure
