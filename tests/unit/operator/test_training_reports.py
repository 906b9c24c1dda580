"""Reports of training programs: what is believed of them, how they are asked for, how often."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Awaitable, Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.codec import encode
from swell.api.meta import Key, Uid
from swell.api.report import REPORT_BYTES_MAX, TrainingReport, TrainingState
from swell.api.times import parse_time
from swell.operator.framework.report_client import fetch_report
from swell.operator.framework.report_puller import SPACING_S, ReportPuller
from swell.operator.framework.reports import (
    NoReportError,
    ReceivedReport,
    ReportAnswer,
    ReportError,
    ReportSource,
    ReportTarget,
    newer_training,
    read_report,
    training_status,
)
from swell.runtime.queue import WorkQueue
from swell.sim.loop import VirtualClock, run

AT = 1_800_000_000.0
KEY, UID = Key("team", "fit"), Uid("u")
FULL = (
    b'{"generation":3,"epoch":2,"size":4,"step":50,"samples":2500,"totalSamples":10000,'
    b'"rates":{"2":60.123456,"4":125.0},"gradientNorm2":0.5,"gradientVariance":2.0,'
    b'"loss":-0.25,"lastSave":{"step":40,"time":"2027-01-15T07:59:00Z","seconds":1.5},'
    b'"saves":true,"lastPauseSeconds":0.21,"slowest":{"index":3,"ratio":1.6}}'
)


def received(**fields: object) -> ReceivedReport:
    base: dict[str, object] = {"generation": 1, "epoch": 1, "size": 2, "step": 1, **fields}
    return ReceivedReport(read_report(encode(base)), AT, "trainer", 0)


def test_report_fills_in_a_status() -> None:
    status = training_status(ReceivedReport(read_report(FULL), AT, "trainer", 0))

    assert (status.progress, status.rate, status.size, status.step) == ("25%", "125", 4, 50)
    assert status.rates == {"2": "60.12", "4": "125"}
    assert status.eta is not None
    assert parse_time(status.eta) == AT + 7500 / 125
    assert (status.noise, status.loss, status.last_pause_seconds) == ("4", "-0.25", "0.21")
    assert status.last_save is not None
    assert (status.last_save.step, status.last_save.seconds) == (40, "1.5")
    assert status.slowest is not None
    assert (status.slowest.index, status.slowest.ratio) == (3, "1.6")
    assert (status.state, status.saves) == (TrainingState.TRAINING, True)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"\xff\xfe",
        b'{"generation":1,"epoch":1,"size":2}',
        b'{"generation":-1,"epoch":1,"size":2,"step":1}',
        b'{"generation":1,"epoch":1,"size":2000000,"step":1}',
        b'{"generation":1,"epoch":1,"size":2,"step":9007199254740992}',
        b'{"generation":1,"epoch":1,"size":2,"step":1.5}',
        b'{"generation":1,"epoch":1,"size":2,"step":1,"state":"dancing"}',
        b'{"generation":1,"epoch":1,"size":2,"step":1,"loss":NaN}',
        b'{"generation":1,"epoch":1,"size":2,"step":1,"totalSamples":-5}',
        b"[" * 2000,
        b'{"generation":1,"epoch":1,"size":2,"step":1,"x":"' + b"x" * REPORT_BYTES_MAX + b'"}',
    ],
)
def test_text_that_is_no_report_is_refused(raw: bytes) -> None:
    with pytest.raises(ReportError):
        read_report(raw)


@pytest.mark.parametrize(
    "fields",
    [
        {"rates": {"2": -5.0}, "totalSamples": 10},
        {"rates": {"2": 1e300}, "totalSamples": 10},
        {"rates": {"2": 1e-300}, "totalSamples": 10},
        {"rates": {"2": 0.0}, "totalSamples": 10},
        {"rates": {"two": 5.0, "-1": 5.0, "9" * 40: 5.0, "02": 1.0}, "totalSamples": 10},
        {"lastSave": {"step": 1, "time": "0001-01-01T00:00:00Z"}},
        {"lastSave": {"step": 1, "time": "9999-12-31T23:59:59Z"}},
        {"lastSave": {"step": -1, "time": "2026-01-01T00:00:00Z"}},
        {"lastSave": {"step": 1, "time": "yesterday"}},
        {"slowest": {"index": -1, "ratio": 2.0}},
        {"slowest": {"index": 1, "ratio": -2.0}},
        {"gradientNorm2": 0.0, "gradientVariance": 1.0},
        {"samples": 50, "totalSamples": 10},
    ],
)
def test_numbers_out_of_bounds_are_left_out(fields: dict[str, object]) -> None:
    status = training_status(received(**fields))

    assert status.last_save is None
    assert status.slowest is None
    assert (status.eta, status.noise) == (None, "")
    assert all(size.isdecimal() and len(size) < 8 for size in status.rates)
    assert status.progress in {"", "0%", "100%"}


numbers = st.floats(allow_nan=True, allow_infinity=True) | st.none()
counts = st.integers(-(2**70), 2**70) | st.none()


@given(
    st.fixed_dictionaries(
        {"generation": counts, "epoch": counts, "size": counts, "step": counts},
        optional={
            "samples": counts,
            "totalSamples": counts,
            "rates": st.dictionaries(st.text(max_size=5) | st.just("2"), numbers, max_size=9),
            "stepTimes": st.dictionaries(
                st.sampled_from(["1/1/8", "2/1/8", "0/0/0", "x"]),
                st.tuples(numbers, numbers),
                max_size=3,
            ),
            "batchRange": st.none() | st.tuples(counts, counts, counts, counts),
            "loss": numbers,
            "gradientNorm2": numbers,
            "gradientVariance": numbers,
            "lastPauseSeconds": numbers,
            "lastSave": st.fixed_dictionaries(
                {"step": counts, "time": st.text(max_size=30)}, optional={"seconds": numbers}
            ),
        },
    )
)
def test_no_report_breaks_the_status(fields: dict[str, object]) -> None:
    """Whatever a program says, the status' numbers are finite, short texts."""
    try:
        report = read_report(encode(fields))
    except ReportError:
        return
    status = training_status(ReceivedReport(report, AT, "trainer", 0))
    texts = [status.rate, status.noise, status.loss, status.last_pause_seconds]

    assert all(len(text) <= 32 for text in (*texts, *status.rates.values()))
    assert all(len(text) <= 32 for text in status.step_times.values())
    assert len(status.batch_range) <= 64
    assert all(math.isfinite(float(text)) for text in texts if text)


