"""Raises meet every limit of the scheduler: against a plain reference, and against the scheduler.

Queues, pod slots, host ports and anti-affinity on random clusters.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable
from random import Random
from typing import Any

from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJob
from swell.api.meta import ObjectMeta
from swell.api.scheduling import PodGroup, PodGroupPhase, PodGroupSpec, PodGroupStatus
from swell.autoscaler.job_views import id_of
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.needs import NeedsReader
from swell.autoscaler.plan import AutoscalerObjects, inquiry_resource
from swell.autoscaler.policies.interface import RoleTarget, RoleTargets, SizeReason
from swell.scheduler.plan import SchedulerObjects, plan_schedule
from tests.autoscaler_cases import a_queue, decide
from tests.property import autoscaler_reference as reference
from tests.property.autoscaler_limits import limited_objects, replica, role_of, waiting_objects

# A sample in every run of the tests; `make sim` takes 2,000.
N_CLUSTERS = int(os.environ.get("AUTOSCALER_CLUSTERS", "300"))


def targets_of(objects: AutoscalerObjects) -> RoleTargets:
    return decide(inquiry_resource(objects), "1")


def shown(targets: RoleTargets) -> dict[tuple[str, str], int]:
    return {(str(id_.job), id_.role): one.target for id_, one in targets.items()}


def test_raises_equal_the_reference() -> None:
    """With queues, pod slots, ports and anti-affinity the plan is still the obvious one."""
    n_raised = n_refused = 0
    for seed in range(N_CLUSTERS):
        objects = limited_objects(seed)
        targets = targets_of(objects)
        n_raised += any(one.delta > 0 for one in targets.values())
        n_refused += any(one.reason is SizeReason.QUEUE_REFUSES for one in targets.values())

        assert shown(targets) == reference.plan(*reference.resources_of(objects), "1"), seed
    assert n_raised > N_CLUSTERS // 4
    assert n_refused > N_CLUSTERS // 10


def test_no_raise_is_refused_by_a_queue_of_the_scheduler() -> None:
    """The scheduler, given the pods of all raises, refuses none of them for its queue."""
    n_raised = 0
    for seed in range(N_CLUSTERS):
        objects = limited_objects(seed)
        targets = targets_of(objects)
        raised = {id_.job.name: one for id_, one in targets.items() if one.delta > 0}
        n_raised += bool(raised)
        plan = plan_schedule(scheduled(objects, targets))
        for name in raised:
            status = plan.groups[f"ns/{name}"]
            reason = status.refusal.reason.value if status.refusal is not None else ""

            assert not reason.startswith("Queue"), (seed, name, status)
    assert n_raised > N_CLUSTERS // 4


def test_whoever_shrinks_for_a_gang_lets_it_start() -> None:
    """Where roles shrink for a waiting job, the scheduler then starts that job as a whole."""
    n_made = 0
    for seed in range(N_CLUSTERS):
        objects = waiting_objects(seed)
        targets = targets_of(objects)
        groups = {one.for_group for one in targets.values() if one.for_group}
        if not groups:
            continue
        n_made += 1
        plan = plan_schedule(scheduled(objects, targets, with_raises=False))
        for group in groups:
            size = next(
                job.spec.replica_specs["trainer"].minimum
                for job in objects.training_jobs
                if f"ns/{job.metadata.name}" == group
            )
            bound = [task for task in plan.binds if task.key.startswith(f"{group}-trainer-")]

            assert len(bound) == size, (seed, group, len(bound), size)
    assert n_made > N_CLUSTERS // 20


def scheduled(
    objects: AutoscalerObjects, targets: RoleTargets, *, with_raises: bool = True
) -> SchedulerObjects:
    """The cluster once the operator has done what the targets say, with all old pods gone."""
    found = SchedulerObjects(
        nodes=objects.nodes, queues=[a_queue("root"), a_queue("default"), *objects.queues]
    )
    sizes = {id_.job.name: one.target for id_, one in targets.items()}
    if objects.queues:
        names = {queue.metadata.name for queue in objects.queues}
        found.queues = [q for q in found.queues[:2] if q.metadata.name not in names]
        found.queues += objects.queues
    for job in objects.training_jobs:
        name, spec = job.metadata.name, job.spec.replica_specs["trainer"]
        is_waiting = job.status.phase.value == "Pending"
        held = job.status.target_replicas["trainer"]
        size = sizes.get(name, held)
        size = size if with_raises or is_waiting else min(size, held)
        own = {p.metadata.name: p for p in objects.pods if p.metadata.name.startswith(f"{name}-t")}
        for index in range(size):
            pod = own.get(f"{name}-trainer-{index}")
            found.pods.append(pod or replica(name, role_of(job), index, group=True))
        targeted = replace(job.status, target_replicas={"trainer": size})
        found.training_jobs.append(replace(job, status=targeted))
        phase = PodGroupPhase.INQUEUE if is_waiting else PodGroupPhase.RUNNING
        found.groups.append(
            PodGroup(
                metadata=ObjectMeta(name=name, namespace="ns"),
                spec=PodGroupSpec(min_member=spec.gang_minimum, queue=job.spec.queue),
                status=PodGroupStatus(phase=phase),
            )
        )
    return found


def test_nothing_that_shrank_for_a_gang_can_be_given_back() -> None:
    """With one replica more of any role that shrank, some waiting job does not start.

    At a load of 1 the rounds free no more than amounts ask for.
    """
    n_tried = 0
    for seed in range(N_CLUSTERS // 3):
        objects = waiting_objects(seed)
        targets = targets_of(objects)
        if len(waiting_jobs(objects)) > 1:
            continue
        shrunk = {id_: one for id_, one in targets.items() if one.for_group}
        for id_, one in shrunk.items():
            n_tried += 1
            more = {**targets, id_: replace_target(one, one.target + 1)}
            plan = plan_schedule(scheduled(objects, more, with_raises=False))
            bound = [task for task in plan.binds if task.key.startswith(f"{one.for_group}-")]
            (gang,) = waiting_jobs(objects)

            assert len(bound) < gang.spec.replica_specs["trainer"].minimum, (seed, id_)
    assert n_tried > 0


def waiting_jobs(objects: AutoscalerObjects) -> list[AITrainingJob]:
    return [job for job in objects.training_jobs if job.status.phase.value == "Pending"]


def replace_target(one: RoleTarget, target: int) -> RoleTarget:
    return dataclasses.replace(one, target=target)


def test_kept_mirror_decides_as_one_made_from_scratch() -> None:
    """After objects came, changed and went one by one, the decision is that of what is left."""
    ledger = Ledger(NeedsReader())
    held = AutoscalerObjects()
    chance = Random(3)
    for step in range(120):
        other = waiting_objects(chance.randint(0, 30))
        change(chance, ledger, held, other)
        if step % 4 == 0:
            kept, fresh = decide(ledger.snapshot(), "1"), decide(inquiry_resource(held), "1")
            assert kept == fresh, step


def change(
    chance: Random, ledger: Ledger, held: AutoscalerObjects, other: AutoscalerObjects
) -> None:
    """One object appears, changes into another state, or goes."""
    kind = chance.choice(["nodes", "pods", "pods", "pods", "queues", "training_jobs"])
    things, arriving = getattr(held, kind), getattr(other, kind)
    if things and chance.random() < 0.3:
        gone = things.pop(chance.randrange(len(things)))
        meta = gone.metadata
        drops: dict[str, Callable[[], None]] = {
            "nodes": lambda: ledger.drop_node(meta.name),
            "pods": lambda: ledger.drop_pod(meta.key),
            "queues": lambda: ledger.drop_queue(meta.name),
            "training_jobs": lambda: ledger.drop_job(id_of(gone)),
        }
        drops[kind]()
    elif arriving:
        new = chance.choice(arriving)
        things[:] = [one for one in things if one.metadata.key != new.metadata.key]
        things.append(new)
        puts: dict[str, Callable[[Any], None]] = {
            "nodes": ledger.put_node,
            "pods": ledger.put_pod,
            "queues": ledger.put_queue,
            "training_jobs": ledger.put_job,
        }
        puts[kind](new)
