"""What must be seen of a job. A step waits for what has to come; `stays` waits for nothing to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.kinds import AI_TRAINING_JOBS, PODS
from swell.api.meta import Body
from swell.api.pod import PodPhase
from swell.api.resource import Resource
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ForbiddenError, InvalidError
from tests.e2e.operator.story import Play, Step

# Long enough for an operator that was going to do something.
CALM_S = 2.5


def runs(*, anew: bool = False) -> Step:
    """The job runs, with every pod that it is to have; they are remembered.

    `anew` says that none of them may be one that was remembered before.
    """

    async def act(play: Play) -> None:
        await play.sight.until_phase(play.name, "Running")

        def whole() -> bool:
            return sorted(_running(play)) == _wanted(play)

        await play.until(whole, f"pods {_wanted(play)} run")
        uids = {name: pod.metadata.uid for name, pod in play.pods().items()}

        assert not anew or not {*uids.values()} & {*play.uids.values()}
        play.uids = uids

    return Step("the job runs" + (" with new pods" if anew else ""), act)


def becomes(*phases: str) -> Step:
    async def act(play: Play) -> None:
        await play.sight.until_phase(play.name, *phases)

    return Step(f"the job becomes {' or '.join(phases)}", act)


def stays(phase: str) -> Step:
    """Nothing happens: the phase is the same, and so are all pods."""

    async def act(play: Play) -> None:
        await asyncio.sleep(CALM_S)
        uids = {name: pod.metadata.uid for name, pod in play.pods().items()}

        assert play.sight.status(play.name).phase.value == phase
        assert uids == play.uids

    return Step(f"the job stays {phase}", act)


def restarts(*names: str) -> Step:
    """Exactly these pods are replaced by new ones, and the job runs again."""

    async def act(play: Play) -> None:
        def replaced() -> bool:
            pods = play.pods()
            return all(n in pods and pods[n].metadata.uid != play.uids.get(n) for n in names)

        await play.until(replaced, f"{', '.join(names)} are replaced")
        await play.sight.until_phase(play.name, "Running")
        await play.until(lambda: sorted(_running(play)) == _wanted(play), "all pods run")
        uids = {name: pod.metadata.uid for name, pod in play.pods().items()}
        others = {name: uid for name, uid in play.uids.items() if name not in names}

        assert {name: uids.get(name) for name in others} == others
        play.uids = uids

    return Step(f"{', '.join(names)} restart, and no others", act)


def pods_are(*names: str) -> Step:
    """These pods there are, and no others; they are remembered."""

    async def act(play: Play) -> None:
        await play.until(lambda: sorted(play.pods()) == sorted(names), f"pods {names}")
        play.uids = {name: pod.metadata.uid for name, pod in play.pods().items()}

    return Step(f"the pods are {', '.join(names) or 'none'}", act)


def says(*texts: str) -> Step:
    """The message names all of this."""

    async def act(play: Play) -> None:
        def holds() -> bool:
            message = play.sight.status(play.name).message
            return all(text in message for text in texts)

        await play.until(holds, f"a message with {texts}")

    return Step(f"the job says {texts}", act)


def shows(text: str, holds: Callable[[AITrainingJobStatus], object]) -> Step:
    """The status comes to show something."""

    async def act(play: Play) -> None:
        await play.until(lambda: bool(holds(play.sight.status(play.name))), text)

    return Step(text, act)


def went_through(*phases: str) -> Step:
    """The job has been in these phases, in this order, whatever came between."""

    async def act(play: Play) -> None:
        seen = iter(status.phase.value for status in play.sight.history[play.name])

        assert all(phase in seen for phase in phases), f"not in order: {phases}"

    return Step(f"the job went through {phases}", act)


def ever_showed(text: str, holds: Callable[[AITrainingJobStatus], object]) -> Step:
    """The status has shown something at some time."""

    async def act(play: Play) -> None:
        assert any(holds(status) for status in play.sight.history[play.name]), text

    return Step(text, act)


def members_are(sizes: Mapping[str, int]) -> Step:
    """The members ConfigMap lists so many hosts for each role."""

    async def act(play: Play) -> None:
        def holds() -> bool:
            key = play.key._replace(name=f"{play.name}-members")
            held = play.sight.config_maps.get(key)
            data = held.data if held else {}
            return {role: len(data.get(role, "").split()) for role in sizes} == dict(sizes)

        await play.until(holds, f"members {sizes}")

    return Step(f"the members are {sizes}", act)


def group_asks_for(n_pods: int) -> Step:
    async def act(play: Play) -> None:
        def holds() -> bool:
            group = play.sight.groups.get(play.key)
            return group is not None and group.spec.min_member == n_pods

        await play.until(holds, f"a group of {n_pods}")

    return Step(f"the group asks for {n_pods}", act)


def only_pods_left() -> Step:
    """Nothing else of the job is there but its pods and their services."""

    async def act(play: Play) -> None:
        services = {f"Service {pod.metadata.name}" for pod in play.pods().values()}
        pods = {f"Pod {pod.metadata.name}" for pod in play.pods().values()}

        await play.until(
            lambda: set(play.sight.owned(play.name)) == services | pods, "pods and services only"
        )

    return Step("only pods and their services are left", act)


def nothing_is_left() -> Step:
    """The job and everything it owned are gone."""

    async def act(play: Play) -> None:
        def holds() -> bool:
            return play.sight.job(play.name) is None and not play.sight.owned(play.name)

        await play.until(holds, "the job and all it owned are gone")

    return Step("nothing is left", act)


def refused(change: Body, *hints: str) -> Step:
    """A change of the spec is refused, and the refusal says all of this."""

    async def act(play: Play) -> None:
        with pytest.raises((InvalidError, ForbiddenError)) as refusal:
            await play.cluster.patch(AI_TRAINING_JOBS, play.key, merge_patch({"spec": change}))

        assert all(hint in str(refusal.value) for hint in hints), str(refusal.value)

    return Step(f"refused: {change}", act)


def has(resource: Resource[object], suffix: str, holds: Callable[[Body, Play], None]) -> Step:
    """An object of the job, named by what follows the job's name, is as it should be."""

    async def act(play: Play) -> None:
        key = play.key._replace(name=f"{play.name}{suffix}")
        holds(await play.cluster.get(resource.untyped(), key), play)

    return Step(f"{resource.kind} <job>{suffix} is as it should be", act)


