"""Asks a running program for its metrics, as Prometheus in a cluster would."""

from __future__ import annotations

import asyncio
import socket
import ssl
import urllib.error
import urllib.request

from tests.e2e.deploy.installed import NAMESPACE, WITHIN_S, Installed

READER = "reader"
STRANGER = "stranger"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def metrics_flags(port: int) -> list[str]:
    """Metrics on loopback, for those only who would be let in from elsewhere."""
    return [f"--metrics-addr=127.0.0.1:{port}", "--metrics-auth=kubernetes"]


def accounts(installed: Installed) -> dict[str, str]:
    """The tokens of two accounts: one that may read metrics, and one that may not."""
    kubectl = installed.kubectl
    tokens = {}
    for name in (READER, STRANGER):
        kubectl.run("create", "serviceaccount", name, "-n", NAMESPACE)
        tokens[name] = kubectl.ok("create", "token", name, "-n", NAMESPACE).strip()
    binding = ("clusterrolebinding", "reads-metrics", "--clusterrole=swell-metrics-reader")
    kubectl.run("create", *binding, f"--serviceaccount={NAMESPACE}:{READER}")
    return tokens


async def until_answered(port: int, token: str, status: int) -> str:
    """The body of the first answer with that status; a TimeoutError when there is none."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            found, body = await asyncio.to_thread(_ask, port, token)
            if found == status:
                return body
            await asyncio.sleep(0.5)


def _ask(port: int, token: str) -> tuple[int, str]:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics", headers=headers)
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE  # made anew at every start
    try:
        with urllib.request.urlopen(request, context=tls, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()
    except urllib.error.URLError:
        return 0, ""
