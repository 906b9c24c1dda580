"""The autoscaler's decisions on random clusters: against a plain reference, and by their laws."""

from __future__ import annotations

import os
from functools import cache
from random import Random

import pytest
from msgspec.structs import replace

from swell.autoscaler.cluster_resource import AutoscalerSnapshot, ClusterResource
from swell.autoscaler.job_views import id_of
from swell.autoscaler.ledger import Ledger
from swell.autoscaler.needs import Needs, NeedsReader
from swell.autoscaler.plan import AutoscalerObjects, inquiry_resource
from swell.autoscaler.policies.interface import SizeReason
from tests.autoscaler_cases import a_pod, a_trainer, decide, idle_on, random_objects
from tests.property import autoscaler_reference as reference

# A sample in every run of the tests; `make sim` takes 2,000.
N_CLUSTERS = int(os.environ.get("AUTOSCALER_CLUSTERS", "300"))
N_STORIES = max(N_CLUSTERS // 10, 20)
GPU = "gpu"
MAX_LOADS = ("0.97", "0.8", "1", "0.333")


@cache
def cluster_of(seed: int) -> AutoscalerObjects:
    return random_objects(seed)


@cache
def snapshot_of(seed: int) -> AutoscalerSnapshot:
    return inquiry_resource(cluster_of(seed))


def shown(cluster: ClusterResource) -> object:
    idle = {node.name: idle_on(cluster, node.name) for node in cluster.nodes}
    used = {name: one for name, one in cluster.usage.items() if one.requested or one.total}
    return [node.name for node in cluster.nodes], used, cluster.gpu, idle


def states(snapshot: AutoscalerSnapshot) -> object:
    return [
        (str(job.view.id), job.is_pending, job.is_hopeless, [len(r.pods) for r in job.roles])
        for job in snapshot.jobs
    ]


def test_resources_equal_the_reference() -> None:
    """Totals, requests, limits and idle amounts are what the rules say, index by index."""
    for seed in range(N_CLUSTERS):
        found = snapshot_of(seed)
        expected, jobs = reference.resources_of(cluster_of(seed))
        cluster = found.cluster

        assert [node.name for node in cluster.nodes] == sorted(expected.nodes), seed
        for name, usage in cluster.usage.items():
            wanted = (
                expected.total.get(name, 0),
                expected.requested.get(name, 0),
                expected.limited.get(name, 0),
            )
            assert (usage.total, usage.requested, usage.limited) == wanted, (seed, name)
        for node, idle in expected.idle.items():
            left = idle_on(cluster, node)
            assert {name: idle.get(name, 0) for name in left} == left, (seed, node)
        hopeless = {str(job.view.id) for job in found.jobs if job.is_hopeless}
        assert hopeless == {job.name for job in jobs if job.hopeless}, seed


def test_plan_equals_the_reference() -> None:
    """The fast plan and the obvious one give every role the same target while no job waits.

    Sizes that shrink for a waiting job are checked against the scheduler: `test_autoscaler_limits`.
    """
    n_changed = 0
    for seed in range(N_CLUSTERS):
        max_load = MAX_LOADS[seed % len(MAX_LOADS)]
        if any(job.is_pending for job in snapshot_of(seed).jobs):
            continue
        targets = decide(snapshot_of(seed), max_load)
        found = {(str(id_.job), id_.role): one.target for id_, one in targets.items()}
        n_changed += any(one.delta for one in targets.values())

        assert found == reference.plan(*reference.resources_of(cluster_of(seed)), max_load), seed
    assert n_changed > N_CLUSTERS // 6


def test_plan_does_not_depend_on_the_order_of_objects() -> None:
    """The same objects in any order give the same targets."""
    for seed in range(N_STORIES):
        objects = cluster_of(seed)
        shuffled = random_objects(seed)
        for kind in (
            shuffled.nodes,
            shuffled.pods,
            shuffled.groups,
            shuffled.training_jobs,
            shuffled.trainer_jobs,
        ):
            Random(seed).shuffle(kind)

        assert decide(inquiry_resource(objects)) == decide(inquiry_resource(shuffled))


def test_targets_of_candidates_are_within_bounds() -> None:
    """A candidate ends within its minimum and maximum; others keep what they had."""
    for seed in range(N_CLUSTERS):
        snapshot = snapshot_of(seed)
        roles = {
            (job.view.id, state.view.name): (job, state.view)
            for job in snapshot.jobs
            for state in job.roles
        }
        for id_, one in decide(snapshot).items():
            job, role = roles[id_]
            if one.reason in {SizeReason.HOPELESS, SizeReason.NO_CANDIDATE}:
                assert one.target == role.target
                assert not job.view.is_running
            else:
                assert role.minimum <= one.target <= role.maximum


def test_growing_stays_below_the_thresholds() -> None:
    """Who starts below the thresholds, with every role within its bounds, ends below them: a share
    of cpu and memory, and all GPUs."""
    n_tried = 0
    for seed in range(N_CLUSTERS):
        snapshot = snapshot_of(seed)
        targets = decide(snapshot, "0.8")
        views = {(j.view.id, r.view.name): r.view for j in snapshot.jobs for r in j.roles}
        cluster = snapshot.cluster
        used = {name: cluster.of(name).requested for name in ("cpu", "memory")}
        most = {name: cluster.of(name).total * 8 // 10 for name in used}
        used[GPU], most[GPU] = cluster.gpu.limited, cluster.gpu.total
        inside = all(views[i].minimum <= views[i].target for i in targets)
        if any(used[name] > most[name] for name in used) or not inside:
            continue
        n_tried += 1
        for name, before in used.items():
            more = sum(_amount(views[i].needs, name) * t.delta for i, t in targets.items())
            assert before + more <= most[name], (seed, name)
    assert n_tried > N_CLUSTERS // 20


def _amount(needs: Needs, name: str) -> int:
    return needs.gpus if name == GPU else needs.requests.get(name, 0)


def test_growing_is_done_once_pods_land_where_it_was_assumed() -> None:
    """A plan that only grows asks for no more when its pods are where it put them."""
    n_grown = 0
    for seed in range(N_CLUSTERS):
        objects = cluster_of(seed)
        cluster, jobs = reference.resources_of(objects)
        before = {(r.job, r.role): r.target for j in jobs for r in j.roles}
        sizes = reference.plan(cluster, jobs, "0.97")
        if not all(sizes[role] >= before[role] for role in sizes) or cluster.n_misplaced:
            continue
        if any(job.pending for job in jobs):
            continue
        after = _landed(objects, sizes, cluster.placed)
        targets = decide(inquiry_resource(after))
        n_grown += any(sizes[role] > before[role] for role in sizes)

        assert {(str(i.job), i.role): t.target for i, t in targets.items()} == sizes, seed
    assert n_grown > N_CLUSTERS // 80


def _landed(
    objects: AutoscalerObjects,
    sizes: dict[tuple[str, str], int],
    placed: dict[tuple[str, str], list[str]],
) -> AutoscalerObjects:
    """The same cluster with the new targets, and the new replicas' pods on their nodes."""
    jobs = []
    pods = list(objects.pods)
    for job in objects.training_jobs:
        name = f"{job.metadata.namespace}/{job.metadata.name}"
        targets = dict(job.status.target_replicas)
        for role, spec in job.spec.replica_specs.items():
            former = targets[role]
            targets[role] = sizes.get((name, role), former)
            container = spec.template["spec"]["containers"][0]["resources"]["requests"]
            amounts = {"gpu" if "gpu" in key else key: n for key, n in container.items()}
            nodes = placed.get((name, role), [])
            fresh = [
                a_pod(job.metadata.name, role, former + at, node, **amounts)
                for at, node in enumerate(nodes)
            ]
            names = {pod.metadata.name for pod in fresh}
            pods = [pod for pod in pods if pod.metadata.name not in names] + fresh
        jobs.append(replace(job, status=replace(job.status, target_replicas=targets)))
    trainers = []
    for trainer in objects.trainer_jobs:
        key = (f"TrainingJob/{trainer.metadata.namespace}/{trainer.metadata.name}", "trainer")
        former = trainer.status.trainer_target or 0
        status = replace(trainer.status, trainer_target=sizes.get(key, former))
        trainers.append(replace(trainer, status=status))
        cpu = trainer.spec.trainer.resources.requests["cpu"]
        fresh = [
            a_trainer(trainer.metadata.name, former + at, node, cpu=cpu)
            for at, node in enumerate(placed.get(key, []))
        ]
        names = {pod.metadata.name for pod in fresh}
        pods = [pod for pod in pods if pod.metadata.name not in names] + fresh
    return AutoscalerObjects(
        nodes=objects.nodes,
        pods=pods,
        groups=objects.groups,
        training_jobs=jobs,
        trainer_jobs=trainers,
    )


@pytest.mark.parametrize("seed", range(N_STORIES))
def test_ledger_equals_resources_from_scratch(seed: int) -> None:
    """After any sequence of changes the kept resources are those of the objects that are left."""
    chance = Random(seed)
    ledger = Ledger(NeedsReader())
    held = AutoscalerObjects()
    for step in range(40):
        _change(chance, ledger, held, random_objects(chance.randint(0, 40)))
        if step % 3:
            continue
        kept, fresh = ledger.snapshot(), inquiry_resource(held)
        assert shown(kept.cluster) == shown(fresh.cluster), step
        assert states(kept) == states(fresh), step
        assert decide(kept) == decide(fresh), step
        assert kept.waiting_groups == fresh.waiting_groups, step


def _change(
    chance: Random, ledger: Ledger, held: AutoscalerObjects, other: AutoscalerObjects
) -> None:
    """One object appears, changes into another state, or goes."""
    kinds = ["nodes", "pods", "pods", "pods", "groups", "training_jobs", "trainer_jobs"]
    kind = chance.choice(kinds)
    things = getattr(held, kind)
    if things and chance.random() < 0.3:
        gone = things.pop(chance.randrange(len(things)))
        _drop(ledger, kind, gone)
        return
    arriving = getattr(other, kind)
    if not arriving:
        return
    new = chance.choice(arriving)
    things[:] = [one for one in things if one.metadata.key != new.metadata.key]
    things.append(new)
    _put(ledger, kind, new)


def _put(ledger: Ledger, kind: str, thing: object) -> None:
    put = {
        "nodes": ledger.put_node,
        "pods": ledger.put_pod,
        "groups": ledger.put_group,
        "training_jobs": ledger.put_job,
        "trainer_jobs": ledger.put_job,
    }[kind]
    put(thing)  # type: ignore[operator]


def _drop(ledger: Ledger, kind: str, thing: object) -> None:
    meta = thing.metadata  # type: ignore[attr-defined]
    if kind == "nodes":
        ledger.drop_node(meta.name)
    elif kind == "pods":
        ledger.drop_pod(meta.key)
    elif kind == "groups":
        ledger.drop_group(meta.key)
    else:
        ledger.drop_job(id_of(thing))  # type: ignore[arg-type]
