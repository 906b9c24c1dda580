"""Reaching into running pods: `exec`, `cp` and `port-forward`, of `swell` and of kubectl."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contract.terminal import on_terminal
from tests.e2e.up.machine import SWELL, WITHIN_S, Machine, until
from tests.testbed import binaries
from tests.testbed.kubectl import Kubectl

pytestmark = pytest.mark.long
POD = "web-trainer-0"
# Says its port when it listens, which is any free one of the pod's address.
SERVER = """\
import http.server, sys
server = http.server.HTTPServer(("", 0), http.server.SimpleHTTPRequestHandler)
open("port", "w").write(str(server.server_port))
server.serve_forever()
"""


@pytest.fixture(scope="module")
def port(running: Machine) -> int:
    """A job of one pod, which serves its folder by HTTP."""
    (running.folder / "server.py").write_text(SERVER)
    (running.folder / "page").write_text("hello")
    running.swell("run", "--detach", "--name", "web", "--", "python", "server.py")
    found = running.folder / "port"
    until(lambda: found.exists() and bool(found.read_text()))
    return int(found.read_text())


@pytest.mark.usefixtures("port")
def test_exec_is_as_in_the_container(running: Machine) -> None:
    """Output, errors, input and exit code; of a pod, and of a job's first pod."""
    script = "echo $POD_NAME$AITJ_JOB_NAME; pwd; echo problem >&2; exit 5"
    done = running.swell("exec", POD, "--", "sh", "-c", script, expect=5)
    assert done.stdout.splitlines()[-1] == str(running.folder)
    assert "problem" in done.stderr
    piped = subprocess.run(
        [*SWELL, "exec", "-i", "web", "--", "wc", "-c"],
        env=running.environment,
        input=b"x" * 3_000_000,
        capture_output=True,
        timeout=WITHIN_S,
        check=True,
    )
    assert piped.stdout.split() == [b"3000000"]
    assert running.swell("exec", "web", "--", "no-such-program", expect=1).stdout == ""
    wrong = running.swell("exec", "-c", "other", "web", "--", "ls", expect=1)
    assert "container other is not valid for pod web-trainer-0" in wrong.stderr


@pytest.mark.usefixtures("port")
def test_exec_with_a_terminal_is_a_shell(running: Machine) -> None:
    """Keys go to the shell, its answers come back, and its exit code is the command's."""
    environ = running.environment
    with on_terminal("exec", "-it", "web", "--", "sh", environ=environ) as terminal:
        terminal.type("echo $((40 + 2)); test -t 0 && echo terminal\n")
        terminal.until("42\n")
        terminal.until("\nterminal\n")
        terminal.type("exit 9\n")
        assert terminal.ends() == 9


@pytest.mark.usefixtures("port")
def test_files_are_copied_both_ways(running: Machine, tmp_path: Path) -> None:
    """Files and folders, whole; what is not there is an error."""
    source = tmp_path / "data"
    (source / "inner").mkdir(parents=True)
    (source / "inner/large").write_bytes(os.urandom(2_000_000))
    there = tmp_path / "there"
    running.swell("cp", str(source), f"web:{there}")
    running.swell("cp", f"{POD}:{there}/inner/large", str(tmp_path / "back"))
    assert (tmp_path / "back").read_bytes() == (source / "inner/large").read_bytes()
    missing = running.swell("cp", f"web:{tmp_path}/missing", str(tmp_path), expect=1)
    assert "No such file" in missing.stderr
    for given in ((str(source), f"web:{there}"), (f"web:{there}", str(tmp_path / "again"))):
        with on_terminal("cp", *given, environ=running.environment) as terminal:
            assert terminal.ends() == 0
        assert "copying KiB [" in terminal.seen or "copied " in terminal.seen
        assert terminal.seen.endswith("\r\x1b[K")


@contextmanager
def forwarding(machine: Machine, *command: str) -> Iterator[str]:
    """A command that forwards ports, and the first line that it prints."""
    with subprocess.Popen(
        command, env=machine.environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            assert select.select([process.stdout], [], [], WITHIN_S)[0]
            yield process.stdout.readline().decode()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(WITHIN_S)


def test_ports_are_forwarded(running: Machine, port: int) -> None:
    """Several connections, one after the other, on a free local port."""
    with forwarding(running, *SWELL, "port-forward", "web", f":{port}") as line:
        assert line.startswith("Forwarding from 127.0.0.1:")
        address = line.split()[2]
        for _ in range(3):
            with urllib.request.urlopen(f"http://{address}/page", timeout=WITHIN_S) as answer:
                assert answer.read() == b"hello"


@pytest.mark.usefixtures("port")
def test_kubectl_reaches_pods(running: Machine, tmp_path: Path) -> None:
    """kubectl exec and cp, as on any cluster."""
    binaries.require(("kubectl",))
    kubectl = Kubectl(running.home / "kubeconfig", tmp_path / "cache")
    done = kubectl.run("exec", POD, "--", "sh", "-c", "echo out; echo err >&2; exit 3")
    assert (done.exit_code, done.stdout) == (3, "out\n")
    assert done.stderr == "err\ncommand terminated with exit code 3\n"
    assert kubectl.run("exec", "-i", POD, "--", "cat", stdin="piped").stdout == "piped"
    large = tmp_path / "large"
    large.write_bytes(os.urandom(2_000_000))
    assert kubectl.run("cp", str(large), f"{POD}:{tmp_path}/there").exit_code == 0
    assert kubectl.run("cp", f"{POD}:{tmp_path}/there", str(tmp_path / "back")).exit_code == 0
    assert (tmp_path / "back").read_bytes() == large.read_bytes()


def test_kubectl_forwards_ports(running: Machine, port: int) -> None:
    """Several connections through one tunnel."""
    binaries.require(("kubectl",))
    config = f"--kubeconfig={running.home}/kubeconfig"
    kubectl = (str(binaries.binary("kubectl")), config)
    with forwarding(running, *kubectl, "port-forward", f"pod/{POD}", f":{port}") as line:
        address = line.split()[2]
        for _ in range(3):
            with urllib.request.urlopen(f"http://{address}/page", timeout=WITHIN_S) as answer:
                assert answer.read() == b"hello"


@pytest.mark.usefixtures("port")
def test_right_to_exec_is_a_right_of_its_own(running: Machine) -> None:
    """A viewer may read pods and run nothing in them."""
    made = running.swell("user", "create", "vera", "--role", "view")
    file = running.folder / "vera"
    file.write_text(made.stdout)
    allowed = running.swell("get", "pods", "--kubeconfig", str(file))
    assert POD in allowed.stdout
    refused = running.swell("exec", POD, "--kubeconfig", str(file), "--", "ls", expect=1)
    assert 'cannot get resource "pods/exec"' in refused.stderr