def test_older_report_does_not_replace_a_newer_one() -> None:
    first = training_status(received(step=5))

    assert newer_training(first, None) is first
    assert newer_training(first, received(step=9)) is first  # heard in the same second
    later = ReceivedReport(received(step=9).report, AT + 11, "trainer", 0)
    newer = newer_training(first, later)
    assert newer is not None
    assert newer.step == 9


# -- the request -------------------------------------------------------------------------------

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def asked(handler: Handler, token: str = "t") -> ReportAnswer:
    """The answer of a program that handles a connection so."""

    async def main() -> ReportAnswer:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await handler(reader, writer)
            finally:
                writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        async with server:
            return await fetch_report("127.0.0.1", server.sockets[0].getsockname()[1], token)

    return asyncio.run(main())


def saying(raw: bytes, heard: list[bytes] | None = None) -> Handler:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        if heard is not None:
            heard.append(head)
        writer.write(raw)
        await writer.drain()

    return handle


def test_report_is_asked_for_with_the_token() -> None:
    heard: list[bytes] = []
    answer = asked(saying(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", heard), "abc")

    assert answer == ReportAnswer(200, b"{}")
    assert heard[0].startswith(b"GET /report HTTP/1.1\r\n")
    assert b"Authorization: Bearer abc\r\n" in heard[0]


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 xyz\r\nContent-Length: 2\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: -9\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000,
    ],
)
def test_answer_that_is_none_is_no_report(raw: bytes) -> None:
    with pytest.raises(NoReportError):
        asked(saying(raw))


def test_silent_program_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swell.operator.framework.report_client.ANSWER_S", 0.05)

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    with pytest.raises(NoReportError):
        asked(silent)


def test_port_that_refuses_is_no_report() -> None:
    with pytest.raises(NoReportError):
        asyncio.run(fetch_report("127.0.0.1", 1, "t"))


# -- who is asked, and how often ---------------------------------------------------------------


