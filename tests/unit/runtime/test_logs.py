"""Logs carry one event name and its fields, and nothing secret."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from swell.runtime.logs import configure, get_logger, hide_secrets


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
