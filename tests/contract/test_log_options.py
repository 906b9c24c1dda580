"""Options of the log subresource: which are refused, and how, by a real server and by ours."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from urllib.parse import urlencode

import pytest

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.cluster.kube.client import connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.runtime.clock import SystemClock
from swell.runtime.errors import ClusterError
from tests.raw_reads import read_raw

# The options, the code of the answer, and the fields it blames. 200 stands for any success.
CASES: list[tuple[dict[str, str], int, list[str]]] = [
    ({"sinceTime": "junk"}, 400, []),
    ({"sinceTime": "2026-01-02"}, 400, []),
    ({"sinceTime": "2026-01-02T03:04:05"}, 400, []),
    ({"sinceTime": "2026-13-02T03:04:05Z"}, 400, []),
    ({"sinceTime": "20260102T030405Z"}, 400, []),
    ({"sinceTime": "2026-01-02 03:04:05Z"}, 400, []),
    ({"sinceTime": "2026-01-02T03:04:05Z"}, 200, []),
    ({"sinceTime": "2026-01-02T03:04:05.123456789Z"}, 200, []),
    ({"sinceTime": "2026-01-02T03:04:05+02:00"}, 200, []),
    ({"sinceTime": ""}, 200, []),
    ({"sinceTime": "null"}, 200, []),
    ({"sinceTime": "junk", "tailLines": "-1"}, 400, []),
    ({"sinceTime": "2026-01-02T03:04:05Z", "sinceSeconds": "5"}, 422, ["[]"]),
    ({"sinceSeconds": "0"}, 422, ["sinceSeconds"]),
    ({"sinceSeconds": "-5"}, 422, ["sinceSeconds"]),
    ({"sinceSeconds": "x"}, 400, []),
    ({"sinceSeconds": ""}, 400, []),
    ({"sinceSeconds": "9223372036854775807"}, 200, []),
    ({"sinceSeconds": "9223372036854775808"}, 400, []),
    ({"tailLines": "-9223372036854775808"}, 422, ["tailLines"]),
    ({"tailLines": "9223372036854775807"}, 200, []),
    ({"tailLines": "99999999999999999999"}, 400, []),
    ({"tailLines": "1.5"}, 400, []),
    ({"tailLines": "0"}, 200, []),
    ({"limitBytes": "-1"}, 422, ["limitBytes"]),
    ({"limitBytes": "9223372036854775807"}, 200, []),
    ({"limitBytes": "0x10"}, 400, []),
    ({"tailLines": "-1", "limitBytes": "0"}, 422, ["limitBytes", "tailLines"]),
]


@pytest.mark.parametrize("server", ["embedded", "kubernetes"])
def test_log_options_are_refused_alike(
    server: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The code and the blamed fields of every answer are those of a real server."""
    if server == "embedded":
        kubeconfig = request.getfixturevalue("embedded_kubeconfig")
    else:
        kubeconfig = request.getfixturevalue("control_plane").kubeconfig

    answers = asyncio.run(_answers(kubeconfig, name=f"p{abs(hash(tmp_path)):x}"))

    assert answers == CASES


async def _answers(kubeconfig: Path, name: str) -> list[tuple[dict[str, str], int, list[str]]]:
    container = {"name": "main", "image": "local"}
    body: Body = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"schedulerName": "none", "containers": [container]},
    }
    access, rng = read_kubeconfig([kubeconfig]), random.Random(1)
    async with connect(access, SystemClock(), rng) as cluster:
        await cluster.create(PODS.untyped(), body)
        path = f"{PODS.path('default', name)}/log"
        found = []
        for query, _, _ in CASES:
            try:
                await read_raw(cluster, f"{path}?{urlencode(query)}")
            except ClusterError as error:
                details = error.status.details
                causes = details.causes if details and details.causes else ()
                found.append((query, error.status.code, sorted(c.field for c in causes)))
            else:
                found.append((query, 200, []))
        return found
