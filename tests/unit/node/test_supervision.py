"""How supervisors and agents find each other, what probes add up to, how logs are kept."""

from __future__ import annotations

import errno
import marshal
import os
import signal
import subprocess
from pathlib import Path

import pytest

from swell.api.codec import convert
from swell.node import supervisor
from swell.node.pods import BoundContainer, Probe
from swell.node.process.logfiles import tail, termination_message
from swell.node.process.probes import ContainerHealth, ProbeTally, after_answer, first_health
from swell.node.process.setup.resources import CgroupRoot, ResourceLimits, usage_below
from swell.node.process.supervised import ProcessIdentity
from swell.node.supervisor import output, protocol, supervising


def test_process_is_known_by_pid_and_start() -> None:
    """The same pid with another start is another process."""
    own = ProcessIdentity(os.getpid(), supervisor.start_mark(os.getpid()))

    assert own.is_alive
    assert not ProcessIdentity(own.pid, "00000000.1").is_alive
    assert not ProcessIdentity(2**22 + 1, own.mark).is_alive


def test_signal_reaches_no_other_process() -> None:
    """A pid that belongs to another process now is left alone."""
    with subprocess.Popen(["sleep", "60"]) as stranger:
        mark = supervisor.start_mark(stranger.pid)

        assert not supervisor.signal_exactly(stranger.pid, "00000000.1", signal.SIGKILL)
        assert not supervisor.signal_exactly(stranger.pid, "", signal.SIGKILL)
        assert stranger.poll() is None
        assert supervisor.signal_exactly(stranger.pid, mark, signal.SIGTERM)
        assert stranger.wait(10) == -signal.SIGTERM
    assert not supervisor.signal_exactly(stranger.pid, mark, signal.SIGTERM)


def test_nothing_begins_without_an_identity_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk is full no process is started that could not be found."""
    begun = tmp_path / "begun"
    spec = {
        "argv": ("touch", str(begun)),
        "env": {"PATH": os.environ["PATH"]},
        "cwd": "/",
        "log": str(tmp_path / "log"),
    }
    (tmp_path / supervisor.SPEC_FILE).write_bytes(marshal.dumps(spec))
    reports, reports_in = os.pipe()
    pid = os.fork()
    if pid == 0:
        monkeypatch.setattr(protocol, "write_file", refuse)
        monkeypatch.setattr(protocol, "REPORT_FD", reports_in)
        os._exit(supervising.supervise(str(tmp_path)))
    os.close(reports_in)
    with os.fdopen(reports) as report:
        said = report.read()
    os.waitpid(pid, 0)

    assert said == f"refused {tmp_path}: No space left on device\n"
    assert not begun.exists()
    assert not (tmp_path / supervisor.IDENTITY_FILE).exists()


def refuse(*_: str) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_full_disk_takes_no_log_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rotation that cannot be done leaves what there is, and is done when there is room."""
    monkeypatch.setattr(output, "LOG_BYTES_MAX", 10)
    log = output.Log(str(tmp_path / "l"))
    log.write(b"0000\n1111\n")
    with monkeypatch.context() as full:
        full.setattr(output, "_opened", refuse)
        for _ in range(10):
            log.write(b"lost\n")

    assert (tmp_path / "l").read_text() == "0000\n1111\n"
    log.write(b"2222\n")
    assert (tmp_path / "l.1").read_text() == "0000\n1111\n"
    assert (tmp_path / "l").read_text() == "2222\n"


def test_withdrawn_order_is_noticed(tmp_path: Path) -> None:
    """Gone, or replaced by another one: either way it is not ours any more."""
    spec = tmp_path / supervisor.SPEC_FILE
    spec.write_bytes(b"1")
    descriptor = os.open(spec, os.O_RDONLY)

    assert protocol.write_identity(str(tmp_path), descriptor)
    spec.unlink()
    assert not protocol.write_identity(str(tmp_path), descriptor)
    spec.write_bytes(b"2")
    assert not protocol.write_identity(str(tmp_path), descriptor)
    os.close(descriptor)


