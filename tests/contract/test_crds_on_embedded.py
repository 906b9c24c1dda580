"""The embedded API server judges manifests of our kinds as a real one does."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

import pytest

from swell.api.kinds import AI_TRAINING_JOBS, POD_GROUPS, QUEUES, TRAINING_JOBS
from swell.api.meta import Body, Key
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, WriteOptions, merge_patch
from swell.runtime.errors import ClusterError
from tests.contract.manifest_cases import (
    CHANGES,
    LATER,
    POD_NAMES,
    REFUSED,
    STARTED,
    WORKER,
    kind_of,
)
from tests.property.broken_manifests import MANIFESTS, Broken, manifest, with_field

STRICT = WriteOptions(dry_run=True, field_validation="Strict")
RESOURCES = {
    resource.kind: resource
    for resource in (
        AI_TRAINING_JOBS.untyped(),
        TRAINING_JOBS.untyped(),
        POD_GROUPS.untyped(),
        QUEUES.untyped(),
    )
}
JOBS = RESOURCES["AITrainingJob"]
JOB_KEY = Key("default", "full")


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    """An embedded API server in memory; our CRDs are there from the start."""
    storage = Storage(time.time)
    return InProcessCluster(new_api_server(storage, SystemClock(), random.Random(1)), "test")


@pytest.fixture(scope="module")
def started_job(cluster: Cluster) -> Body:
    """A job whose phase has left the empty one."""

    async def start() -> Body:
        await create(cluster, "AITrainingJob", manifest("aitrainingjob-full"), WriteOptions())
        patch = merge_patch({"status": STARTED})
        return await cluster.patch(JOBS.status, JOB_KEY, patch)

    return asyncio.run(start())


async def create(cluster: Cluster, kind: str, body: Body, options: WriteOptions) -> Body:
    resource = RESOURCES[kind]
    if body.get("apiVersion") == f"{resource.group}/v1alpha1":
        resource = replace(resource, version="v1alpha1")
    metadata = body.get("metadata")
    if isinstance(metadata, dict) and resource.namespaced:
        body = {**body, "metadata": {**metadata, "namespace": "default"}}
    return await cluster.create(resource, body, options)


def is_refused(call: Callable[[], Awaitable[Body]]) -> bool:
    async def run() -> bool:
        try:
            await call()
        except ClusterError:
            return True
        return False

    return asyncio.run(run())


@pytest.mark.parametrize("path", sorted(MANIFESTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_valid_manifest_is_accepted(cluster: Cluster, path: Path) -> None:
    """What we call valid is valid for the server, with no field unknown to it."""
    body = manifest(path.stem)

    assert not is_refused(lambda: create(cluster, body["kind"], body, STRICT))


@pytest.mark.parametrize(
    "broken",
    # The port takes objects with metadata only; HTTP is where others are turned away.
    [one for one in REFUSED if isinstance(one.body.get("metadata", {}), dict)],
    ids=lambda broken: broken.name,
)
def test_broken_manifest_is_refused(cluster: Cluster, broken: Broken) -> None:
    """What our schemas and rules say is wrong, the server refuses too."""
    assert is_refused(lambda: create(cluster, kind_of(broken), broken.body, STRICT))


@pytest.mark.parametrize(("n_letters", "n_workers", "fits"), POD_NAMES)
def test_names_of_pods_must_fit(
    cluster: Cluster, n_letters: int, n_workers: int, fits: bool
) -> None:
    """A job may be as large as leaves room for the last pod's index in its name."""
    named = with_field(manifest("aitrainingjob-full"), "metadata.name", "a" * n_letters)
    body = with_field(named, f"{WORKER}.maxReplicas", n_workers)

    assert is_refused(lambda: create(cluster, "AITrainingJob", body, STRICT)) is not fits


