"""One decision over given objects, nothing written: `swell plan autoscale`.

Objects in, answer out. What depends on the present time plays no part, since a file has none.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.scheduling import PodGroup
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.cluster_resource import AutoscalerSnapshot, ClusterResource, Usage
from swell.autoscaler.damping import DampingInput, damped
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.needs import GPU_RESOURCES, NeedsReader
from swell.autoscaler.policies import DEFAULT, POLICIES
from swell.autoscaler.policies.interface import Parameters, RoleId, RoleTarget, RoleTargets

GPU = "gpu"


@dataclass(frozen=True, slots=True)
class AutoscalerPlan:
    targets: RoleTargets
    cluster: ClusterResource

    def by_job(self) -> dict[str, dict[str, RoleTarget]]:
        """Targets by job and role, both in order of their names."""
        jobs: dict[str, dict[str, RoleTarget]] = {}
        for id_, target in sorted(self.targets.items(), key=_name):
            jobs.setdefault(str(id_.job), {})[id_.role] = target
        return jobs

    def usage(self) -> dict[str, Usage]:
        """Usage by resource; GPUs of all makes together come under a name of their own."""
        usage = {**self.cluster.usage, GPU: self.cluster.gpu}
        return dict(sorted(usage.items()))


def plan_autoscale(
    objects: AutoscalerObjects,
    parameters: Parameters,
    policy: str = DEFAULT,
    gpu_resources: Sequence[str] = GPU_RESOURCES,
) -> AutoscalerPlan:
    snapshot = inquiry_resource(objects, gpu_resources)
    wanted = POLICIES[policy](snapshot.jobs, snapshot.cluster, parameters)
    return AutoscalerPlan(
        damped(wanted, snapshot.jobs, DampingInput(waiting=snapshot.waiting_groups)),
        snapshot.cluster,
    )


def _name(item: tuple[RoleId, RoleTarget]) -> tuple[str, str]:
    return str(item[0].job), item[0].role


def answer(plan: AutoscalerPlan) -> dict[str, object]:
    """The plan as JSON data, every map in order of its keys."""
    jobs = plan.by_job()
    changed = {
        job: {role: target.delta for role, target in roles.items() if target.delta}
        for job, roles in jobs.items()
    }
    return {
        "targets": {
            job: {role: target.target for role, target in roles.items()}
            for job, roles in jobs.items()
        },
        "deltas": {job: roles for job, roles in changed.items() if roles},
        "reasons": {job: "; ".join(_sentences(roles)) for job, roles in jobs.items()},
        "cluster": {
            "nodes": plan.cluster.node_count,
            "resources": {
                name: {
                    "total": one.total,
                    "requested": one.requested,
                    "limited": one.limited,
                }
                for name, one in plan.usage().items()
            },
        },
    }


def _sentences(roles: dict[str, RoleTarget]) -> Iterator[str]:
    for role, target in roles.items():
        size = f"{target.current} to {target.target}" if target.delta else f"{target.target}"
        yield f"{role} {size}: {target.message}"


@dataclass(slots=True)
class AutoscalerObjects:
    """What a decision is made of; other kinds play no part."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    training_jobs: list[AITrainingJob] = field(default_factory=list)
    trainer_jobs: list[TrainingJob] = field(default_factory=list)


def inquiry_resource(
    objects: AutoscalerObjects, gpu_resources: Sequence[str] = GPU_RESOURCES
) -> AutoscalerSnapshot:
    """The resources of the cluster these objects make up, and the state of its live jobs."""
    ledger = Ledger(NeedsReader(gpu_resources))
    _fill(ledger, objects)
    return ledger.snapshot()


def _fill(ledger: Ledger, objects: AutoscalerObjects) -> None:
    for node in objects.nodes:
        ledger.put_node(node)
    for group in objects.groups:
        ledger.put_group(group)
    jobs: Iterable[AITrainingJob | TrainingJob] = (*objects.training_jobs, *objects.trainer_jobs)
    for job in jobs:
        ledger.put_job(job)
    for pod in objects.pods:
        ledger.put_pod(pod)
