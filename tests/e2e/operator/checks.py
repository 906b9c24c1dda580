"""Steps that check a job. They wait for a state to come; `stays` checks that none does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import pytest

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.api.injection import RELEASE_ANNOTATION
from swell.api.kinds import AI_TRAINING_JOBS, NODES, PODS
from swell.api.meta import Body, Key
from swell.api.node_faults import read_faults
from swell.api.pod import PodPhase
from swell.api.resource import Resource
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ForbiddenError, InvalidError
from tests.e2e.operator.scenario import Step, Trial

# Long enough for an operator that was going to do something.
QUIET_S = 2.5
WITHIN_S, LOOK_S = 60.0, 0.2


def runs(*, anew: bool = False) -> Step:
    """The job runs, with every pod that it is to have; they are remembered.

    `anew` says that none of them may be one that was remembered before.
    """

    async def act(trial: Trial) -> None:
        await trial.observer.until_phase(trial.name, "Running")

        def whole() -> bool:
            return sorted(_running(trial)) == _wanted(trial)

        await trial.until(whole, f"pods {_wanted(trial)} run")
        uids = {name: pod.metadata.uid for name, pod in trial.pods().items()}

        assert not anew or not {*uids.values()} & {*trial.uids.values()}
        trial.uids = uids

    return Step("the job runs" + (" with new pods" if anew else ""), act)


def becomes(*phases: str) -> Step:
    async def act(trial: Trial) -> None:
        await trial.observer.until_phase(trial.name, *phases)

    return Step(f"the job becomes {' or '.join(phases)}", act)


def stays(phase: str, for_s: float = QUIET_S) -> Step:
    """Nothing happens: the phase is the same, and so are all pods."""

    async def act(trial: Trial) -> None:
        await asyncio.sleep(for_s)
        uids = {name: pod.metadata.uid for name, pod in trial.pods().items()}

        assert trial.observer.status(trial.name).phase.value == phase
        assert uids == trial.uids

    return Step(f"the job stays {phase}", act)


def restarts(*names: str) -> Step:
    """Exactly these pods are replaced by new ones, and the job runs again."""

    async def act(trial: Trial) -> None:
        def replaced() -> bool:
            pods = trial.pods()
            return all(n in pods and pods[n].metadata.uid != trial.uids.get(n) for n in names)

        await trial.until(replaced, f"{', '.join(names)} are replaced")
        await trial.observer.until_phase(trial.name, "Running")
        await trial.until(lambda: sorted(_running(trial)) == _wanted(trial), "all pods run")
        uids = {name: pod.metadata.uid for name, pod in trial.pods().items()}
        others = {name: uid for name, uid in trial.uids.items() if name not in names}

        assert {name: uids.get(name) for name in others} == others
        trial.uids = uids

    return Step(f"{', '.join(names)} restart, and no others", act)


def pods_are(*names: str) -> Step:
    """These pods there are, and no others; they are remembered."""

    async def act(trial: Trial) -> None:
        await trial.until(lambda: sorted(trial.pods()) == sorted(names), f"pods {names}")
        trial.uids = {name: pod.metadata.uid for name, pod in trial.pods().items()}

    return Step(f"the pods are {', '.join(names) or 'none'}", act)


def is_asked(name: str) -> Step:
    """The pod is asked to save before it leaves."""

    async def act(trial: Trial) -> None:
        def holds() -> bool:
            found = trial.pods().get(name)
            return found is not None and RELEASE_ANNOTATION in found.metadata.annotations

        await trial.until(holds, f"{name} asked to save")

    return Step(f"{name} is asked to save", act)


def says(*texts: str) -> Step:
    """The message names all of this."""

    async def act(trial: Trial) -> None:
        def holds() -> bool:
            message = trial.observer.status(trial.name).message
            return all(text in message for text in texts)

        await trial.until(holds, f"a message with {texts}")

    return Step(f"the job says {texts}", act)


def shows(text: str, holds: Callable[[AITrainingJobStatus], object]) -> Step:
    """The status comes to show something."""

    async def act(trial: Trial) -> None:
        await trial.until(lambda: bool(holds(trial.observer.status(trial.name))), text)

    return Step(text, act)


def went_through(*phases: str) -> Step:
    """The job has been in these phases, in this order, whatever came between."""

    async def act(trial: Trial) -> None:
        seen = iter(status.phase.value for status in trial.observer.history[trial.name])

        assert all(phase in seen for phase in phases), f"not in order: {phases}"

    return Step(f"the job went through {phases}", act)


def ever_showed(text: str, holds: Callable[[AITrainingJobStatus], object]) -> Step:
    """The status has shown something at some time."""

    async def act(trial: Trial) -> None:
        assert any(holds(status) for status in trial.observer.history[trial.name]), text

    return Step(text, act)


def members_are(sizes: Mapping[str, int]) -> Step:
    """The members ConfigMap lists so many hosts for each role."""

    async def act(trial: Trial) -> None:
        def holds() -> bool:
            key = trial.key._replace(name=f"{trial.name}-members")
            held = trial.observer.config_maps.get(key)
            data = held.data if held else {}
            return {role: len(data.get(role, "").split()) for role in sizes} == dict(sizes)

        await trial.until(holds, f"members {sizes}")

    return Step(f"the members are {sizes}", act)


def group_asks_for(n_pods: int) -> Step:
    async def act(trial: Trial) -> None:
        def holds() -> bool:
            group = trial.observer.groups.get(trial.key)
            return group is not None and group.spec.min_member == n_pods

        await trial.until(holds, f"a group of {n_pods}")

    return Step(f"the group asks for {n_pods}", act)


def only_pods_left() -> Step:
    """Nothing else of the job is there but its pods and their services."""

    async def act(trial: Trial) -> None:
        services = {f"Service {pod.metadata.name}" for pod in trial.pods().values()}
        pods = {f"Pod {pod.metadata.name}" for pod in trial.pods().values()}

        await trial.until(
            lambda: set(trial.observer.owned(trial.name)) == services | pods,
            "pods and services only",
        )

    return Step("only pods and their services are left", act)


def nothing_is_left() -> Step:
    """The job and everything it owned are gone."""

    async def act(trial: Trial) -> None:
        def holds() -> bool:
            return trial.observer.job(trial.name) is None and not trial.observer.owned(trial.name)

        await trial.until(holds, "the job and all it owned are gone")

    return Step("nothing is left", act)


def refused(change: Body, *hints: str) -> Step:
    """A change of the spec is refused, and the refusal says all of this."""

    async def act(trial: Trial) -> None:
        with pytest.raises((InvalidError, ForbiddenError)) as refusal:
            await trial.cluster.patch(AI_TRAINING_JOBS, trial.key, merge_patch({"spec": change}))

        assert all(hint in str(refusal.value) for hint in hints), str(refusal.value)

    return Step(f"refused: {change}", act)


def has(resource: Resource[object], suffix: str, holds: Callable[[Body, Trial], None]) -> Step:
    """An object of the job, named by what follows the job's name, is as it should be."""

    async def act(trial: Trial) -> None:
        key = trial.key._replace(name=f"{trial.name}{suffix}")
        holds(await trial.cluster.get(resource.untyped(), key), trial)

    return Step(f"{resource.kind} <job>{suffix} is as it should be", act)


