"""Choices about the history, and what the keeper asks of a kind of job. Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from swell.api.meta import Key, Uid
from swell.api.pod import Pod


@dataclass(frozen=True, slots=True)
class HistorySettings:
    """How much history is kept, and how often records of living jobs are written."""

    days: float = 90.0
    jobs_max: int = 10_000
    checkpoint_s: float = 30.0


@dataclass(frozen=True, slots=True)
class PodPlace:
    """The job, the role and the index that a pod belongs to."""

    job: Key
    job_uid: Uid
    role: str
    index: int


class RecordMeter(Protocol):
    """Counts records of ended jobs: kept, refused, or late (a deletion did not wait for it)."""

    def recorded(self, controller: str, result: str, n_jobs: int) -> None: ...


PlaceOf = Callable[[Pod], PodPlace | None]
