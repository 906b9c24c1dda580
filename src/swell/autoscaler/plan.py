"""One decision over given objects, of which nothing is written: `swell plan autoscale`.

Objects go in, an answer comes out. Rules about time play no part, because a file has no time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from swell.api.aitrainingjob import AITrainingJob
from swell.api.core import Namespace, Node
from swell.api.native_groups import NativeGroup
from swell.api.pod import Pod
from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup, Queue
from swell.api.topology import HyperNode
from swell.api.trainingjob import TrainingJob
from swell.autoscaler.cluster_resource import AutoscalerSnapshot, ClusterResource, Usage
from swell.autoscaler.damping import DampingInput, damp
from swell.autoscaler.job_views import AnyJob
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.needs import GPU_RESOURCES, NeedsReader
from swell.autoscaler.policies import DEFAULT, POLICIES
from swell.autoscaler.policies.interface import Parameters, RoleId, RoleTarget, RoleTargets
from swell.scheduler.config import DEFAULT as SCHEDULER_DEFAULT
from swell.scheduler.config import Config

GPU = "gpu"


@dataclass(slots=True)
class AutoscalerObjects:
    """The objects of the kinds that sizes depend on."""

    nodes: list[Node] = field(default_factory=list)
    pods: list[Pod] = field(default_factory=list)
    groups: list[PodGroup] = field(default_factory=list)
    native_groups: list[NativeGroup] = field(default_factory=list)
    queues: list[Queue] = field(default_factory=list)
    priority_classes: list[PriorityClass] = field(default_factory=list)
    namespaces: list[Namespace] = field(default_factory=list)
    hyper_nodes: list[HyperNode] = field(default_factory=list)
    training_jobs: list[AITrainingJob] = field(default_factory=list)
    trainer_jobs: list[TrainingJob] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AutoscalerPlan:
    """The targets of all roles considered, and the cluster they were decided for."""

    targets: RoleTargets
    cluster: ClusterResource

    def by_job(self) -> dict[str, dict[str, RoleTarget]]:
        """Returns the targets by job and role, both sorted by name."""
        jobs: dict[str, dict[str, RoleTarget]] = {}
        for id_, target in sorted(self.targets.items(), key=_name):
            jobs.setdefault(str(id_.job), {})[id_.role] = target
        return jobs

    def usage(self) -> dict[str, Usage]:
        """Returns usage by resource; the GPUs of all vendors together have the name `gpu`."""
        usage = {**self.cluster.usage, GPU: self.cluster.gpu}
        return dict(sorted(usage.items()))


def inquiry_resource(
    objects: AutoscalerObjects,
    gpu_resources: Sequence[str] = GPU_RESOURCES,
    scheduler: Config = SCHEDULER_DEFAULT,
) -> AutoscalerSnapshot:
    """Returns the resources of the cluster that these objects make up, and its live jobs."""
    return ledger_of(objects, gpu_resources, scheduler).snapshot()


def ledger_of(
    objects: AutoscalerObjects,
    gpu_resources: Sequence[str] = GPU_RESOURCES,
    scheduler: Config = SCHEDULER_DEFAULT,
) -> Ledger:
    """Returns a ledger of these objects, for decisions about several variants of them."""
    ledger = Ledger(NeedsReader(gpu_resources), scheduler)
    for namespace in objects.namespaces:
        ledger.put_namespace(namespace)
    for priority_class in objects.priority_classes:
        ledger.put_priority_class(priority_class)
    for queue in objects.queues:
        ledger.put_queue(queue)
    for node in objects.nodes:
        ledger.put_node(node)
    for hyper_node in objects.hyper_nodes:
        ledger.put_hyper_node(hyper_node.metadata.name, hyper_node)
    for group in objects.groups:
        ledger.put_group(group)
    for native in objects.native_groups:
        ledger.put_native_group(native.metadata.key, native)
    jobs: list[AnyJob] = [*objects.training_jobs, *objects.trainer_jobs]
    for job in jobs:
        ledger.put_job(job)
    for pod in objects.pods:
        ledger.put_pod(pod)
    return ledger


def plan_autoscale(
    objects: AutoscalerObjects,
    parameters: Parameters,
    policy: str = DEFAULT,
    gpu_resources: Sequence[str] = GPU_RESOURCES,
    scheduler: Config = SCHEDULER_DEFAULT,
) -> AutoscalerPlan:
    """Decide the sizes of all roles once, as the running autoscaler would without its cooldowns."""
    return decide_sizes(inquiry_resource(objects, gpu_resources, scheduler), parameters, policy)


def decide_sizes(
    snapshot: AutoscalerSnapshot, parameters: Parameters, policy: str
) -> AutoscalerPlan:
    """Decide the sizes of all roles in a cluster that has been summed up."""
    wanted = POLICIES[policy](snapshot.jobs, snapshot.cluster, parameters)
    # Without a time: cooldowns do not count, but unfinished resizes and reserved room do.
    seen = DampingInput(waiting=snapshot.waiting_groups)
    return AutoscalerPlan(damp(wanted, snapshot.jobs, seen), snapshot.cluster)


def answer(plan: AutoscalerPlan) -> dict[str, object]:
    """Returns the plan as JSON data, with the keys of every map sorted."""
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


def _name(item: tuple[RoleId, RoleTarget]) -> tuple[str, str]:
    return str(item[0].job), item[0].role


def _sentences(roles: dict[str, RoleTarget]) -> Iterator[str]:
    for role, target in roles.items():
        size = f"{target.current} to {target.target}" if target.delta else f"{target.target}"
        yield f"{role} {size}: {target.message}"
