"""One decision over given objects, nothing written: `swell plan autoscale`.

Objects in, answer out. What depends on the present time plays no part, since a file has none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swell.autoscaler.damping import Calm, calmed
from swell.autoscaler.inquiry import Objects, inquiry_resource
from swell.autoscaler.needs import GPU_RESOURCES
from swell.autoscaler.policies import DEFAULT, POLICIES
from swell.autoscaler.policies.interface import Parameters, RoleId, Target, Targets
from swell.autoscaler.resource import ClusterResource, Usage

GPU = "gpu"


@dataclass(frozen=True, slots=True)
class Plan:
    targets: Targets
    cluster: ClusterResource

    def by_job(self) -> dict[str, dict[str, Target]]:
        """Targets by job and role, both in order of their names."""
        jobs: dict[str, dict[str, Target]] = {}
        for id_, target in sorted(self.targets.items(), key=_name):
            jobs.setdefault(str(id_.job), {})[id_.role] = target
        return jobs

    def usage(self) -> dict[str, Usage]:
        """Usage by resource; GPUs of all makes together come under a name of their own."""
        usage = {**self.cluster.usage, GPU: self.cluster.gpu}
        return dict(sorted(usage.items()))


def plan_autoscale(
    objects: Objects,
    parameters: Parameters,
    policy: str = DEFAULT,
    gpu_resources: Sequence[str] = GPU_RESOURCES,
) -> Plan:
    snapshot = inquiry_resource(objects, gpu_resources)
    wanted = POLICIES[policy](snapshot.jobs, snapshot.cluster, parameters)
    return Plan(
        calmed(wanted, snapshot.jobs, Calm(waiting=snapshot.waiting_groups)), snapshot.cluster
    )


def _name(item: tuple[RoleId, Target]) -> tuple[str, str]:
    return str(item[0].job), item[0].role


def answer(plan: Plan) -> dict[str, object]:
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


def _sentences(roles: dict[str, Target]) -> Iterator[str]:
    for role, target in roles.items():
        size = f"{target.current} to {target.target}" if target.delta else f"{target.target}"
        yield f"{role} {size}: {target.message}"