@pytest.mark.parametrize(("field", "value", "allowed"), CHANGES, ids=[path for path, *_ in CHANGES])
def test_change_of_a_started_job(
    cluster: Cluster, started_job: Body, field: str, value: object, allowed: bool
) -> None:
    """Only what the rules name may change once a job is under way."""
    changed = with_field(started_job, field, value)

    assert is_refused(lambda: cluster.update(JOBS, changed, STRICT)) is not allowed


def test_change_cannot_hide_behind_a_status(cluster: Cluster, started_job: Body) -> None:
    """A status that comes along with a change is not taken for a write of the status."""
    later = with_field(started_job, "status.lastReconcileTime", LATER)
    changed = with_field(later, "spec.queue", "other")

    assert is_refused(lambda: cluster.update(JOBS, changed, STRICT))
    assert is_refused(lambda: cluster.patch(JOBS, JOB_KEY, merge_patch(changed), STRICT))


def test_size_of_a_manual_role_may_change(cluster: Cluster, started_job: Body) -> None:
    """A change of a role to Manual may also change its size."""
    manual = with_field(started_job, f"{WORKER}.edlPolicy", "Manual")
    resized = with_field(manual, f"{WORKER}.replicas", 6)

    assert not is_refused(lambda: cluster.update(JOBS, resized, STRICT))


def test_status_keeps_every_field(cluster: Cluster, started_job: Body) -> None:
    """Nothing that we write into a status is pruned."""
    status = json.loads((MANIFESTS.parent / "aitrainingjob-status.json").read_text())
    patch = merge_patch({"status": status})
    written = asyncio.run(cluster.patch(JOBS.status, JOB_KEY, patch, STRICT))

    assert started_job["metadata"]["name"] == JOB_KEY.name
    assert written["status"] == status


def test_scale_subresource_sets_the_size_of_a_role(cluster: Cluster) -> None:
    """As kubectl scale does: also where the field was not there; bounds hold, in words."""
    body = with_field(manifest("aitrainingjob-full"), f"{WORKER}.edlPolicy", "Manual")
    body = with_field(body, "metadata.name", "scaled")
    key, scale = Key("default", "scaled"), replace(JOBS, subresource="scale")

    async def run() -> tuple[Body, Body, str]:
        await create(cluster, "AITrainingJob", body, WriteOptions())
        await cluster.patch(scale, key, merge_patch({"spec": {"replicas": 6}}))
        status = {"scale": {"replicas": 5, "selector": "a=b"}}
        job = await cluster.patch(JOBS.status, key, merge_patch({"status": status}))
        answer = await cluster.get(scale, key)
        try:
            await cluster.patch(scale, key, merge_patch({"spec": {"replicas": 99}}))
        except ClusterError as error:
            return job, answer, str(error)
        return job, answer, ""

    job, answer, refusal = asyncio.run(run())
    assert job["spec"]["scale"] == {"replicas": 6}
    assert answer["spec"] == {"replicas": 6}
    assert answer["status"] == {"replicas": 5, "selector": "a=b"}
    assert "within minReplicas and maxReplicas of its role" in refusal


def test_scale_subresource_sets_the_number_of_trainers(cluster: Cluster) -> None:
    """The same of a TrainingJob, with the bounds in the refusal."""
    body = with_field(manifest("trainingjob-full"), "metadata.name", "scaled")
    key, kind = Key("default", "scaled"), TRAINING_JOBS.untyped()

    async def run() -> tuple[Body, str]:
        await create(cluster, "TrainingJob", body, WriteOptions())
        await cluster.patch(kind.sub("scale", dict), key, merge_patch({"spec": {"replicas": 3}}))
        try:
            await cluster.patch(
                kind.sub("scale", dict), key, merge_patch({"spec": {"replicas": 99}})
            )
        except ClusterError as error:
            return await cluster.get(kind, key), str(error)
        return {}, ""

    job, refusal = asyncio.run(run())
    assert job["spec"]["scale"] == {"replicas": 3}
    assert "within min-instance and max-instance of the trainer" in refusal
