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
            {**OWN, "Origin": "null"},
        ):
            async with client.post(stop, json={}, headers=headers) as answer:
                assert answer.status == 403, headers
        async with client.get(f"{address}api/me", headers={"Host": "evil.example"}) as answer:
            assert answer.status == 403

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
