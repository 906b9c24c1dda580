"""The page's server: who gets in, what each user sees and may do, and what it gives away."""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.page.security import OWN_HEADER
from swell.page.server import PagePlacement, serving
from swell.runtime.clock import SystemClock
from tests.contract.swell_command import Swell
from tests.contract.targets import embedded_server

OWN = {OWN_HEADER: "1"}
CODE = "a-code-from-the-terminal"
WITHIN_S = 60.0
JOB = {
    "apiVersion": "elasticdeeplearning.ai/v1",
    "kind": "AITrainingJob",
    "metadata": {"name": "fit"},
    "spec": {
        "replicaSpecs": {
            "trainer": {
                "replicas": 2,
                "minReplicas": 1,
                "maxReplicas": 4,
                "edlPolicy": "Manual",
                "template": {"spec": {"containers": [{"name": "aitj-trainer", "image": "local"}]}},
            }
        }
    },
}


@dataclass(frozen=True)
class People:
    """A cluster with two namespaces, a job in each, and tokens of its users."""

    home: Path
    swell: Swell
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("page")
    with embedded_server(home):
        yield home


@pytest.fixture
def people(
    home: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> People:
    monkeypatch.setenv("SWELL_HOME", str(home))
    swell = Swell("red", tmp_path, capsys)
    for name in ("red", "blue"):
        own = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
        job = {**JOB, "metadata": {"name": "fit", "namespace": name}}
        for body in (own, job):
            assert swell("apply", "-f", swell.file(yaml.safe_dump(body))).code == 0
    tokens = {}
    for name, role in (("viewer", "view"), ("editor", "edit")):
        swell("user", "delete", name)
        made = swell("user", "create", name, "--role", role, "-n", "red")
        assert made.code == 0, made.err
        tokens[name] = yaml.safe_load(made.out)["users"][0]["user"]["token"]
    return People(home, swell, tokens)


Story = Callable[[aiohttp.ClientSession, str], Awaitable[None]]


def play(people: People, story: Story) -> None:
    """Serve the page, and play a story with a browser's cookies."""

    async def main() -> None:
        clock, rng = SystemClock(), random.Random()
        access = read_kubeconfig([people.home / "kubeconfig"])
        placement = PagePlacement(own=access, code=CODE)
        async with (
            serving(access, placement, clock=clock, random=rng) as address,
            aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as client,
            asyncio.timeout(WITHIN_S),
        ):
            await story(client, address)

    asyncio.run(main())


async def login(client: aiohttp.ClientSession, address: str, token: str, *names: str) -> int:
    body = {"token": token, "namespaces": names}
    async with client.post(f"{address}api/login", json=body, headers=OWN) as answer:
        text = await answer.text()
        assert not token or token not in text
        return answer.status


async def get(client: aiohttp.ClientSession, path: str) -> tuple[int, object]:
    async with client.get(path) as answer:
        return answer.status, await answer.json()


async def jobs(client: aiohttp.ClientSession, address: str) -> list[str]:
    status, rows = await get(client, f"{address}api/state")
    assert status == 200
    assert isinstance(rows, dict)
    return sorted(row["namespace"] for row in rows["aitrainingjobs"])


async def act(client: aiohttp.ClientSession, address: str, action: str, **body: object) -> int:
    path = f"{address}api/jobs/aitrainingjobs/red/fit/{action}"
    async with client.post(path, json=body, headers=OWN) as answer:
        await answer.read()
        return answer.status


def test_nobody_without_a_token_sees_anything(people: People) -> None:
    """No answer but the login's needs none; a wrong token or code gets none."""
    paths = ("me", "state", "stream", "history", "jobs/aitrainingjobs/red/fit", "logs/red/p/c")

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        for path in paths:
            status, body = await get(client, f"{address}api/{path}")
            assert (status, body) == (401, {"error": "log in first"}), path
        assert await act(client, address, "stop") == 401
        for wrong in ("", "wrong", CODE + "x", "a b", "\u00e9", "x" * 20_000):
            assert await login(client, address, wrong) == 401, wrong[:10]
        client.cookie_jar.update_cookies({"swell-page": "guessed"})
        assert (await get(client, f"{address}api/me"))[0] == 401

    play(people, story)


def test_a_viewer_sees_its_namespace_and_changes_nothing(people: People) -> None:
    """Named at login, as it may not list jobs everywhere; other namespaces stay empty."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, people.tokens["viewer"], "red", "blue") == 200
        assert await jobs(client, address) == ["red"]
        status, details = await get(client, f"{address}api/jobs/aitrainingjobs/red/fit")
        assert status == 200
        assert isinstance(details, dict)
        assert details["wallSeconds"] == sum(details["ledger"].values())
        assert (await get(client, f"{address}api/jobs/aitrainingjobs/blue/fit"))[0] == 404
        assert (await get(client, f"{address}api/jobs/secrets/red/x"))[0] == 404
        for action in ("stop", "suspend", "resume"):
            assert await act(client, address, action) == 403
        assert await act(client, address, "scale", role="trainer", size=3) == 403

    play(people, story)


def test_an_editor_may_scale_and_stop(people: People) -> None:
    """Within the bounds of the role, and what makes no sense is refused with a sentence."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, people.tokens["editor"], "red") == 200
        assert await act(client, address, "scale", role="trainer", size=3) == 200
        for size in (0, 5, True, "3", None):
            assert await act(client, address, "scale", role="trainer", size=size) == 422
        assert await act(client, address, "scale", role="nobody", size=2) == 422
        assert await act(client, address, "explode") == 422
        assert await act(client, address, "suspend") == 200

    play(people, story)
    body = people.swell.here("get", "aitj", "fit", "-o", "json").json
    spec = body["spec"]
    assert isinstance(spec, dict)
    assert (spec["replicaSpecs"]["trainer"]["replicas"], spec["suspend"]) == (3, True)


def test_changes_reach_an_open_page(people: People) -> None:
    """As events of the stream: all rows first, then each change, and deletions."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, CODE) == 200
        async with client.get(f"{address}api/stream") as stream:
            first = await _event(stream)
            assert [row["namespace"] for row in first["aitrainingjobs"]] == ["blue", "red"]
            label = ("label", "aitj", "fit", "seen=yes", "--overwrite", "-n", "blue")
            await asyncio.to_thread(people.swell, *label)
            change = await _event(stream)
            assert (change[0]["namespace"], change[0]["name"]) == ("blue", "fit")
            await asyncio.to_thread(people.swell, "delete", "aitj", "fit", "-n", "blue")
            while (await _event(stream))[0]["row"] is not None:
                pass

    play(people, story)


async def _event(stream: aiohttp.ClientResponse) -> Any:
    """The data of the next event; comments keep the connection alive and say nothing."""
    while True:
        line = await stream.content.readline()
        if line.startswith(b"data: "):
            return json.loads(line[6:])


def test_other_sites_can_do_nothing(people: People) -> None:
    """Neither by a form, nor by a script of theirs, nor under another name of this machine."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, CODE) == 200
        stop = f"{address}api/jobs/aitrainingjobs/red/fit/stop"
        for headers in (
            {},
            {**OWN, "Origin": "http://evil.example"},
            {**OWN, "Host": "evil.example"},
            {**OWN, "Host": "[evil.example"},
            {**OWN, "Origin": "null"},
            {**OWN, "Origin": "http://[evil.example"},
        ):
            async with client.post(stop, json={}, headers=headers) as answer:
                assert answer.status == 403, headers
        async with client.get(f"{address}api/me", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403

    play(people, story)


def test_days_of_a_history_are_any_text(people: People) -> None:
    """A number beyond all bounds asks for the whole history, as no number does."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, CODE) == 200
        for days in ("", "7", "x", "-1", "9" * 400, "9" * 5000):
            assert (await get(client, f"{address}api/history?days={days}"))[0] == 200, len(days)

    play(people, story)


def test_answers_are_guarded_and_give_no_credentials_away(
    people: People, caplog: pytest.LogCaptureFixture
) -> None:
    """The policy is on all of them; the cookie is out of scripts' reach; no token is anywhere."""
    caplog.set_level(logging.DEBUG)
    token = people.tokens["viewer"]

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        body = {"token": token, "namespaces": ["red"]}
        async with client.post(f"{address}api/login", json=body, headers=OWN) as answer:
            cookie = answer.headers["Set-Cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        assert token not in cookie
        for path in ("", "page.js", "page.css", "api/me", "api/state", "api/history", "api/no"):
            async with client.get(f"{address}{path}") as answer:
                text = await answer.text()
                policy = answer.headers["Content-Security-Policy"]
            assert token not in text, path
            assert "unsafe" not in policy, path
            assert policy.startswith("default-src 'none'"), path
            assert answer.headers["X-Content-Type-Options"] == "nosniff"
        async with client.post(f"{address}api/logout", headers=OWN) as answer:
            assert answer.status == 200
        assert (await get(client, f"{address}api/me"))[0] == 401

    play(people, story)
    assert token not in caplog.text
    assert CODE not in caplog.text


async def post(client: aiohttp.ClientSession, path: str, body: object) -> tuple[int, Any]:
    async with client.post(path, json=body, headers=OWN) as answer:
        return answer.status, await answer.json()


NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1", "labels": {"topology.kubernetes.io/zone": "east"}},
    "status": {
        "allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"},
        "conditions": [{"type": "Ready", "status": "True"}],
    },
}
HUGE = """
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: %s, namespace: red}
spec:
  replicaSpecs:
    trainer:
      replicas: %d
      template:
        spec:
          containers:
          - {name: aitj-trainer, image: local, resources: {requests: {cpu: "%s"}}}
"""


@pytest.fixture
def node(people: People) -> None:
    """A node with room, and the queue that a scheduler makes when it starts."""
    # The second time without the taint that a new node has until it is ready.
    for body in (NODE, {**NODE, "spec": {"taints": []}}):
        assert people.swell("apply", "-f", people.swell.file(yaml.safe_dump(body))).code == 0
    people.swell("queue", "create", "default")


@pytest.mark.usefixtures("node")
def test_a_pasted_job_is_told_when_it_would_start(people: People) -> None:
    """As `swell plan job` says it, with changes; a bad manifest is refused in words."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        ask = f"{address}api/what-if"
        assert (await post(client, ask, {"manifest": HUGE % ("new", 1, "1")}))[0] == 401
        assert await login(client, address, CODE) == 200
        status, found = await post(client, ask, {"manifest": HUGE % ("new", 2, "1")})
        assert (status, found["answers"][0]["starts"]) == (200, "now"), found
        assert found["answers"][0]["nodes"] == {"n1": 2}
        asked = {"manifest": HUGE % ("new", 2, "1"), "drain": "n1", "replicas": 40}
        status, found = await post(client, ask, asked)
        starts = {one["variant"]: one["starts"] for one in found["answers"]}
        assert starts == {
            "as it is": "now",
            "--replicas 40": "never",
            "--drain n1": "never",
            "--replicas 40 --drain n1": "never",
        }
        for body, text in (
            ({"manifest": HUGE % ("new", 9999, "1")}, "2,000 at most"),
            ({"manifest": HUGE % ("fit", 1, "1")}, "there is a job red/fit already"),
            ({"manifest": HUGE % ("new", 1, "lots")}, "lots"),
            ({"manifest": "kind: Pod"}, "paste one AITrainingJob"),
            ({"manifest": "{"}, "line 2"),
            ({"manifest": HUGE % ("new", 1, "1"), "replicas": "x"}, "whole number"),
            ({"manifest": HUGE % ("new", 1, "1"), "drain": "nowhere"}, "no node nowhere"),
            ({"manifest": HUGE % ("new", 1, "1"), "nodePool": "many"}, "+4x8gpu"),
        ):
            status, found = await post(client, ask, body)
            assert (status, text in found["error"]) == (422, True), found
        assert (await post(client, ask, {"job": "red/none"}))[0] == 404

    play(people, story)


@pytest.mark.usefixtures("node")
def test_a_job_that_is_there_is_picked_and_explained(people: People) -> None:
    """Without it being counted twice. Whoever may not see the cluster gets neither a guess."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, CODE) == 200
        status, found = await post(client, f"{address}api/what-if", {"job": "red/fit"})
        assert (status, found["answers"][0]["starts"]) == (200, "now"), found
        status, why = await get(client, f"{address}api/jobs/aitrainingjobs/red/fit/explain")
        assert status == 200
        assert isinstance(why, dict)
        assert why["summary"].startswith("red/fit")
        assert await login(client, address, people.tokens["viewer"], "red") == 200
        status, found = await post(client, f"{address}api/what-if", {"job": "red/fit"})
        assert (status, "may not list nodes" in found["error"]) == (403, True)
        status, why = await get(client, f"{address}api/jobs/aitrainingjobs/red/fit/explain")
        assert status == 200
        assert isinstance(why, dict)
        assert any("may not list nodes" in note for note in why["notes"])

    play(people, story)


def test_queues_are_opened_and_closed_by_those_who_may(people: People) -> None:
    """A queue below a closed one stays closed, and the answer says so."""
    for name, parent in (("upper", ""), ("lower", "upper")):
        more = ("--parent", parent) if parent else ()
        people.swell("queue", "create", name, *more)

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, CODE) == 200
        path = f"{address}api/queues"
        assert (await post(client, f"{path}/none/close", {}))[0] == 404
        assert (await post(client, f"{path}/upper/burn", {}))[0] == 422
        assert (await post(client, f"{path}/upper/close", {}))[0] == 200
        await until(client, address, ("queues", "upper"), lambda row: row["state"] == "Closing")
        status, found = await post(client, f"{path}/lower/open", {})
        assert (status, "upper above it is closed" in found["error"]) == (422, True)
        assert (await post(client, f"{path}/upper/open", {}))[0] == 200
        assert await login(client, address, people.tokens["editor"], "red") == 200
        assert (await post(client, f"{path}/upper/close", {}))[0] in {403, 404}

    play(people, story)


