"""AITrainingJobs for simulated users, and what their pods do."""

from __future__ import annotations

from dataclasses import dataclass

from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.meta import Body
from swell.api.pod import Pod
from swell.operator.aitrainingjob import labels
from swell.sim.actors.pod_lifecycle import PodBehavior
from swell.sim.observation import NAMESPACE
from swell.sim.world import SimulatedWorld

FAILS = "sim/fails"  # how many of a pod's lives fail, by their RestartCount
CODE = "sim/exit-code"
RUNS = "sim/runs"  # the longest run, in seconds


def a_job(name: str, spec: Body) -> Body:
    return {
        "apiVersion": AI_TRAINING_JOBS.api_version,
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


@dataclass(frozen=True, slots=True)
class Pods:
    """What a role's pods do: the first lives fail, each runs for up to a time."""

    fails: int = 0
    exit_code: int = 1
    runs_s: float = 40.0
    gpu: bool = False


def a_role(pods: Pods = Pods(), /, **fields: object) -> Body:  # noqa: B008
    """A role with these fields of a replica spec."""
    container: Body = {
        "name": "aitj-main",
        "image": "local",
        "ports": [{"name": "aitj-2222", "containerPort": 2222}],
    }
    if pods.gpu:
        container["resources"] = {"limits": {"nvidia.com/gpu": "1"}}
    notes = {FAILS: str(pods.fails), CODE: str(pods.exit_code), RUNS: str(pods.runs_s)}
    return {
        **fields,
        "template": {
            "metadata": {"annotations": notes},
            "spec": {"terminationGracePeriodSeconds": 8, "containers": [container]},
        },
    }


def behavior_of(world: SimulatedWorld, pod: Pod) -> PodBehavior:
    """By name and count, so that a pod created anew after an eviction does the same again."""
    notes = pod.metadata.annotations
    count = int(pod.metadata.labels.get(labels.RESTART_COUNT, "0"))
    key = (pod.metadata.key, count)
    fails = count < int(notes.get(FAILS, "0"))
    return PodBehavior(
        start_s=world.chance.between(0.1, 3, "start", *key),
        run_s=world.chance.between(2, float(notes.get(RUNS, "20")), "run", *key),
        exit_code=int(notes.get(CODE, "1")) if fails else 0,
        stop_s=world.chance.between(0, 8, "stop", *key),
    )