def avoids_node_of(name: str) -> Step:
    """The node where the pod was before is avoided: it is in the status, the pod elsewhere."""

    async def act(trial: Trial) -> None:
        avoided = [node.name for node in trial.observer.status(trial.name).avoid_nodes]
        terms = await _required_terms(trial, name)

        assert len(avoided) == 1
        assert trial.pod(name).spec.node_name not in avoided
        assert terms
        for term in terms:
            fields = [{"key": "metadata.name", "operator": "NotIn", "values": avoided}]
            assert term["matchFields"] == fields
            assert term["matchExpressions"]

    return Step(f"the old node of {name} is avoided", act)


def is_suspect(n_jobs: int) -> Step:
    """The only node of the scenario is marked by so many jobs."""

    async def act(trial: Trial) -> None:
        (node,) = trial.nodes
        jobs: tuple[str, ...] = ()
        async with asyncio.timeout(WITHIN_S):
            while len(jobs) < n_jobs:
                found = await trial.cluster.get(NODES, Key("", node))
                jobs = read_faults(found.metadata.annotations).jobs(0.0)
                await asyncio.sleep(LOOK_S)

        assert len(jobs) == n_jobs

    return Step(f"its node is a suspect of {n_jobs} jobs", act)


def is_reported(reason: str) -> Step:
    """An event with this reason."""

    async def act(trial: Trial) -> None:
        await trial.until(lambda: reason in trial.observer.warned(trial.name), f"event {reason}")

    return Step(f"an event tells {reason}", act)


async def _required_terms(trial: Trial, name: str) -> list[Body]:
    pod = await trial.cluster.get(PODS.untyped(), trial.pod_key(name))
    required = pod["spec"]["affinity"]["nodeAffinity"]
    terms: list[Body] = required["requiredDuringSchedulingIgnoredDuringExecution"][
        "nodeSelectorTerms"
    ]
    return terms


def _running(trial: Trial) -> list[str]:
    return [
        name
        for name, pod in trial.pods().items()
        if pod.status.phase in {PodPhase.RUNNING, PodPhase.SUCCEEDED, PodPhase.FAILED}
        and pod.metadata.deletion_timestamp is None
    ]


def _wanted(trial: Trial) -> list[str]:
    targets = trial.observer.status(trial.name).target_replicas
    return sorted(f"{role}-{index}" for role, n in targets.items() for index in range(n))