async def until(
    client: aiohttp.ClientSession,
    address: str,
    named: tuple[str, str],
    holds: Callable[[Any], bool],
) -> Any:
    """The row of an object, once something holds for it; the stream says when it has changed."""
    async with client.get(f"{address}api/stream") as stream:
        first = await _event(stream)
        rows = [row for row in first[named[0]] if row["name"] == named[1]]
        while not rows or not holds(rows[-1]):
            rows += [
                one["row"] for one in await _event(stream) if (one["kind"], one["name"]) == named
            ]
        return rows[-1]


@pytest.mark.usefixtures("node")
def test_nodes_show_what_their_pods_take(people: People) -> None:
    """Once all pods are known; a pod that ends gives its room back."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "red"},
        "spec": {
            "nodeName": "n1",
            "containers": [
                {"name": "c", "image": "local", "resources": {"requests": {"cpu": "1500m"}}}
            ],
        },
    }
    assert people.swell("apply", "-f", people.swell.file(yaml.safe_dump(pod))).code == 0

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, CODE) == 200

        async def taken(cpu_milli: int) -> Any:
            return await until(
                client,
                address,
                ("nodes", "n1"),
                lambda row: row["used"] is not None and row["used"]["cpuMilli"] == cpu_milli,
            )

        row = await taken(1500)
        assert row["has"]["cpuMilli"] == 4000
        assert row["labels"] == {"topology.kubernetes.io/zone": "east"}
        await asyncio.to_thread(people.swell, "delete", "pod", "p", "-n", "red", "--force")
        await taken(0)

    play(people, story)


def test_logins_with_one_token_share_what_they_follow(people: People) -> None:
    """Each ends by itself; the last one ends what was followed."""

    async def story(client: aiohttp.ClientSession, address: str) -> None:
        assert await login(client, address, CODE) == 200
        async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as other:
            assert await login(other, address, CODE) == 200
            assert await jobs(other, address)
            async with other.post(f"{address}api/logout", headers=OWN) as answer:
                assert answer.status == 200
            assert (await get(other, f"{address}api/me"))[0] == 401
        assert await jobs(client, address)

    play(people, story)
