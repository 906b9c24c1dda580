"""Logs carry one event name and its fields, and nothing secret."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from swell.runtime.logs import configure, get_logger, hide_secrets
from swell.runtime.plan import Plan
from tests.unit.runtime.test_controller import Snapshot, Stage, decide, play
from tests.unit.runtime.world import key


class FixedClock:
    def now(self) -> float:
        return 1_767_225_600.5

    def monotonic(self) -> float:
        return 0.0

    async def sleep(self, delay_s: float) -> None: ...


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    root = logging.getLogger()
    level, handlers = root.level, list(root.handlers)
    yield
    root.setLevel(level)
    root.handlers[:] = handlers
    structlog.reset_defaults()


def test_json_log_has_fields_and_the_injected_time() -> None:
    """One line a fact, machine readable, stamped by the clock the program was given."""
    out = io.StringIO()
    configure(json=True, clock=FixedClock(), stream=out)
    get_logger("swell.test").info("pod created", key="ns/a", n_pods=3)
    logging.getLogger("other.library").warning("said %s", "so")

    ours, theirs = map(json.loads, out.getvalue().splitlines())
    assert ours == {
        "event": "pod created",
        "key": "ns/a",
        "n_pods": 3,
        "logger": "swell.test",
        "level": "info",
        "time": "2026-01-01T00:00:00.500000Z",
    }
    assert theirs["event"] == "said so"
    assert theirs["logger"] == "other.library"


def test_level_is_kept_to_and_configuring_again_replaces() -> None:
    """Nothing below the level is written, and nothing twice."""
    former, out = io.StringIO(), io.StringIO()
    configure(level="debug", clock=FixedClock(), stream=former)
    configure(level="warning", clock=FixedClock(), stream=out)
    get_logger("swell.test").info("quiet")
    get_logger("swell.test").warning("loud", key="ns/a")

    assert former.getvalue() == ""
    assert out.getvalue().count("\n") == 1
    assert "loud" in out.getvalue()
    assert "key=ns/a" in out.getvalue()


def test_secrets_are_hidden_at_any_depth() -> None:
    """A value whose name says that it is secret does not reach a log."""
    event: dict[str, object] = {
        "event": "request",
        "Authorization": "Bearer abc",
        "user": {"token": "abc", "name": "me", "list": [{"password": "x"}]},
    }

    assert hide_secrets(None, "info", event) == {
        "event": "request",
        "Authorization": "[hidden]",
        "user": {"token": "[hidden]", "name": "me", "list": [{"password": "[hidden]"}]},
    }


def test_unconfigured_loggers_are_quiet_below_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    """A library says nothing unless asked, apart from warnings."""
    get_logger("swell.test").info("nothing to see")

    assert capsys.readouterr() == ("", "")


def test_lines_of_one_pass_have_its_number() -> None:
    """What decisions and writes log names the key and the pass, also from tasks they start."""
    out, passing = io.StringIO(), get_logger("passing")

    async def story(stage: Stage) -> None:
        def spied(snapshot: Snapshot, now: float) -> Plan:
            passing.warning("decided")
            asyncio.get_running_loop().call_soon(passing.warning, "begun")
            return decide(snapshot, now)

        configure(json=True, clock=stage.world.clock, stream=out)
        stage.decide = spied
        await stage.start()
        await stage.world.add_toy("bad", replicas=-1)
        await stage.world.add_toy("good", replicas=1)
        await stage.settle(1)

    play(story)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    by_pass: dict[str, list[str]] = {}
    for line in lines:
        by_pass.setdefault(line.get("reconcileID"), []).append(line["event"])
        assert line["name"] in {"bad", "good"}
        assert (line["controller"], line["namespace"]) == ("toy", key("").namespace)

    assert ["decided", "bug", "begun"] in by_pass.values()
    assert all(number.startswith("toy-") for number in by_pass)
    assert all(events.count("decided") == 1 for events in by_pass.values())
