"""`swell up` and `down`, as processes."""

from __future__ import annotations

import signal
import socket
import subprocess
from pathlib import Path

from swell.cluster.home import lock_holder
from tests.e2e.up.machine import FLAGS, Machine, until

# Says that it has begun, then waits to be told to end well.
WAITING = "echo $TRAININGJOB_REPLICA_RESTARTCOUNT >> {begun}; until [ -e {go} ]; do sleep 0.1; done"


def test_up_detached_can_be_repeated(machine: Machine) -> None:
    """Starting what runs already is no error, and gives the same answer."""
    first = machine.swell("up", "--detach", *FLAGS)
    second = machine.swell("up", "--detach", *FLAGS)
    third = machine.swell("up")

    assert first.stdout == f"export KUBECONFIG={machine.home / 'kubeconfig'}\n"
    assert second.stdout == third.stdout == first.stdout
    assert "already running" in third.stderr
    assert machine.swell("get", "nodes", "-o", "name").stdout == "node/here-0\n"


def test_down_can_be_repeated(machine: Machine) -> None:
    """Stopping what does not run is no error."""
    machine.swell("down")
    machine.start()
    machine.swell("down")
    machine.swell("down")

    assert machine.processes() == []


def test_up_in_the_foreground_ends_when_asked(machine: Machine) -> None:
    """It says where the kubeconfig is when all is ready, and SIGTERM is an orderly end."""
    with machine.begin("up", *FLAGS) as up:
        assert up.stdout is not None
        assert up.stdout.readline() == f"export KUBECONFIG={machine.home / 'kubeconfig'}\n"
        up.send_signal(signal.SIGTERM)
        assert up.wait(30) == 0


def test_up_detached_says_why_it_failed(machine: Machine) -> None:
    """A cluster that cannot start ends the command with its reason and the log's path."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ended = machine.swell("up", "--detach", "--port", str(port), expect=1)

    assert ended.stdout == ""
    assert str(port) in ended.stderr
    assert str(machine.home / "up.log") in ended.stderr


def test_up_refuses_a_capacity_that_is_none(machine: Machine) -> None:
    """What a flag says wrongly is told with the flag's name."""
    ended = machine.swell("up", "--cpu", "many", expect=2)

    assert "--cpu" in ended.stderr


def test_up_explains_a_folder_it_cannot_use(machine: Machine) -> None:
    """A state folder that is none, and a store that is none, are told in one line each."""
    machine.home.write_text("a file")
    assert "Not a directory" in machine.swell("up", "--detach", expect=1).stderr
    machine.swell("get", expect=1)
    machine.swell("down")
    machine.home.unlink()
    machine.home.mkdir()
    (machine.home / "store.db").write_text("no database at all, but long enough to be read")

    assert "swell check --quarantine" in machine.swell("up", "--detach", expect=1).stderr


def test_jobs_survive_a_killed_cluster(machine: Machine) -> None:
    """After kill -9 and a new start every job is there, its processes are the same, and it ends
    as if nothing had been."""
    machine.start()
    names = ("one", "two", "three")
    go = machine.folder / "go"
    for name in names:
        _wait_as_job(machine, name, go)
    machine.kill()
    machine.start()
    go.touch()
    for name in names:
        machine.until_phase(name, "Succeed")

        assert (machine.folder / f"{name}.begun").read_text() == "0\n"
        assert machine.job(name)["status"].get("restarts", 0) == 0


def test_down_ends_what_a_killed_cluster_left(machine: Machine) -> None:
    """Processes outlive a killed cluster, but not `swell down`."""
    machine.start()
    _wait_as_job(machine, "one", machine.folder / "go")
    machine.kill()

    assert machine.processes()

    machine.swell("down")

    assert machine.processes() == []


def test_jobs_go_on_after_an_orderly_stop(machine: Machine) -> None:
    """Stopping ends processes; the next start makes the pods again, and charges nobody."""
    machine.start()
    go = machine.folder / "go"
    _wait_as_job(machine, "one", go)
    machine.swell("down")

    assert machine.processes() == []

    machine.start()
    until(lambda: len((machine.folder / "one.begun").read_text().splitlines()) == 2)
    go.touch()
    machine.until_phase("one", "Succeed")
    status = machine.job("one")["status"]

    charged = status.get("restartCounts", {}).get("trainer", 0)
    assert charged == status.get("uncharged", {}).get("trainer", 0)


def test_server_is_distinguished_from_a_cluster(machine: Machine) -> None:
    """An API server alone is not taken for a whole cluster; `down` stops it as well."""
    with machine.begin("server") as server:
        assert server.stdout is not None
        server.stdout.readline()

        assert "swell server runs" in machine.swell("up", "--detach", expect=1).stderr

        machine.swell("down")
        assert server.wait(30) == 0
    assert lock_holder(machine.home) is None


def test_two_starts_at_once_make_one_cluster(machine: Machine) -> None:
    """Whoever comes second waits for the first, and both are told that it is ready."""
    starts = [machine.begin("up", "--detach") for _ in range(2)]
    codes = [_ended(start) for start in starts]

    assert codes == [0, 0]
    assert len([line for line in machine.processes() if " up" in line]) == 1


def _ended(command: subprocess.Popen[str]) -> int:
    with command:
        command.communicate(timeout=70)
    return command.returncode


def _wait_as_job(machine: Machine, name: str, go: Path) -> None:
    """A job that has begun to wait."""
    begun = machine.folder / f"{name}.begun"
    script = WAITING.format(begun=begun, go=go)
    machine.swell("run", "--detach", "--name", name, "--", "sh", "-c", script)
    until(begun.exists, lambda: str(machine.job(name).get("status")))


def test_stopped_cluster_of_a_user_stays_the_choice(tmp_path: Path) -> None:
    """After `swell down` no command goes to the cluster that KUBECONFIG names instead."""
    other = tmp_path / "other-kubeconfig"
    user = Machine(tmp_path, {"SWELL_HOME": "", "KUBECONFIG": str(other)})
    assert "no such file" in user.swell("get", "nodes", expect=1).stderr
    user.swell("up", "--detach", *FLAGS)
    try:
        assert "here-0" in user.swell("get", "nodes").stdout
    finally:
        user.swell("down")

    answer = user.swell("get", "nodes", expect=1)

    assert f"{tmp_path}/.local/state/swell is not running" in answer.stderr
    assert "swell up" in answer.stderr
    assert user.swell("use", "-").stderr == "the choice is forgotten\n"
    assert "no such file" in user.swell("get", "nodes", expect=1).stderr