class Programs:
    """Programs of jobs in virtual time: the leader reports, the others name it."""

    def __init__(self, clock: VirtualClock, n_jobs: int = 1) -> None:
        self.clock = clock
        self.leader = 0
        self.step = 0
        self.down: set[int] = set()
        self.asked: list[tuple[float, str]] = []
        self.woken: list[Key] = []
        self.written = ""
        self.keys = [Key("team", f"job-{n}") for n in range(n_jobs)]
        self.gone: set[Key] = set()
        queue = WorkQueue[Key](clock=clock, random=Random(1))
        self.puller = ReportPuller(self.target, self.fetch, queue, clock, self.woken.append)

    def target(self, key: Key) -> ReportTarget | None:
        if key in self.gone:
            return None
        sources = tuple(
            ReportSource("trainer", n, f"{key.name}/{n}", self.written if n == 1 else "")
            for n in range(4)
        )
        return ReportTarget(Uid(key.name), "token", 23232, sources)

    async def fetch(self, target: ReportTarget, source: ReportSource) -> ReportAnswer:
        self.asked.append((self.clock.monotonic(), source.address))
        index = int(source.address.rpartition("/")[2])
        if index in self.down or (target.port, target.token) != (23232, "token"):
            raise NoReportError(source.address)
        if index != self.leader:
            return ReportAnswer(404, encode({"leader": self.leader}))
        self.step += 1
        report = TrainingReport(generation=1, epoch=1, size=4, step=self.step)
        return ReportAnswer(200, encode(report))

    def heard(self, n: int = 0) -> ReceivedReport | None:
        return self.puller.received(self.keys[n], Uid(self.keys[n].name))


def play(story: Callable[[Programs], Awaitable[None]], n_jobs: int = 1) -> None:
    async def main() -> None:
        programs = Programs(VirtualClock(), n_jobs)
        task = asyncio.create_task(programs.puller.run())
        for key in programs.keys:
            programs.puller.note(key)
            programs.puller.note(key)
        try:
            await story(programs)
        finally:
            programs.puller.stop()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    run(main())


def test_leader_is_found_and_followed() -> None:
    async def story(programs: Programs) -> None:
        programs.leader = 2
        await programs.clock.sleep(11)
        assert [address for _, address in programs.asked] == ["job-0/0", "job-0/2"]
        held = programs.heard()
        assert held is not None
        assert (held.role, held.index, held.report.step) == ("trainer", 2, 1)
        assert programs.woken == programs.keys
        await programs.clock.sleep(10)
        assert [address for _, address in programs.asked[2:]] == ["job-0/2"]
        programs.leader, programs.down = 3, {2}
        await programs.clock.sleep(10)
        assert [address for _, address in programs.asked[3:]] == ["job-0/2", "job-0/0", "job-0/3"]

    play(story)


def test_job_is_asked_every_ten_seconds_at_most() -> None:
    async def story(programs: Programs) -> None:
        await programs.clock.sleep(605)
        times = [at for at, _ in programs.asked]
        assert 55 <= len(times) <= 60
        assert min(b - a for a, b in itertools.pairwise(times)) >= 10

    play(story)


def test_many_jobs_have_a_fixed_share_of_time() -> None:
    """Five hundred jobs together are asked as often as their share allows."""

    async def story(programs: Programs) -> None:
        await programs.clock.sleep(1200)
        assert len(programs.asked) <= 1200 / SPACING_S * 1.1
        assert all(programs.heard(n) is not None for n in range(500))

    play(story, 500)


def test_silent_job_is_asked_ever_less_and_is_as_one_that_does_not_report() -> None:
    async def story(programs: Programs) -> None:
        programs.down = {0, 1, 2, 3}
        await programs.clock.sleep(1200)
        assert programs.heard() is None
        assert programs.woken == []
        assert len(programs.asked) < 3 * 15
        programs.down = set()
        await programs.clock.sleep(131)
        assert programs.heard() is not None

    play(story)


def test_job_that_ends_is_forgotten_and_its_namesake_begins_anew() -> None:
    async def story(programs: Programs) -> None:
        await programs.clock.sleep(11)
        assert programs.heard() is not None
        assert programs.puller.received(programs.keys[0], Uid("other")) is None
        programs.gone = set(programs.keys)
        await programs.clock.sleep(10)
        assert programs.heard() is None
        n_asked = len(programs.asked)
        await programs.clock.sleep(100)
        assert len(programs.asked) == n_asked

    play(story)


def test_report_that_a_node_has_read_is_taken_without_asking() -> None:
    async def story(programs: Programs) -> None:
        programs.written = encode(TrainingReport(generation=9, epoch=1, size=4, step=7)).decode()
        await programs.clock.sleep(11)
        held = programs.heard()
        assert held is not None
        assert (held.index, held.report.step, programs.asked) == (1, 7, [])
        programs.written = "x" * 100_000
        await programs.clock.sleep(10)
        assert programs.asked

    play(story)
