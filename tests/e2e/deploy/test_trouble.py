"""Installations with something missing: what is said, and that it mends itself."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.e2e.deploy.installed import DEPLOY, NAMESPACE, WITHIN_S, Installed
from tests.e2e.deploy.test_chart import CHART, Helm
from tests.e2e.operator.jobs import job, manifest, pods
from tests.testbed.control_plane import running_control_plane

POLL_S = 0.2
PARTS = ("operator", "scheduler")
# The kinds that a part cannot work without, and an object that it makes as soon as it works.
NEEDS = {"operator": "aitrainingjobs.elasticdeeplearning.ai", "scheduler": "queues.scheduling"}
MAKES = {"operator": ("podgroup/early", "pod/early-a-0"), "scheduler": ("queue/default",)}


@pytest.fixture(scope="module")
def bare(testbed_binaries: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """All of Swell but the definitions."""
    with running_control_plane() as plane:
        made = Installed(plane, tmp_path_factory.mktemp("bare"), Path())
        for part in ("namespace", *PARTS):
            made.kubectl.ok("apply", "-k", str(DEPLOY / part))
        yield made


def until(holds: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not holds():
        assert time.monotonic() < deadline, f"not within {WITHIN_S:.0f} s: {what}"
        time.sleep(POLL_S)


def until_said(log: Path, *terms: str) -> None:
    """A line of the log comes to hold all of this."""

    def is_said() -> bool:
        return any(all(word in line for word in terms) for line in log.read_text().splitlines())

    until(is_said, f"a line with {terms} in\n{log}")


def is_there(bare: Installed, *names: str) -> bool:
    return bare.kubectl.run("get", "-n", "default", *names).exit_code == 0


def submit(bare: Installed, name: str) -> None:
    body = json.dumps(manifest(name, "default", job({"a": pods(1)})))
    until(lambda: bare.kubectl.run("apply", "-f", "-", stdin=body).exit_code == 0, "a job is taken")


def test_definitions_may_come_later(bare: Installed) -> None:
    """Programs that were there first name the kinds they miss, and work when these come."""
    with bare.logging("operator") as operator, bare.logging("scheduler") as scheduler:
        for part, log in (("operator", operator), ("scheduler", scheduler)):
            until_said(log, "does not have this kind", NEEDS[part])
        bare.kubectl.ok("apply", "-k", str(DEPLOY / "crds"))
        submit(bare, "early")
        for part in PARTS:
            for name in MAKES[part]:
                until(lambda name=name: is_there(bare, name), name)  # type: ignore[misc]


def test_rights_may_come_later(bare: Installed) -> None:
    """An operator that was there before its roles is told no, says so, and works when they come."""
    bare.kubectl.ok("apply", "-k", str(DEPLOY / "crds"))
    for kind in ("clusterrolebinding", "rolebinding"):
        bare.kubectl.ok("delete", "-n", NAMESPACE, kind, "swell-operator")
    with bare.logging("operator") as log:
        until_said(log, "forbidden", "leases")
        bare.kubectl.ok("apply", "-k", str(DEPLOY / "operator"))
        submit(bare, "late")
        until(lambda: is_there(bare, "pod/late-a-0"), "the operator works")


def test_rights_may_be_gone_for_a_while(bare: Installed) -> None:
    """Without its role the operator says what it may not do, and goes on when it may again."""
    bare.kubectl.ok("apply", "-k", str(DEPLOY / "crds"))
    with bare.logging("operator") as log:
        submit(bare, "before")
        until(lambda: is_there(bare, "pod/before-a-0"), "the operator works")
        bare.kubectl.ok("delete", "clusterrolebinding", "swell-operator")
        submit(bare, "during")
        until_said(log, "cannot patch resource", "aitrainingjobs")
        assert not is_there(bare, "pod/during-a-0")
        bare.kubectl.ok("apply", "-k", str(DEPLOY / "operator"))
        until(lambda: is_there(bare, "pod/during-a-0"), "the operator works again")


@pytest.fixture
def nobody(bare: Installed) -> Path:
    """A kubeconfig of somebody without any right."""
    bare.kubectl.run("create", "serviceaccount", "swell-nobody", "-n", NAMESPACE)
    return bare.kubeconfig_of("nobody")


def test_installer_without_rights_gets_a_reason(
    bare: Installed, nobody: Path, tmp_path: Path
) -> None:
    """Whoever may not install is told what may not be done, by helm and by our own command."""
    installing = Helm(tmp_path, nobody).run("install", "swell", CHART, "--namespace", "default")
    command = [sys.executable, "-m", "swell.cli.main", "uninstall", "--yes"]
    removing = subprocess.run(
        [*command, f"--kubeconfig={nobody}"], capture_output=True, text=True, check=False
    )

    assert installing.returncode != 0
    assert "swell-nobody" in installing.stderr
    assert "forbidden" in installing.stderr
    assert removing.returncode != 0
    assert "swell-nobody" in removing.stderr
    assert "Traceback" not in removing.stderr
    assert bare.kubectl.run("get", "clusterrole", "swell-operator").exit_code == 0
