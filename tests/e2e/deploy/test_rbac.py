"""The operator on a real control plane, as the ServiceAccount of the deploy files and no more."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

import pytest
import yaml

from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    JOBS,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    REPLICA_SETS,
    SERVICES,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.assembly import HOLLOW_CAPACITY, add_hollow_agent, node_names
from swell.node.nodes import NodeShape
from swell.operator.crds import install_crds
from swell.placement.firstfit import add_first_fit
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import Cluster, Deletion
from swell.runtime.errors import AlreadyExistsError
from swell.runtime.manager import Manager
from tests.e2e.deploy.rights import AUDIT_POLICY, Right, granted, used
from tests.e2e.operator.happenings import (
    changes,
    deletes_job,
    ends,
    loses_node,
    scales,
    somebody_deletes,
)
from tests.e2e.operator.jobs import job, manifest, pods
from tests.e2e.operator.sight import Sight
from tests.e2e.operator.sightings import (
    becomes,
    group_asks_for,
    is_told,
    nothing_is_left,
    pods_are,
    restarts,
    runs,
)
from tests.e2e.operator.story import Play, Story, story
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.kubectl import Kubectl

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy" / "operator"
NAMESPACE = "e2e"
STOP_S_MAX = 30.0
WITHIN_S = 60.0
CLOSE_S = 0.25  # for connections cut off in the middle
FLAGS = ["--gc-period=2s", "--node-lost-after=2s", "--node-fence-after=1s"]
ELASTIC: Body = {"edlPolicy": "Manual", "minReplicas": 1, "maxReplicas": 3}

# fmt: off
STORIES: tuple[Story, ...] = (
    story("grows", job({"a": pods(1, **ELASTIC)}),
          runs(), scales("a", 3), pods_are("a-0", "a-1", "a-2"),
          changes({"replicaSpecs": {"a": {"minReplicas": 2}}}), group_asks_for(2),
          scales("a", 2), pods_are("a-0", "a-1"),
          ends("a-0", "a-1"), becomes("Succeed"), deletes_job(), nothing_is_left()),
    story("fails", job({"a": pods(2, restartPolicy="Always", restartLimit=1)}),
          runs(), ends("a-0", code=1), restarts("a-0", "a-1"), somebody_deletes("a-1"),
          restarts("a-0", "a-1"), ends("a-0", code=1), becomes("Failed"), deletes_job(),
          nothing_is_left()),
    story("fails-on", job({"a": pods(1, restartPolicy="Always")}),
          runs(), ends("a-0", code=1), restarts("a-0"), ends("a-0", code=1), restarts("a-0")),
    story("loses-its-node", job({"a": pods(1)}),
          runs(), loses_node("a-0"), becomes("NodeFail"), is_told("TrainingJobNodeFail"),
          n_nodes=1),
)
# fmt: on


# Objects of somebody else, whose names are those that jobs would give to theirs.
CONTAINER: Body = {"name": "main", "image": "local"}
SELECTED: Body = {"app": "somebody"}
TEMPLATE: Body = {"metadata": {"labels": SELECTED}, "spec": {"containers": [CONTAINER]}}
TAKEN: dict[str, tuple[Resource[object], Body]] = {
    "pod-a-0": (PODS, {"spec": {"schedulerName": "nobody", "containers": [CONTAINER]}}),
    "service-a-0": (SERVICES, {"spec": {"clusterIP": "None"}}),
    "configmap-members": (CONFIG_MAPS, {}),
    "podgroup": (POD_GROUPS, {"spec": {"minMember": 1}}),
    "replicaset-pserver": (
        REPLICA_SETS,
        {"spec": {"replicas": 0, "selector": {"matchLabels": SELECTED}, "template": TEMPLATE}},
    ),
    "job-trainer": (
        JOBS,
        {
            "spec": {
                "suspend": True,
                "template": {"spec": {"restartPolicy": "Never", "containers": [CONTAINER]}},
            }
        },
    ),
}


@dataclass(frozen=True, slots=True)
class Installed:
    """A control plane with the deploy files applied."""

    plane: ControlPlane
    kubeconfig: Path  # of the operator
    audit_log: Path


@pytest.fixture(scope="module")
def installed(
    testbed_binaries: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installed]:
    home = tmp_path_factory.mktemp("rbac")
    policy, audit_log = home / "policy.yaml", home / "audit.log"
    policy.write_text(AUDIT_POLICY)
    flags = [f"--audit-policy-file={policy}", f"--audit-log-path={audit_log}"]
    with running_control_plane(api_server_flags=flags) as plane:
        kubectl = Kubectl(plane.kubeconfig, home)
        kubectl.ok("apply", "-k", str(DEPLOY))
        token = kubectl.ok("create", "token", "swell-operator", "-n", "swell-system").strip()
        config = json.loads(plane.kubeconfig.read_text())
        config["users"][0]["user"] = {"token": token}
        kubeconfig = home / "operator.kubeconfig"
        kubeconfig.write_text(json.dumps(config))
        yield Installed(plane, kubeconfig, audit_log)


@contextmanager
def operator(installed: Installed) -> Iterator[None]:
    """The process of the Deployment, on this machine."""
    [container] = _deployment()["spec"]["template"]["spec"]["containers"]
    own = [flag for flag in container["args"] if "-addr" not in flag]
    command = [sys.executable, "-m", "swell.cli.main", *container["command"][1:], *own, *FLAGS]
    env = {**os.environ, "POD_NAMESPACE": "swell-system"}
    with subprocess.Popen([*command, f"--kubeconfig={installed.kubeconfig}"], env=env) as process:
        try:
            yield
            assert process.poll() is None, "the operator ended by itself"
        finally:
            process.terminate()
            process.wait(STOP_S_MAX)


def test_operator_has_the_rights_it_needs_and_no_others(installed: Installed) -> None:
    """No request of a life of jobs is refused, and every right granted is made use of."""
    with operator(installed):
        asyncio.run(_live(installed))
    with operator(installed):
        asyncio.run(_live_on(installed))
    uses = used(installed.audit_log)
    asked = {use.right for use in uses}
    rights = granted(DEPLOY / "rbac.yaml")

    assert sorted({str(use.right) for use in uses if not use.is_allowed}) == []
    assert sorted(map(str, rights - asked)) == []


def test_rights_hold_no_danger() -> None:
    """No wildcard, no secrets, nothing that would let the operator give itself more rights."""
    rights = granted(DEPLOY / "rbac.yaml")

    assert not [r for r in rights if "*" in {r.verb, r.group, r.resource}]
    assert not [r for r in rights if r.verb in {"escalate", "bind", "impersonate"}]
    assert not [r for r in rights if r.resource.partition("/")[0] == "secrets"]


def test_pods_of_the_operator_are_admitted_as_restricted(
    installed: Installed, tmp_path: Path
) -> None:
    """The namespace lets in restricted pods only, and the Deployment's are such."""
    kubectl = Kubectl(installed.plane.kubeconfig, tmp_path)
    template = _deployment()["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", "spec": template["spec"]}
    good = {**pod, "metadata": {"name": "good", "namespace": "swell-system"}}
    bad = {**good, "spec": {**pod["spec"], "securityContext": {}}}
    create = ("create", "--dry-run=server", "-f", "-")

    assert kubectl.run(*create, stdin=json.dumps(good)).exit_code == 0
    assert "restricted" in kubectl.run(*create, stdin=json.dumps(bad)).stderr


