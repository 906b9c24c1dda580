"""An API server alone, and a node agent elsewhere: logs go through the one to the other."""

from __future__ import annotations

import random
import ssl
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from swell.api.kinds import NODES, PODS
from swell.api.meta import Key
from swell.cluster.kube import calls
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.cluster.kube.oneshot import OneShot
from swell.node.pods import BOUND_PODS
from swell.runtime.errors import ServerError
from tests.contract.targets import embedded_server
from tests.e2e.node.cluster import NAMESPACE, NODE, pod_body
from tests.e2e.node.test_restart import node_command

WITHIN_S = 30.0
LOG = f"{PODS.path(NAMESPACE, 'p')}/log"


def test_server_fetches_logs_from_the_node(tmp_path: Path) -> None:
    """Followed to the end and in part; the node tells strangers nothing, and is missed."""
    server_home, node_home = tmp_path / "server", tmp_path / "node"
    with embedded_server(server_home):
        kubeconfig = server_home / "kubeconfig"
        access = read_kubeconfig([kubeconfig])
        client = OneShot(access, random.Random(1))
        with node_command(node_home, "--kubeconfig", str(kubeconfig)):
            body = pod_body("p", "sh", "-c", "echo one; sleep 0.5; echo two")
            client.send(calls.create(PODS, body))
            await_begun(client)

            assert list(client.lines(calls.raw(f"{LOG}?follow=true"))) == [b"one", b"two"]
            assert client.send(calls.raw(f"{LOG}?tailLines=1")) == b"two\n"
            assert ask_as_stranger(client) == 401
        with pytest.raises(ServerError, match="no log from node"):
            client.send(calls.raw(LOG))


def await_begun(client: OneShot) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not client.send(calls.get(BOUND_PODS, Key(NAMESPACE, "p"))).status.container_statuses:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def ask_as_stranger(client: OneShot) -> int:
    node = client.send(calls.get(NODES.untyped(), Key("", NODE)))
    port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
    trusting = ssl.create_default_context()
    trusting.check_hostname = False
    trusting.verify_mode = ssl.CERT_NONE
    url = f"https://127.0.0.1:{port}/containerLogs/{NAMESPACE}/p/main"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(url, context=trusting, timeout=WITHIN_S)
    refused.value.close()
    return refused.value.code
