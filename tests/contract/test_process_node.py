"""The node agent with real processes on a real API server, logs through it included."""

from __future__ import annotations

import asyncio
import datetime as dt
import os
import random
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from swell.api.kinds import NODES, PODS
from swell.api.meta import Key
from swell.cluster.kube.client import KubeCluster, connect
from swell.cluster.kube.kubeconfig import read_kubeconfig
from swell.node.pods import BOUND_PODS, BoundPod
from swell.runtime.clock import SystemClock
from swell.runtime.errors import NotFoundError
from tests.e2e.node.cluster import NAMESPACE, NODE, main_of, pod_body
from tests.raw_reads import read_raw
from tests.testbed.control_plane import ControlPlane, running_control_plane

WITHIN_S = 30.0
PROGRAM = "from swell.cli.main import main; main()"


def write_client_identity(folder: Path) -> list[str]:
    """An authority, and a certificate of it by which an API server shows itself to kubelets."""
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "clients")])
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "system:masters"),
            x509.NameAttribute(NameOID.COMMON_NAME, "api-server"),
        ]
    )
    now = dt.datetime.now(dt.UTC)
    made = []
    for name, public, is_authority in (
        (authority, authority_key.public_key(), True),
        (subject, key.public_key(), False),
    ):
        usage = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(authority)
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(days=1))
            .add_extension(x509.BasicConstraints(is_authority, None), critical=True)
        )
        if not is_authority:
            builder = builder.add_extension(usage, critical=False)
        made.append(builder.sign(authority_key, hashes.SHA256()))
    pem = serialization.Encoding.PEM
    (folder / "clients.crt").write_bytes(made[0].public_bytes(pem))
    (folder / "client.crt").write_bytes(made[1].public_bytes(pem))
    plain = serialization.NoEncryption()
    secret = key.private_bytes(pem, serialization.PrivateFormat.PKCS8, plain)
    (folder / "client.key").write_bytes(secret)
    return [
        f"--client-ca-file={folder}/clients.crt",
        f"--kubelet-client-certificate={folder}/client.crt",
        f"--kubelet-client-key={folder}/client.key",
        "--kubelet-preferred-address-types=InternalIP",
    ]


@pytest.fixture(scope="module")
def plane(
    testbed_binaries: None,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ControlPlane]:
    """A control plane that shows itself to kubelets, with an agent of this machine."""
    folder = tmp_path_factory.mktemp("identity")
    flags = write_client_identity(folder)
    with running_control_plane(controllers=(), api_server_flags=flags) as plane:
        command = [sys.executable, "-c", PROGRAM, "node", "--name", "here"]
        command += ["--kubeconfig", str(plane.kubeconfig)]
        environ = os.environ | {"SWELL_HOME": str(folder / "home")}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as agent:
            try:
                assert agent.stderr is not None
                line = agent.stderr.readline()
                assert "ready" in line, line + agent.stderr.read()
                yield plane
            finally:
                agent.terminate()
                agent.wait(WITHIN_S)


def play(plane: ControlPlane, act: Callable[[KubeCluster], Awaitable[None]]) -> None:
    async def go() -> None:
        access = read_kubeconfig([plane.kubeconfig])
        async with connect(access, SystemClock(), random.Random(1)) as cluster:
            await act(cluster)

    asyncio.run(go())


async def ended(cluster: KubeCluster, name: str) -> BoundPod:
    async with asyncio.timeout(WITHIN_S):
        while True:
            pod = await cluster.get(BOUND_PODS, Key(NAMESPACE, name))
            if pod.is_final:
                return pod
            await asyncio.sleep(0.05)


def test_pod_runs_and_its_log_is_fetched(plane: ControlPlane) -> None:
    """The exit code is reported, and the API server gets the log from the agent."""

    async def act(cluster: KubeCluster) -> None:
        body = pod_body("talks", "sh", "-c", "echo hello; exit 4")
        body["spec"]["tolerations"] = [{"operator": "Exists"}]
        await cluster.create(PODS, body)
        terminated = main_of(await ended(cluster, "talks")).state.terminated
        text = await read_raw(cluster, f"/api/v1/namespaces/{NAMESPACE}/pods/talks/log")

        assert terminated is not None
        assert terminated.exit_code == 4
        assert terminated.message == "hello"
        assert text == b"hello\n"

    play(plane, act)


def test_deleted_pod_goes_with_its_process(plane: ControlPlane) -> None:
    """SIGTERM ends it, and the agent removes the object."""

    async def act(cluster: KubeCluster) -> None:
        key = Key(NAMESPACE, "stays")
        body = pod_body("stays", "sleep", "1000")
        body["spec"]["tolerations"] = [{"operator": "Exists"}]
        await cluster.create(PODS, body)
        async with asyncio.timeout(WITHIN_S):
            while (await cluster.get(PODS, key)).status.phase.value != "Running":  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        await cluster.delete(PODS, key)
        async with asyncio.timeout(WITHIN_S):
            while True:
                try:
                    await cluster.get(PODS, key)
                except NotFoundError:
                    return
                await asyncio.sleep(0.05)

    play(plane, act)


def test_strangers_learn_nothing(plane: ControlPlane) -> None:
    """Without a certificate or a token that the API server knows, there is no log."""

    async def act(cluster: KubeCluster) -> None:
        node = await cluster.get(NODES.untyped(), Key("", NODE))
        port = node["status"]["daemonEndpoints"]["kubeletEndpoint"]["Port"]
        url = f"https://127.0.0.1:{port}/containerLogs/{NAMESPACE}/talks/main"
        codes = [await asyncio.to_thread(code_of, url, token) for token in ("", "wrong")]

        assert codes == [401, 401]

    play(plane, act)


def code_of(url: str, token: str) -> int:
    trust = ssl.create_default_context()
    trust.check_hostname = False
    trust.verify_mode = ssl.CERT_NONE
    request = urllib.request.Request(url)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, context=trust, timeout=10) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        with error:
            return error.code