def _deployment() -> Body:
    found: Body = yaml.safe_load((DEPLOY / "deployment.yaml").read_text())
    return found


@asynccontextmanager
async def _world(installed: Installed) -> AsyncIterator[tuple[Cluster, Sight]]:
    """A cluster with nodes in which pods pretend to run, seen by its administrator."""
    clock = SystemClock()
    access = read_kubeconfig([installed.plane.kubeconfig])
    async with connect(access, clock, Random(1)) as admin:
        await install_crds(admin, clock)
        with contextlib.suppress(AlreadyExistsError):
            body: Body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
            await admin.create(NAMESPACES.untyped(), body)
        sight = Sight(admin, NAMESPACE, clock, Random(2))
        manager = Manager(clock=clock)
        sight.add_to(manager)
        names = (*node_names("common", 2), *(node for one in STORIES for node in one.nodes))
        shape = NodeShape(HOLLOW_CAPACITY, boot_id="rbac")
        add_hollow_agent(manager, admin, names, shape, clock=clock, random=Random(3))
        add_first_fit(manager, admin, clock=clock, random=Random(4))
        running = asyncio.create_task(manager.run())
        try:
            await sight.wait_synced()
            yield admin, sight
        finally:
            manager.stop()
            await running
    await asyncio.sleep(CLOSE_S)


async def _live(installed: Installed) -> None:
    """Jobs of both kinds, from submission to the end, and jobs whose names are taken."""
    async with _world(installed) as (admin, sight):
        played = [one.play(admin, sight) for one in STORIES]
        await asyncio.gather(*played, _training_job(admin), _taken(admin, installed))


async def _live_on(installed: Installed) -> None:
    """What was told in a former life of the operator happens once more."""
    async with _world(installed) as (admin, sight):
        play = Play("fails-on", admin, sight, ())
        for step in (runs(), ends("a-0", code=1), restarts("a-0")):
            await step.act(play)
        await _until_used(installed, Right("get", "", "events"))


async def _training_job(admin: Cluster) -> None:
    """A TrainingJob that runs and is deleted."""
    await admin.create(TRAINING_JOBS.untyped(), _paddle("paddle"))
    key = Key(NAMESPACE, "paddle")
    async with asyncio.timeout(WITHIN_S):
        while True:
            held = await admin.get(TRAINING_JOBS.untyped(), key)
            if held.get("status", {}).get("phase") == "Running":
                break
            await asyncio.sleep(0.2)
    await admin.delete(TRAINING_JOBS, key, Deletion())


async def _taken(admin: Cluster, installed: Installed) -> None:
    """Jobs that cannot have an object because somebody else has it: the operator looks at it."""
    for name, (resource, body) in TAKEN.items():
        owner = name.partition("-")[0]
        whole = {"apiVersion": resource.api_version, "kind": resource.kind, **body}
        metadata = {"name": name, "namespace": NAMESPACE}
        await admin.create(resource.untyped(), {**whole, "metadata": metadata})
        if resource.plural in {"replicasets", "jobs"}:
            await admin.create(TRAINING_JOBS.untyped(), _paddle(owner))
        else:
            wanted = manifest(owner, NAMESPACE, job({"a": pods(1)}))
            await admin.create(AI_TRAINING_JOBS.untyped(), wanted)
    for resource, _ in TAKEN.values():
        await _until_used(installed, Right("get", resource.group, resource.plural))


def _paddle(name: str) -> Body:
    return {
        "apiVersion": TRAINING_JOBS.api_version,
        "kind": TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "image": "local",
            "fault_tolerant": True,
            "trainer": {"entrypoint": "train", "min-instance": 1, "max-instance": 2},
            "pserver": {"min-instance": 1},
        },
    }


async def _until_used(installed: Installed, right: Right) -> None:
    async with asyncio.timeout(WITHIN_S):
        while right not in {use.right for use in used(installed.audit_log)}:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
