"""Roles, bindings and reviews: both servers answer what was recorded from kube-apiserver v1.36.3.

The requests are played in their order, as users that the administrator impersonates.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.access_answers import Json, exchange
from tests.contract.raw import TIMEOUT_S, Raw

RECORDED = Path(__file__).parents[1] / "data" / "real_answers" / "access.json"
LATE_S = 30.0  # a real server decides by roles that it knew a moment ago


@pytest.fixture(scope="module", params=["embedded", "kubernetes"])
def raw(request: pytest.FixtureRequest) -> Iterator[Raw]:
    if request.param == "embedded":
        kubeconfig = request.getfixturevalue("embedded_kubeconfig")
    else:
        kubeconfig = request.getfixturevalue("control_plane").kubeconfig
    with Raw(kubeconfig) as raw:
        yield raw


def test_answers_are_those_recorded(raw: Raw) -> None:
    """Code, reason, message and details of every refusal, and the content of every answer."""
    questions: list[Json] = json.loads(RECORDED.read_text())["questions"]
    differing = [text for one in questions for text in _difference(raw, one)]

    assert len(questions) > 150
    assert not differing, "\n".join(differing)


def _difference(raw: Raw, question: Json) -> Iterator[str]:
    """What differs; of another user's question, after a while: a real server caches its roles."""
    deadline = time.monotonic() + (LATE_S if "as" in question else 0.0)
    headers = {"Authorization": f"Bearer {raw.token}"}
    while True:
        connection = http.client.HTTPSConnection(
            raw.host, raw.port, timeout=TIMEOUT_S, context=raw.tls
        )
        code, answer = exchange(connection, question, headers)
        connection.close()
        wanted = question["answer"]
        if "own" in question:  # the text of the refusal is the server's own, for the reason given
            answer, wanted = {"reason": answer.get("reason")}, {"reason": wanted.get("reason")}
        is_same = (code, answer) == (question["status"], wanted)
        if is_same or time.monotonic() > deadline:
            break
        time.sleep(0.1)
    if not is_same:
        yield f"{question['do']} as {question.get('as')}:\n {code} {answer}\n {wanted}"
