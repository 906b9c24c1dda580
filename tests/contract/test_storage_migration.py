"""Objects that an older definition stored under a deprecated version move to the one of today."""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

from swell.api.crds import crd
from swell.api.meta import Body
from swell.api.schemas.definitions import DEFINITIONS
from tests.testbed import binaries
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kubectl import Kubectl

PAGE = Path(__file__).parents[2] / "docs" / "installation.md"
NAME = "trainingjobs.paddlepaddle.org"
_BLOCKS = re.compile(r"\n\n```\n(.*?)\n```\n", re.DOTALL)


def storing(version: str) -> Body:
    """The definition of TrainingJobs with another version as the one that is stored."""
    (own,) = (crd(one) for one in DEFINITIONS if crd(one)["metadata"]["name"] == NAME)
    versions = [{**one, "storage": one["name"] == version} for one in own["spec"]["versions"]]
    return {**own, "spec": {**own["spec"], "versions": versions}}


def stored_versions(kubectl: Kubectl) -> list[str]:
    found = json.loads(kubectl.ok("get", "crd", NAME, "-o", "json"))
    return list(found["status"]["storedVersions"])


def test_commands_of_the_page_store_all_objects_anew(
    control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    """They are served meanwhile; afterwards the definition has stored one version only."""
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    kubectl.ok(*apply, stdin=json.dumps(storing("v1alpha1")))
    kubectl.ok("wait", "--for=condition=Established", f"crd/{NAME}")
    kubectl.ok("create", "namespace", "older")
    spec = {"image": "local", "trainer": {"min-instance": 1, "max-instance": 1}}
    older = {
        "apiVersion": "paddlepaddle.org/v1",
        "kind": "TrainingJob",
        "metadata": {"name": "older", "namespace": "older"},
        "spec": spec,
    }
    kubectl.ok("create", "-f", "-", stdin=json.dumps(older))
    kubectl.ok(*apply, stdin=json.dumps(storing("v1")))
    assert sorted(stored_versions(kubectl)) == ["v1", "v1alpha1"]
    before = json.loads(
        kubectl.ok("get", "trainingjobs.v1.paddlepaddle.org", "-n", "older", "older", "-o", "json")
    )

    (commands,) = (one for one in _BLOCKS.findall(PAGE.read_text()) if "storedVersions" in one)
    folder = binaries.binary("kubectl").parent
    environment = {
        "PATH": f"{folder}:{os.environ['PATH']}",
        "HOME": str(kubectl.cache_dir),
        "KUBECONFIG": str(control_plane.kubeconfig),
    }
    subprocess.run(["bash", "-e", "-o", "pipefail", "-c", commands], env=environment, check=True)

    after = json.loads(
        kubectl.ok("get", "trainingjobs.v1.paddlepaddle.org", "-n", "older", "older", "-o", "json")
    )
    assert stored_versions(kubectl) == ["v1"]
    assert after["spec"] == before["spec"]
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    kubectl.ok("delete", "namespace", "older", "--wait=false")
