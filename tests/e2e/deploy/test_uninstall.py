"""`swell uninstall` on a real control plane."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from swell.api.crds import crd
from swell.api.schemas.definitions import DEFINITIONS
from tests.e2e.deploy.installed import DEPLOY
from tests.e2e.operator.jobs import job, manifest, pods
from tests.testbed.control_plane import running_control_plane
from tests.testbed.kubectl import Kubectl

PROGRAMS = "deployments,services,serviceaccounts,roles,rolebindings,poddisruptionbudgets,configmaps"
OF_CLUSTER = "clusterroles,clusterrolebindings"


@dataclass(frozen=True, slots=True)
class Done:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Scene:
    kubectl: Kubectl
    kubeconfig: Path

    def uninstall(self, *flags: str) -> Done:
        command = [sys.executable, "-m", "swell.cli.main", "uninstall", *flags]
        found = subprocess.run(
            [*command, f"--kubeconfig={self.kubeconfig}"],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            check=False,
        )
        return Done(found.returncode, found.stdout, found.stderr)

    def names(self, kinds: str) -> set[str]:
        found = self.kubectl.ok("get", kinds, "-A", "-o", "name")
        return {line for line in found.split() if "/swell-" in line}

    @property
    def installed(self) -> set[str]:
        return self.names(PROGRAMS) | self.names(OF_CLUSTER)

    @property
    def definitions(self) -> set[str]:
        found = self.kubectl.ok("get", "crds", "-o", "name").split()
        ours = {crd(definition)["metadata"]["name"] for definition in DEFINITIONS}
        return ours & {line.partition("/")[2] for line in found}


@pytest.fixture(scope="module")
def scene(testbed_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """Swell installed, and a job held by its finalizer."""
    with running_control_plane() as plane:
        kubectl = Kubectl(plane.kubeconfig, tmp_path_factory.mktemp("uninstall"))
        kubectl.ok("apply", "-k", str(DEPLOY))
        kubectl.ok("wait", "--for=condition=Established", "crds", "--all", "--timeout=30s")
        held = manifest("fit", "default", job({"a": pods(1)}))
        held["metadata"]["finalizers"] = ["elasticdeeplearning.ai/cleanup"]
        kubectl.ok("apply", "-f", "-", stdin=json.dumps(held))
        yield Scene(kubectl, plane.kubeconfig)


def test_definitions_are_kept_for_jobs(scene: Scene) -> None:
    """Jobs would be lost with the definitions: that is refused, and the jobs are named."""
    done = scene.uninstall("--crds", "--yes")

    assert done.code == 1
    assert "1 job (aitrainingjob default/fit) would be lost" in done.err
    assert "--jobs" in done.err
    assert len(scene.definitions) == len(DEFINITIONS)


@pytest.mark.parametrize("flags", [("--dry-run",), ()], ids=["dry run", "nobody to ask"])
def test_nothing_goes_unasked(scene: Scene, flags: tuple[str, ...]) -> None:
    """What would go is told, and is still there."""
    before = scene.installed
    done = scene.uninstall(*flags)

    assert "deployment swell-system/swell-operator" in done.out
    assert "clusterrole swell-operator" in done.out
    assert done.code == (0 if flags else 1)
    assert scene.installed == before != set()


def test_uninstall_takes_programs_then_the_rest(scene: Scene) -> None:
    """Programs and rights go, jobs and definitions stay; then these go too, if so wanted."""
    first = scene.uninstall("--yes")

    assert first.code == 0, first.err
    assert scene.installed == set()
    assert len(scene.definitions) == len(DEFINITIONS)
    assert "nobody looks after 1 job" in first.out

    second = scene.uninstall("--crds", "--jobs", "--yes")

    assert second.code == 0, second.err
    assert scene.definitions == set()
    assert "nothing of Swell" in scene.uninstall("--crds", "--yes").out


def test_definitions_of_volcano_are_left(scene: Scene) -> None:
    """Where Volcano is, PodGroups, Queues and HyperNodes are its own."""
    scene.kubectl.ok("apply", "-k", str(DEPLOY / "crds"))
    scene.kubectl.ok("apply", "-f", "-", stdin=json.dumps(VOLCANO))
    done = scene.uninstall("--crds", "--yes")

    assert done.code == 0, done.err
    assert scene.definitions == {
        "hypernodes.topology.volcano.sh",
        "podgroups.scheduling.volcano.sh",
        "queues.scheduling.volcano.sh",
    }


VOLCANO = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "jobs.batch.volcano.sh",
        "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"},
    },
    "spec": {
        "group": "batch.volcano.sh",
        "names": {"kind": "Job", "plural": "jobs", "singular": "job"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object"}},
            }
        ],
    },
}
