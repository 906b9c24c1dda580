"""The exchange format of job histories: what came, ran and ended, as one JSON line for each job.

The first line is a header with the format's name and version; every other line is one job. Times
are seconds since the epoch. A reader leaves out fields that it does not know, so that later
releases may add some; `docs/history-format.md` describes the format for other programs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import msgspec

from swell.api.codec import decode, encode

FORMAT, VERSION = "swell-history", 1
# One job has at most so many changes of its size and measured sizes; a longer line is refused.
LINE_BYTES_MAX = 1 << 20
_TIME_MAX_S = 1e11
_SIZE_MAX = 1_000_000


class HistoryFormatError(ValueError):
    """A file that is no history, with the line at which that shows."""


class HistoryHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The first line of a history."""

    format: str
    version: int


class HistoryJob(
    msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel", gc=False
):
    """One job of a history: who sent it when, and the sizes of its elastic role over time.

    `sizes` are the changes of its running replicas, as pairs of a time and a number; 0 is a wait.
    `rates` are samples a second by size. `program` is equal for runs of the same program.
    """

    name: str
    submitted: float
    uid: str = ""
    kind: str = ""
    user: str = ""
    queue: str = ""
    priority: int = 0
    program: str = ""
    started: float | None = None
    ended: float | None = None
    outcome: str = ""
    minimum: int = 1
    maximum: int = 1
    devices: int = 1  # of one replica
    sizes: tuple[tuple[float, int], ...] = ()
    samples: int = 0
    total_samples: int | None = None
    rates: dict[str, float] = {}
    noise: float | None = None
    pause_seconds: float | None = None
    deadline: float | None = None


def write_history(jobs: Iterable[HistoryJob]) -> Iterator[bytes]:
    """Returns the lines of a history, the header first."""
    yield encode(HistoryHeader(format=FORMAT, version=VERSION)) + b"\n"
    for job in jobs:
        yield encode(job) + b"\n"


def read_history(lines: Iterable[bytes]) -> Iterator[HistoryJob]:
    """Returns the jobs of a history, checked one by one. Raises HistoryFormatError."""
    is_first = True
    for number, line in enumerate(lines, 1):
        if len(line) > LINE_BYTES_MAX:
            raise HistoryFormatError(f"line {number}: is longer than {LINE_BYTES_MAX} bytes")
        if not line.strip():
            continue
        try:
            if is_first:
                _check_header(decode(line, HistoryHeader))
                is_first = False
                continue
            job = decode(line, HistoryJob)
        except msgspec.DecodeError as error:
            raise HistoryFormatError(f"line {number}: {error}") from error
        problem = _problem(job)
        if problem:
            raise HistoryFormatError(f"line {number}: {problem}")
        yield job
    if is_first:
        raise HistoryFormatError("line 1: has no header")


def _check_header(header: HistoryHeader) -> None:
    if header.format != FORMAT:
        raise HistoryFormatError(f"line 1: the format is {header.format!r}, not {FORMAT!r}")
    if header.version != VERSION:
        raise HistoryFormatError(
            f"line 1: version {header.version} is not known, only version {VERSION}"
        )


def _problem(job: HistoryJob) -> str:
    """Returns what is out of bounds, or an empty text."""
    times = [job.submitted, job.started, job.ended, job.deadline, *(at for at, _ in job.sizes)]
    if any(at is not None and not 0 <= at <= _TIME_MAX_S for at in times):
        return "a time is out of bounds"
    if not 1 <= job.minimum <= job.maximum <= _SIZE_MAX or not 0 <= job.devices <= _SIZE_MAX:
        return "minimum, maximum or devices is out of bounds"
    if any(not 0 <= size <= _SIZE_MAX for _, size in job.sizes):
        return "a size is out of bounds"
    if [at for at, _ in job.sizes] != sorted(at for at, _ in job.sizes):
        return "sizes are not in the order of their times"
    for size, rate in job.rates.items():
        if not (size.isascii() and size.isdecimal()) or not math.isfinite(rate) or rate <= 0:
            return f"the rate at size {size[:20]!r} is out of bounds"
    return ""
