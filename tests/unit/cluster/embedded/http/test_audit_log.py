"""The audit log: bounded files of its owner's, and a bound for requests of nobody known."""

from __future__ import annotations

import json
from pathlib import Path

from swell.cluster.embedded.access.attributes import ADMIN, Identity, RequestAttributes
from swell.cluster.embedded.http.audit import UNKNOWN_MAX, UNKNOWN_S, AuditLog

WANTED = RequestAttributes("create", resource="pods", namespace="default")


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_full_file_is_rotated(tmp_path: Path) -> None:
    """No file is larger than the bound, three former ones are kept, all are private."""
    log = AuditLog(tmp_path / "audit.log", lambda: 0.0, bytes_max=2000)
    for n in range(100):
        log.record(ADMIN, WANTED, 201, f"/{n}", "test")
    log.close()
    files = sorted(tmp_path.iterdir())

    assert [file.name for file in files] == [
        "audit.log", "audit.log.1", "audit.log.2", "audit.log.3",
    ]  # fmt: skip
    assert all(file.stat().st_size <= 2000 for file in files)
    assert all(file.stat().st_mode & 0o777 == 0o600 for file in files)
    assert lines(tmp_path / "audit.log")[-1]["uri"] == "/99"


def test_file_goes_on_after_a_restart(tmp_path: Path) -> None:
    """Lines of an earlier server stay."""
    for n in range(2):
        log = AuditLog(tmp_path / "audit.log", lambda: 0.0)
        log.record(Identity(f"user-{n}"), WANTED, 403, "/", "")
        log.close()

    assert [line["user"] for line in lines(tmp_path / "audit.log")] == ["user-0", "user-1"]


def test_requests_of_nobody_known_do_not_push_out_others(tmp_path: Path) -> None:
    """Some are shown, the others are counted in the next line."""
    now = 0.0
    log = AuditLog(tmp_path / "audit.log", lambda: now)
    for _ in range(UNKNOWN_MAX + 1000):
        log.record(None, WANTED, 401, "/x" * 10_000, "a" * 10_000)
    assert len(lines(tmp_path / "audit.log")) == UNKNOWN_MAX
    log.record(ADMIN, WANTED, 201, "/", "")
    assert lines(tmp_path / "audit.log")[-1]["unknownNotShown"] == 1000
    now = UNKNOWN_S
    log.record(None, WANTED, 401, "/", "")
    log.close()

    assert lines(tmp_path / "audit.log")[-1]["code"] == 401
    assert (tmp_path / "audit.log").stat().st_size < 50_000


def test_log_that_cannot_be_written_holds_up_nothing(tmp_path: Path) -> None:
    """The request is answered; the server's own log tells of the missing line."""
    (tmp_path / "audit.log").mkdir()
    log = AuditLog(tmp_path / "audit.log", lambda: 0.0)

    log.record(ADMIN, WANTED, 201, "/", "")
