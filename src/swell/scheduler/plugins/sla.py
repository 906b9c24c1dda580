"""The plugin sla admits groups that have waited too long, and serves the earliest due first."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from swell.api.times import parse_time
from swell.scheduler.config import PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks, Vote
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.session import Session

WAITING_TIME: Final = "sla-waiting-time"
ANNOTATION: Final = "volcano.sh/sla-waiting-time"
_NEVER = float("inf")
# Units of Go's time.ParseDuration, which Volcano uses.
_UNIT_S = {"ns": 1e-9, "us": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}
_DURATION_LENGTH_MAX = 200
_PART = re.compile(r"(\d+(?:\.\d*)?)(ns|us|ms|s|m|h)")


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields that the waiting time has no effect, if it is no duration."""
    value = option.arguments.values.get(WAITING_TIME)
    if value is not None and duration_s(str(value)) is None:
        yield f"argument {WAITING_TIME!r} has no effect: {value!r} is no duration like 1h30m"


KNOWN: Final = KnownPlugin(
    switches=("enableJobOrder", "enableJobEnqueued", "enableJobPipelined"),
    arguments={WAITING_TIME: ArgumentKind.TEXT},
    remarks=remarks,
)


def open_sla(session: Session, option: PluginOption) -> Hooks:
    due = due_time(option.arguments.text(WAITING_TIME))

    def vote(job: JobInfo) -> Vote:
        late = session.now is not None and due(job) < session.now
        return Vote.PERMIT if late else Vote.ABSTAIN

    return Hooks(job_key=due, enqueueable=vote, pipelined=vote)


def due_time(default_waiting: str) -> Callable[[JobInfo], float]:
    """Returns a function: when a job is overdue, in seconds since the epoch; infinite for never."""
    default_s = duration_s(default_waiting)

    def due(job: JobInfo) -> float:
        own_s = duration_s(job.group.metadata.annotations.get(ANNOTATION, ""))
        waiting_s = default_s if own_s is None else own_s
        # Without a creation time the limit alone orders jobs from files, as if created at 0.
        if waiting_s is None or not job.created:
            return _NEVER if waiting_s is None else waiting_s
        return parse_time(job.created) + waiting_s

    return due


def duration_s(text: str) -> float | None:
    """Returns the seconds of a Go duration like 1h30m; None if malformed or not positive."""
    # The pattern takes more than linear time on a long row of digits.
    parts = _PART.findall(text) if len(text) <= _DURATION_LENGTH_MAX else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        return None
    total = sum(float(number) * _UNIT_S[unit] for number, unit in parts)
    return total if total > 0 else None
