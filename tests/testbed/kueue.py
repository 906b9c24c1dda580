"""Starts a Kueue as it is released, and an integration of our jobs, on a control plane.

Decides what Kueue is configured to, and where its webhooks listen. The manifests are those of the
Go module that it was built from. Whatever was started has ended when the context is left.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime as dt
import ipaddress
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from swell.api.kinds import CUSTOM_RESOURCE_DEFINITIONS, NAMESPACES
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.runtime.cluster import Cluster, Patch, PatchKind, WriteOptions
from swell.runtime.errors import NotFoundError
from testbed.build import kueue_dir
from tests.testbed import binaries
from tests.testbed.control_plane import ControlPlane
from tests.testbed.processes import ChildProcess, free_loopback_ports

NAMESPACE, PREFIX = "kueue-system", "kueue"
GROUP = "kueue.x-k8s.io"
# With an integration that runs outside of Kueue, it has to know of the kind.
OUR_KIND = "AITrainingJob.v1.elasticdeeplearning.ai"
SERVICE_NAME = f"{PREFIX}-webhook-service.{NAMESPACE}.svc"
VALIDITY = dt.timedelta(days=700)  # Kueue replaces what ends within 90 days
READY_S_MAX, POLL_S, STOP_GRACE_S = 120.0, 0.2, 10.0
# Not of our business here, and would listen on every address of the machine.
GATES = {"VisibilityOnDemand": False}


def kind(plural: str, name: str, *, namespaced: bool) -> Resource[Body]:
    """A kind of Kueue's."""
    return Resource(GROUP, "v1beta2", name, plural, dict, namespaced=namespaced)


