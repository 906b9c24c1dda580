"""The testbed itself: the real control plane starts, serves, stops, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import ssl
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.kubectl import Kubectl, KubectlError
from tests.testbed.processes import ProcessEndedError

CONFIG_MAP = """
apiVersion: v1
kind: ConfigMap
metadata: {name: greeting}
data: {text: hello}
"""
GONE_S_MAX = 10.0


def test_kubectl_reads_back_what_it_created(kubectl: Kubectl) -> None:
    """An object that kubectl creates on the real server is read back as it was written."""
    kubectl.ok("create", "namespace", "read-back")
    created = kubectl.ok("create", "-n", "read-back", "-f", "-", stdin=CONFIG_MAP)
    seen = json.loads(kubectl.ok("get", "-n", "read-back", "configmap", "greeting", "-o", "json"))

    assert created == "configmap/greeting created\n"
    assert seen["data"] == {"text": "hello"}


def test_kubectl_failure_carries_the_output(kubectl: Kubectl) -> None:
    """A failed call raises with the exit code and the reason kubectl gave."""
    with pytest.raises(KubectlError) as failed:
        kubectl.ok("get", "configmap", "no-such-thing")

    assert failed.value.result.exit_code == 1
    assert "NotFound" in failed.value.result.stderr


def test_control_plane_serves_the_pinned_version(kubectl: Kubectl) -> None:
    """Client and server know their version: clients refuse a server that does not."""
    versions = json.loads(kubectl.ok("version", "-o", "json"))

    assert versions["serverVersion"]["gitVersion"] == "v1.36.3"
    assert versions["clientVersion"]["gitVersion"] == "v1.36.3"


def test_control_plane_refuses_strangers(control_plane: ControlPlane) -> None:
    """Without a token nothing is served, not even the list of groups."""
    trust = ssl.create_default_context(cafile=str(control_plane.ca_file))
    host = control_plane.server_url.removeprefix("https://")
    connection = http.client.HTTPSConnection(host, timeout=10, context=trust)
    connection.request("GET", "/apis")
    status = connection.getresponse().status
    connection.close()

    assert status == http.HTTPStatus.UNAUTHORIZED


def test_controllers_remove_what_a_deleted_owner_leaves(kubectl: Kubectl) -> None:
    """The chosen controllers run: a deleted namespace takes its contents with it and ends."""
    kubectl.ok("create", "namespace", "short-lived")
    kubectl.ok("create", "-n", "short-lived", "-f", "-", stdin=CONFIG_MAP)
    kubectl.ok("delete", "namespace", "short-lived", "--timeout=30s")

    assert kubectl.run("get", "namespace", "short-lived").exit_code == 1


def test_stopped_control_plane_leaves_nothing(testbed_binaries: None) -> None:
    """After the context neither a process nor a file of the control plane is left."""
    with running_control_plane() as plane:
        pids = plane.pids
        assert sorted(pids) == ["etcd", "kube-apiserver", "kube-controller-manager"]
        assert all(_is_alive(pid) for pid in pids.values())

    assert not any(_is_alive(pid) for pid in pids.values())
    assert not plane.data_dir.exists()


def test_control_plane_left_by_an_error_leaves_nothing(testbed_binaries: None) -> None:
    """A test that fails inside the context has its control plane taken away all the same."""
    seen: list[ControlPlane] = []

    def fail_inside() -> None:
        with running_control_plane(controllers=()) as plane:
            seen.append(plane)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_inside()

    assert not any(_is_alive(pid) for pid in seen[0].pids.values())
    assert not seen[0].data_dir.exists()


def test_control_plane_that_cannot_start_reports_why(
    testbed_binaries: None, tmp_path: Path
) -> None:
    """A server that ends at once is reported with its own words, and the others are ended."""
    with (
        pytest.raises(ProcessEndedError, match="unknown flag: --no-such-flag") as failed,
        running_control_plane(api_server_flags=["--no-such-flag"], data_dir=tmp_path),
    ):
        pass

    assert failed.value.name == "kube-apiserver"
    assert _processes_with(str(tmp_path)) == []


def test_control_plane_finds_the_objects_of_the_run_before(
    testbed_binaries: None, tmp_path: Path
) -> None:
    """A second run on the caller's folder has what the first one was told to keep."""
    for verb in ("create", "get"):
        with running_control_plane(controllers=(), data_dir=tmp_path, durable=True) as plane:
            kubectl = Kubectl(plane.kubeconfig, tmp_path / "kubectl")
            named = kubectl.ok(verb, "priorityclass", "kept", *_if_create(verb), "-o", "name")

            assert named == "priorityclass.scheduling.k8s.io/kept\n"


def test_killed_test_run_takes_its_control_plane_along(
    testbed_binaries: None, tmp_path: Path
) -> None:
    """Not even SIGKILL of the test run leaves a server behind."""
    program = (
        "import pathlib, sys, time\n"
        "from tests.testbed.control_plane import running_control_plane\n"
        "with running_control_plane(data_dir=pathlib.Path(sys.argv[1])):\n"
        "    print('ready', flush=True)\n"
        "    time.sleep(60)\n"
    )
    root = Path(__file__).parents[2]
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], cwd=root, stdout=subprocess.PIPE
    ) as run:
        assert run.stdout is not None
        assert run.stdout.readline() == b"ready\n"
        run.send_signal(signal.SIGKILL)

    deadline = time.monotonic() + GONE_S_MAX
    while (left := _processes_with(str(tmp_path))) and time.monotonic() < deadline:
        time.sleep(0.05)

    assert left == []


def _if_create(verb: str) -> tuple[str, ...]:
    return ("--value=7",) if verb == "create" else ()


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _processes_with(text: str) -> list[str]:
    """Command lines of running processes that mention the text."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            found.append(file.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return [line for line in found if text in line]
