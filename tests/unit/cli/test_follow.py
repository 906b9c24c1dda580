"""Following a job: over one watch, through ended watches, expired tokens and broken connections."""

from __future__ import annotations

import asyncio
import json
import random
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from swell.api.kinds import AI_TRAINING_JOBS
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import FoundJob
from swell.cli.jobs import follow
from swell.cli.jobs.follow import JobFollower
from swell.cli.jobs.logs import LogLine
from swell.cluster.kube import watching
from swell.cluster.kube.access import Access, ExecPlugin, KubeUser
from swell.cluster.kube.oneshot import OneShot
from tests.unit.cluster.kube.scripted import CUT, Scripted, answer, scripted

OPEN = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"
REFUSED = answer(401, b'{"kind":"Status","code":401}')


class NoLogs:
    """A job that prints nothing."""

    def new_lines(self) -> Iterator[LogLine]:
        return iter(())

    last_lines = current_lines = new_lines


class Lines:
    """Keeps what is said of the job."""

    def __init__(self, said: list[str]) -> None:
        self.progress = self.report = said.append


def job(version: int, phase: str, uid: str = "u") -> bytes:
    meta = {"name": "fit", "namespace": "ns", "uid": uid, "resourceVersion": str(version)}
    return json.dumps({"metadata": meta, "status": {"phase": phase}}).encode()


def listed(version: int, *jobs: bytes) -> bytes:
    body = b'{"metadata":{"resourceVersion":"%d"},"items":[%s]}' % (version, b",".join(jobs))
    return answer(200, body, "Connection: close")


def event(kind: str, body: bytes) -> bytes:
    line = b'{"type":"%s","object":%s}\n' % (kind.encode(), body)
    return b"%x\r\n%s\r\n" % (len(line), line)


def ignored(_: Iterable[LogLine]) -> None:
    """Prints nothing."""


def play(
    answers: Sequence[bytes],
    act: Callable[[JobFollower], FoundJob | None] = lambda f: f.to_the_end(ignored),
    user: KubeUser | None = None,
) -> tuple[FoundJob | None, list[str], Scripted]:
    """How the job ended, what was reported, and what the server was asked for."""
    reports: list[str] = []

    def run(access: Access) -> FoundJob | None:
        access = replace(access, user=user or access.user)
        client = OneShot(access, random.Random(1), sleep=lambda _: None)
        connection = ClusterConnection(client, access)
        found = FoundJob(AI_TRAINING_JOBS.untyped(), json.loads(job(1, "")))
        return act(JobFollower(connection, found, NoLogs(), Lines(reports)))

    async def main() -> tuple[FoundJob | None, list[str], Scripted]:
        async with scripted(answers) as server:
            return await asyncio.to_thread(run, server.access), reports, server

    return asyncio.run(main())


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "REOPEN_S", 0.0)
    monkeypatch.setattr(follow, "RETRY_S", 0.0)


def test_quiet_job_is_followed_over_one_watch() -> None:
    """A second of following costs one list and one watch, not five requests."""
    quiet_s = 1.0
    stopped = threading.Event()

    class StoppedError(Exception): ...

    def until_stopped(follower: JobFollower) -> None:
        def show(_: object) -> None:
            if stopped.is_set():
                raise StoppedError

        timer = threading.Timer(quiet_s, stopped.set)
        timer.start()
        began = time.monotonic()
        with pytest.raises(StoppedError):
            follower.to_the_end(show)
        assert time.monotonic() - began >= quiet_s

    _, reports, server = play([listed(5, job(1, "Running")), OPEN], until_stopped)

    assert server.n_connections == 2
    assert ["watch=1" in asked.line for asked in server.asked] == [False, True]
    assert reports == ["Running"]


def test_final_phase_ends_it() -> None:
    """Phases are reported as they come, and the job is returned as it ended."""
    events = event("MODIFIED", job(6, "Running")) + event("MODIFIED", job(7, "Succeed"))
    ended, _, _ = play([listed(5, job(1, "Pending")), OPEN + events])

    assert ended is not None
    assert ended.phase == "Succeed"


def test_job_that_nobody_looks_at_is_said_to_be_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cluster without an operator would otherwise be waited for in silence."""
    monkeypatch.setattr(follow, "UNSEEN_S_MAX", 0.0)
    _, reports, _ = play([listed(5, job(1, "")), OPEN + event("MODIFIED", job(6, "Succeed"))])

    assert reports == [
        "Accepted: no operator has looked at the job for 0 s;"
        " does one run in this cluster? (swell operator)"
    ]


@pytest.mark.parametrize(
    "answers",
    [
        [listed(5)],
        [listed(5, job(1, "Running", uid="other"))],
        [listed(5, job(1, "Running")), OPEN + event("DELETED", job(6, "Running"))],
    ],
)
def test_deleted_or_replaced_job_is_gone(answers: list[bytes]) -> None:
    """A job of the same name that was created since is another one."""
    assert play(answers)[0] is None


def test_watch_that_ends_or_expires_is_resumed() -> None:
    """Ended: from where it was. Expired: after a new list."""
    expired = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
    answers = [
        listed(5, job(1, "Running")),
        OPEN + event("MODIFIED", job(6, "Running")) + END,
        OPEN + b"%x\r\n%s\r\n" % (len(expired), expired),
        listed(9, job(6, "Running")),
        OPEN + event("MODIFIED", job(10, "Succeed")),
    ]
    ended, reports, server = play(answers)

    assert ended is not None
    assert reports == ["Running"]
    begun = [asked.line.partition("resourceVersion=")[2] for asked in server.asked]
    assert [text.partition("&")[0] for text in begun if text] == ["5", "6", "9"]


def test_broken_connection_is_waited_out() -> None:
    """It is said once; then the job is listed again, for it may have changed meanwhile."""
    answers = [listed(5, job(1, "Running")), OPEN + CUT, *[b""] * 5, listed(9, job(8, "Succeed"))]
    ended, reports, _ = play(answers)

    assert ended is not None
    assert reports == ["Running", "the cluster does not answer; waiting for it"]


def test_token_that_expires_meanwhile_is_renewed(tmp_path: Path) -> None:
    """An exec plugin is run again when the server does not accept its token any more."""
    answers = [
        listed(5, job(1, "Running")),
        OPEN + END,
        REFUSED,
        OPEN + event("MODIFIED", job(6, "Succeed")),
    ]
    ended, _, server = play(answers, user=KubeUser(source=exec_login(tmp_path)))

    assert ended is not None
    sent = [asked.headers["authorization"] for asked in server.asked]
    assert sent == ["Bearer t1", "Bearer t1", "Bearer t1", "Bearer t2"]


def exec_login(folder: Path) -> ExecPlugin:
    """A user whose exec plugin gives another token every time."""
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential"}
    count, script = folder / "count", folder / "plugin"
    count.write_text("0")
    script.write_text(
        f"#!{sys.executable}\nimport json, pathlib\n"
        f"path = pathlib.Path({str(count)!r})\nn = int(path.read_text()) + 1\n"
        "path.write_text(str(n))\n"
        f"print(json.dumps({{**{credential!r}, 'status': {{'token': f't{{n}}'}}}}))\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    return ExecPlugin("c", folder, str(script), credential["apiVersion"])