def avoids_node_of(name: str) -> Step:
    """The node where the pod was before is avoided: it is in the status, the pod elsewhere."""

    async def act(play: Play) -> None:
        avoided = [node.name for node in play.sight.status(play.name).avoid_nodes]
        terms = await _required_terms(play, name)

        assert len(avoided) == 1
        assert play.pod(name).spec.node_name not in avoided
        assert terms
        for term in terms:
            fields = [{"key": "metadata.name", "operator": "NotIn", "values": avoided}]
            assert term["matchFields"] == fields
            assert term["matchExpressions"]

    return Step(f"the old node of {name} is avoided", act)


def is_told(reason: str) -> Step:
    """An event with this reason."""

    async def act(play: Play) -> None:
        await play.until(lambda: reason in play.sight.warned(play.name), f"event {reason}")

    return Step(f"an event tells {reason}", act)


async def _required_terms(play: Play, name: str) -> list[Body]:
    pod = await play.cluster.get(PODS.untyped(), play.pod_key(name))
    required = pod["spec"]["affinity"]["nodeAffinity"]
    terms: list[Body] = required["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return terms


def _running(play: Play) -> list[str]:
    return [
        name
        for name, pod in play.pods().items()
        if pod.status.phase in {PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED}
        and pod.metadata.deletion_timestamp is None
    ]


def _wanted(play: Play) -> list[str]:
    targets = play.sight.status(play.name).target_replicas
    return sorted(f"{role}-{index}" for role, n in targets.items() for index in range(n))