WORKLOADS = kind("workloads", "Workload", namespaced=True)
LOCAL_QUEUES = kind("localqueues", "LocalQueue", namespaced=True)
CLUSTER_QUEUES = kind("clusterqueues", "ClusterQueue", namespaced=False)
FLAVORS = kind("resourceflavors", "ResourceFlavor", namespaced=False)
_SECRETS: Resource[Body] = Resource("", "v1", "Secret", "secrets", dict)
_ADMISSION = "admissionregistration.k8s.io"
_HOOKS: dict[str, Resource[Body]] = {
    name: Resource(_ADMISSION, "v1", name, f"{name.lower()}s", dict, namespaced=False)
    for name in ("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
}


@dataclass(frozen=True, slots=True)
class _Ports:
    hooks: int
    health: int


@contextlib.asynccontextmanager
async def running_kueue(
    plane: ControlPlane, admin: Cluster, folder: Path, *, knows_our_kind: bool
) -> AsyncIterator[None]:
    """Install and run Kueue. Unless it knows our kind of job, it sees nothing but its pods."""
    ports = _Ports(*free_loopback_ports(2))
    folder.mkdir()  # noqa: ASYNC240, nothing else happens yet
    await _install(admin, folder, ports)
    await _until_served(admin)
    config = folder / "config.yaml"
    config.write_text(json.dumps(_configuration(folder, ports, knows_our_kind=knows_our_kind)))
    with contextlib.ExitStack() as started:
        where = f"--kubeconfig={plane.kubeconfig}"
        commands = {"kueue": [f"--config={config}", where]}
        if knows_our_kind:
            commands["kueue-jobs"] = [where]
        processes = []
        for name, flags in commands.items():
            command = [str(binaries.binary(name)), *flags]
            processes.append(ChildProcess(name, command, folder / f"{name}.log"))
            started.callback(processes[-1].stop, grace_s=STOP_GRACE_S)
        await _until_ready(processes, ports)
        yield


async def _until_served(admin: Cluster) -> None:
    """Wait until the kinds are served, without which Kueue ends at once."""
    for resource in (WORKLOADS, LOCAL_QUEUES, CLUSTER_QUEUES, FLAVORS):
        async with asyncio.timeout(READY_S_MAX):
            while True:
                try:
                    await admin.list(resource)
                except NotFoundError:
                    await asyncio.sleep(POLL_S)
                else:
                    break


async def _until_ready(processes: Sequence[ChildProcess], ports: _Ports) -> None:
    """Wait until Kueue takes questions about objects, and nothing has ended."""
    async with asyncio.timeout(READY_S_MAX):
        while True:
            for process in processes:
                process.check_running()
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", ports.hooks)
            except OSError:
                await asyncio.sleep(POLL_S)
            else:
                writer.close()
                return


def _configuration(folder: Path, ports: _Ports, *, knows_our_kind: bool) -> Body:
    return {
        "apiVersion": "config.kueue.x-k8s.io/v1beta2",
        "kind": "Configuration",
        "namespace": NAMESPACE,
        "health": {"healthProbeBindAddress": f"127.0.0.1:{ports.health}"},
        "metrics": {"bindAddress": "0"},
        "webhook": {"host": "127.0.0.1", "port": ports.hooks, "certDir": str(folder)},
        "leaderElection": {"leaderElect": False},
        "internalCertManagement": {
            "enable": True,
            "webhookServiceName": f"{PREFIX}-webhook-service",
            "webhookSecretName": f"{PREFIX}-webhook-server-cert",
        },
        "integrations": {
            "frameworks": ["pod"],
            **({"externalFrameworks": [OUR_KIND]} if knows_our_kind else {}),
        },
        "featureGates": GATES,
    }


async def _install(admin: Cluster, folder: Path, ports: _Ports) -> None:
    """Apply namespace, keys, kinds and webhooks; the latter lead to this machine."""
    await _apply(admin, NAMESPACES.untyped(), _named("v1", "Namespace", NAMESPACE))
    secret = _named("v1", "Secret", f"{PREFIX}-webhook-server-cert")
    secret["metadata"]["namespace"] = NAMESPACE
    made = _keys(folder)
    secret["data"] = {name: base64.b64encode(text).decode() for name, text in made.items()}
    await _apply(admin, _SECRETS, secret)
    for body in _manifests("crds"):
        conversion = body["spec"].get("conversion")
        if conversion is None or len(body["spec"]["versions"]) > 1:
            client = {"url": f"https://127.0.0.1:{ports.hooks}/convert"}
            hook = {"clientConfig": client, "conversionReviewVersions": ["v1"]}
            body["spec"]["conversion"] = {"strategy": "Webhook", "webhook": hook}
        await _apply(admin, CUSTOM_RESOURCE_DEFINITIONS, body)
    for body in _manifests("webhooks"):
        if body.get("kind") not in _HOOKS:
            continue  # the folder has files about itself, too
        suffix = body["metadata"]["name"]
        body["metadata"] = {"name": f"{PREFIX}-{suffix}"}
        body["webhooks"] = [_led_here(hook, ports) for hook in body["webhooks"] if _is_used(hook)]
        await _apply(admin, _HOOKS[body["kind"]], body)


def _is_used(hook: Body) -> bool:
    groups = {group for rule in hook["rules"] for group in rule["apiGroups"]}
    return groups <= {GROUP, ""}


def _led_here(hook: Body, ports: _Ports) -> Body:
    path = hook["clientConfig"]["service"]["path"]
    # Pods of the system are none of Kueue's, as in its own installation.
    others = {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": [NAMESPACE]}
    return {
        **hook,
        "clientConfig": {"url": f"https://127.0.0.1:{ports.hooks}{path}"},
        "namespaceSelector": {"matchExpressions": [others]},
    }


def _manifests(folder: str) -> Iterator[Body]:
    for file in sorted((kueue_dir() / folder).glob("*.yaml")):
        yield from (body for body in yaml.safe_load_all(file.read_text()) if body)


def _named(version: str, kind: str, name: str) -> Body:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}}


async def _apply(admin: Cluster, resource: Resource[Any], body: Body) -> None:
    meta = body["metadata"]
    key = Key(meta.get("namespace", ""), meta["name"])
    options = WriteOptions(field_manager="tests", force=True)
    await admin.patch(resource, key, Patch(PatchKind.APPLY, body), options)


def _keys(folder: Path) -> dict[str, bytes]:
    """An authority and a server of the names that Kueue checks, and of this machine's address.

    Kueue reads no other keys than these.
    """
    authority_key, server_key = (rsa.generate_private_key(65537, 2048) for _ in range(2))
    authority_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "kueue-ca")])
    authority = (
        _certificate(authority_name, authority_name, authority_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("kueue-ca")]), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    names = [x509.DNSName(SERVICE_NAME), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    server_name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, SERVICE_NAME)])
    server = (
        _certificate(server_name, authority_name, server_key)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .sign(authority_key, hashes.SHA256())
    )
    made = {
        "ca.crt": authority.public_bytes(serialization.Encoding.PEM),
        "ca.key": _pem(authority_key),
        "tls.crt": server.public_bytes(serialization.Encoding.PEM),
        "tls.key": _pem(server_key),
    }
    for name, text in made.items():
        file = folder / name
        file.touch(mode=0o600)
        file.write_bytes(text)
    return made


def _certificate(
    name: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(hours=1))
        .not_valid_after(now + VALIDITY)
    )


def _pem(key: rsa.RSAPrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
