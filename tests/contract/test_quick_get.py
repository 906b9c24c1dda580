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

# The lines that take the whole command: it has the sentences for what is missing or wrong, and
# knows the scheduler's rules, by which a job that waits has its position.
LEFT = {
    *("get -o wide", "get --output=wide --no-headers", "get cm missing", "get cm a/b", "get -l ="),
    *("get -n missing", "get queues missing"),
}


def test_both_ways_say_the_same(swell: Swell, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tables, empty answers, missing objects and namespaces: words, streams and exit codes."""
    answered = _noted(monkeypatch)
    counted = quick.try_get
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
    lines = zip((*LINES, *ELSEWHERE), answered, strict=True)
    left = {line for line, is_quick in lines if not is_quick}
    assert left == (LEFT if any(answered) else {*LINES, *ELSEWHERE})


def test_an_answer_in_pieces_is_quick_as_well(
    swell: Swell, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """A long answer comes in chunks, be it of many objects or of those that other tests leave."""
    long = f"name: settings-%d, annotations: {{long: {'x' * 100_000}}}"
    texts = [CONFIG.replace("name: settings", long % n) for n in range(4)]
    assert swell.apply("---\n".join(texts)).code == 0
    answered = _noted(monkeypatch)

    ours = swell.here("get", "cm")
    monkeypatch.setattr(quick, "try_get", lambda *_: None)

    # A real cluster is reached by a certificate.
    assert answered == [request.node.callspec.params["swell"] == "embedded"]
    assert "settings-3" in ours.out
    assert _timeless(ours) == _timeless(swell.here("get", "cm"))


def _noted(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Note of each command line whether the quick way has answered it."""
    answered: list[bool] = []
    real = quick.try_get

    def noted(*given: object) -> int | None:
        code = real(*given)  # type: ignore[arg-type]
        answered.append(code is not None)
        return code

    monkeypatch.setattr(quick, "try_get", noted)
    return answered


def _timeless(result: CommandResult) -> tuple[int, str, str]:
    """Return a result without ages, and without the widths that depend on them."""
    out = re.sub(r"\b(\d+[smhd])+\b", "AGE", result.out)
    return result.code, re.sub(r" +", " ", out), result.err