def test_log_is_rotated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded files, the newest last, each with its index."""
    monkeypatch.setattr(output, "LOG_BYTES_MAX", 10)
    log = output.Log(str(tmp_path / "l"))
    for number in range(12):
        log.write(f"{number:04}\n".encode())

    names = sorted(path.name for path in tmp_path.iterdir() if path.suffix != ".times")
    assert names == ["l", "l.1", "l.2", "l.3", "l.4"]
    assert (tmp_path / "l").read_text() == "0010\n0011\n"
    assert (tmp_path / "l.4").read_text() == "0002\n0003\n"
    assert (tmp_path / "l.1.times").stat().st_size == 32


def test_index_of_single_letters_is_bounded(tmp_path: Path) -> None:
    """Times cost no more than the output that they are of, beyond a first allowance."""
    log = output.Log(str(tmp_path / "l"))
    for _ in range(50_000):
        log.write(b"\n")

    size = (tmp_path / "l.times").stat().st_size
    assert (tmp_path / "l").stat().st_size == 50_000
    assert size < 2 * (output.INDEX_BYTES_MIN + 50_000)


def test_tail_is_the_last_lines(tmp_path: Path) -> None:
    """Twenty of them, and nothing of a log that is not there."""
    (tmp_path / "l").write_text("".join(f"{n}\n" for n in range(100)))

    assert tail(tmp_path / "l").splitlines() == [str(n) for n in range(80, 100)]
    assert tail(tmp_path / "no") == ""


def test_termination_message_is_the_file_or_the_end_of_the_log(tmp_path: Path) -> None:
    """A file before a log, a log only after a failure, and as Kubernetes does if asked to."""
    note, log = tmp_path / "n", tmp_path / "l"
    log.write_text("".join(f"{n}\n" for n in range(100)))

    assert termination_message(note, log, "File", 0) == ""
    assert termination_message(note, log, "File", 1) == tail(log)
    assert termination_message(note, log, "FallbackToLogsOnError", 1).splitlines()[0] == "20"
    assert termination_message(note, log, "FallbackToLogsOnError", 1).endswith("99\n")
    note.write_text("x" * 5000)
    assert termination_message(note, log, "File", 0) == "x" * 4096


def test_health_before_any_answer() -> None:
    """A container without probes is taken to be healthy."""
    probe = {"exec": {"command": ["x"]}}

    assert first_health(BoundContainer()) == ContainerHealth(True, True)
    asked = convert({"readinessProbe": probe}, BoundContainer)
    assert first_health(asked) == ContainerHealth(True, False)
    starting = convert({"startupProbe": probe}, BoundContainer)
    assert first_health(starting) == ContainerHealth(False, False)


def test_answers_count_in_a_row() -> None:
    """Thresholds are met by answers without one of the other kind between them."""
    probe = Probe(success_threshold=2, failure_threshold=3)
    well, ill = ContainerHealth(True, True), ContainerHealth(True, False)

    assert after_answer(well, "readiness", probe, ProbeTally(0, 2)) == well
    assert after_answer(well, "readiness", probe, ProbeTally(0, 3)) == ill
    assert after_answer(ill, "readiness", probe, ProbeTally(1, 0)) == ill
    assert after_answer(ill, "readiness", probe, ProbeTally(2, 0)) == well
    assert (
        after_answer(well, "liveness", probe, ProbeTally(0, 3)).unhealthy == "liveness probe failed"
    )
    assert after_answer(
        ContainerHealth(False, False), "startup", probe, ProbeTally(2, 0)
    ).is_started
    assert ProbeTally(2, 0).with_answer(False) == ProbeTally(0, 1)


def test_usage_is_summed_over_sessions() -> None:
    """A process counts below the one that started it, also in a session of its own."""
    script = "setsid sh -c 'sleep 60 & wait' & echo; wait"
    with subprocess.Popen(["sh", "-c", script], stdout=subprocess.PIPE) as root:
        assert root.stdout
        root.stdout.readline()
        while (found := usage_below([root.pid])[root.pid]).n_threads < 2:
            pass
        pids = supervisor.descendants(
            supervisor.children_by_parent(supervisor.process_table()), root.pid
        )
        supervisor.send_all([root.pid, *pids], signal.SIGKILL)

    assert found.memory_bytes > 1 << 16
    assert usage_below([2**22 + 1])[2**22 + 1].n_threads == 0


def test_cgroups_that_cannot_be_made_are_done_without(tmp_path: Path) -> None:
    """No limits, no cgroups; no right to make them, none either."""
    limits = ResourceLimits(1 << 20, 500)

    assert CgroupRoot(tmp_path).make("x", ResourceLimits()).folders == ()
    assert CgroupRoot(Path("/proc")).make("x", limits).folders == ()
