"""Both ways to answer `swell get`, the quick one and the whole command, print the same."""

from __future__ import annotations

import re

import pytest

from swell.cli import quick
from tests.contract.swell_command import CommandResult, Swell
from tests.contract.test_commands import CONFIG, JOB

TRAINING_JOB = """\
apiVersion: paddlepaddle.org/v1
kind: TrainingJob
metadata: {name: old}
spec:
  image: local
  trainer: {entrypoint: "true", min-instance: 1, max-instance: 1}
"""
LINES = (
    *("get", "get -o wide", "get --output=wide --no-headers", "get --show-labels", "get jobs"),
    *("get cm", "get cm settings", "get configmap settings more", "get cm missing", "get cm a/b"),
    *("get -l team=a", "get --selector team=b", "get pods -l x", "get -l =", "get aitj fit"),
    *("get services", "get rs", "get secrets", "get pg", "get tj"),
)
ELSEWHERE = (
    *("get -A", "get cm -A", "get cm -A --no-headers --show-labels", "get nodes", "get pods -A"),
    *("get ns", "get queues", "get -n missing", "get queues missing", "get hn -o wide"),
)


def test_both_ways_say_the_same(swell: Swell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, empty answers, missing objects and namespaces: words, streams and exit codes."""
    answered: list[bool] = []

    def counted(*given: object) -> int | None:
        code = real(*given)  # type: ignore[arg-type]
        answered.append(code is not None)
        return code

    real = quick.try_get
    more = CONFIG.replace("settings", "more")
    assert swell.apply(f"{JOB}---\n{CONFIG}---\n{more}---\n{TRAINING_JOB}").code == 0
    for line in (*LINES, *ELSEWHERE):
        words = [*line.split(), *(("-n", swell.namespace) if line in LINES else ())]
        monkeypatch.setattr(quick, "try_get", counted)
        ours = swell(*words)
        monkeypatch.setattr(quick, "try_get", lambda *_: None)
        whole = swell(*words)
        assert _timeless(ours) == _timeless(whole), line
    # A real cluster is reached by a certificate, which is left to the whole command.
    is_embedded = any(answered)
    lines = zip((*LINES, *ELSEWHERE), answered, strict=True)
    quick_lines = [line for line, is_quick in lines if is_quick]
    # Seven lines take the whole command. It also answers where the quick one meets an answer that
    # it does not expect, as beside the objects that other tests leave on this server.
    assert len(quick_lines) >= (len(LINES) + len(ELSEWHERE) - 9 if is_embedded else 0), quick_lines


def _timeless(result: CommandResult) -> tuple[int, str, str]:
    """Return a result without ages, and without the widths that depend on them."""
    out = re.sub(r"\b(\d+[smhd])+\b", "AGE", result.out)
    return result.code, re.sub(r" +", " ", out), result.err
