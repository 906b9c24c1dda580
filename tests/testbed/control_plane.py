"""Starts and stops etcd, kube-apiserver and kube-controller-manager on loopback.

Decides the flags they run with and the order they start and end in. Whatever it started is gone
when the context is left, also after a failure; it never touches a process or folder of others.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import secrets
import shutil
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import binaries
from tests.testbed.certificates import Certificates, write_certificates
from tests.testbed.processes import ChildProcess, ProcessEndedError, free_loopback_ports

READY_S_MAX = 180.0
# The API server waits a minute for watches still open; its state is etcd's, so force is harmless.
STOP_GRACE_S = 5.0
POLL_S = 0.05
REQUEST_S_MAX = 5.0
START_ATTEMPTS = 3

CONTROLLERS = (
    "garbage-collector-controller",
    "namespace-controller",
    "replicaset-controller",
    "job-controller",
)


class NotReadyError(Exception):
    """A server did not answer in time; carries its last answer and the end of its log."""

    def __init__(self, name: str, waited_s: float, last_answer: str, log_tail: str) -> None:
        said = f"{last_answer}; its last lines:\n{log_tail}"
        super().__init__(f"{name} is not ready after {waited_s:.0f} s: {said}")
        self.name = name
        self.last_answer = last_answer
        self.log_tail = log_tail


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """A running control plane and all a client needs to talk to it as its administrator."""

    server_url: str
    ca_file: Path
    token: str
    kubeconfig: Path
    etcd_url: str
    data_dir: Path
    ready_after_s: float
    processes: tuple[ChildProcess, ...]

    @property
    def pids(self) -> dict[str, int]:
        return {process.name: process.pid for process in self.processes}


@dataclass(frozen=True, slots=True)
class Settings:
    """What may differ between control planes.

    `durable` has etcd sync every write to disk as in production; tests do without by default.
    """

    controllers: Sequence[str] = CONTROLLERS
    api_server_flags: Sequence[str] = ()
    controller_manager_flags: Sequence[str] = ()
    durable: bool = False


@contextlib.contextmanager
def running_control_plane(
    *,
    controllers: Sequence[str] = CONTROLLERS,
    data_dir: Path | None = None,
    api_server_flags: Sequence[str] = (),
    controller_manager_flags: Sequence[str] = (),
    durable: bool = False,
) -> Iterator[ControlPlane]:
    """Run a control plane; without controllers the controller manager is left out.

    A given `data_dir` belongs to the caller: it is kept, and a second run on it finds the objects
    of the first. Otherwise a temporary folder is made and removed.
    """
    binaries.require()
    settings = Settings(controllers, api_server_flags, controller_manager_flags, durable)
    with contextlib.ExitStack() as cleanup:
        if data_dir is None:
            data_dir = Path(tempfile.mkdtemp(prefix="swell-testbed-"))
            cleanup.callback(shutil.rmtree, data_dir)
        data_dir.mkdir(parents=True, exist_ok=True)
        yield _start_with_retries(data_dir, settings, cleanup)


def _start_with_retries(
    data_dir: Path, settings: Settings, cleanup: contextlib.ExitStack
) -> ControlPlane:
    """Start; when a free port was taken by somebody else meanwhile, start again on others."""
    for attempt in range(1, START_ATTEMPTS + 1):
        with contextlib.ExitStack() as started:
            try:
                plane = _start(data_dir, settings, started)
            except ProcessEndedError as error:
                if attempt == START_ATTEMPTS or "address already in use" not in error.log_tail:
                    raise
            else:
                cleanup.push(started.pop_all())
                return plane
    raise AssertionError("the last attempt returns or raises")


def _start(data_dir: Path, settings: Settings, started: contextlib.ExitStack) -> ControlPlane:
    """Start etcd, API server, controller manager. The stack ends them in the opposite order."""
    begun = time.monotonic()
    certificates = write_certificates(data_dir)
    token = secrets.token_hex(16)
    etcd_port, server_port, manager_port = free_loopback_ports(3)
    server_url = f"https://127.0.0.1:{server_port}"
    etcd_url = f"http://127.0.0.1:{etcd_port}"
    kubeconfig = data_dir / "kubeconfig"
    _write_private(kubeconfig, _kubeconfig_text(server_url, certificates.ca_file, token))
    _write_private(data_dir / "tokens.csv", f'{token},admin,admin,"system:masters"\n')
    processes: list[ChildProcess] = []

    def launch(name: str, flags: Sequence[str]) -> None:
        command = [str(binaries.binary(name)), *flags]
        process = ChildProcess(name, command, data_dir / f"{name}.log")
        started.callback(process.stop, grace_s=STOP_GRACE_S)
        processes.append(process)

    deadline = begun + READY_S_MAX
    launch("etcd", _etcd_flags(data_dir, etcd_url, durable=settings.durable))
    server_flags = _api_server_flags(data_dir, certificates, etcd_url, server_port)
    launch("kube-apiserver", [*server_flags, *settings.api_server_flags])
    ready = _readiness(server_url, "/readyz", certificates, token)
    _wait_until_ready(processes, ready, deadline)
    if settings.controllers:
        flags = _controller_manager_flags(kubeconfig, certificates, manager_port, settings)
        launch("kube-controller-manager", flags)
        ready = _readiness(f"https://127.0.0.1:{manager_port}", "/healthz", certificates)
        _wait_until_ready(processes, ready, deadline)
    return ControlPlane(
        server_url=server_url,
        ca_file=certificates.ca_file,
        token=token,
        kubeconfig=kubeconfig,
        etcd_url=etcd_url,
        data_dir=data_dir,
        ready_after_s=time.monotonic() - begun,
        processes=tuple(processes),
    )


def _etcd_flags(data_dir: Path, etcd_url: str, *, durable: bool) -> list[str]:
    flags = [
        f"--data-dir={data_dir / 'etcd'}",
        f"--listen-client-urls={etcd_url}",
        f"--advertise-client-urls={etcd_url}",
        "--listen-peer-urls=http://127.0.0.1:0",  # one member has no peers
        "--log-level=warn",
    ]
    return flags if durable else [*flags, "--unsafe-no-fsync"]


def _api_server_flags(
    data_dir: Path, certificates: Certificates, etcd_url: str, port: int
) -> list[str]:
    return [
        f"--etcd-servers={etcd_url}",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={data_dir}",
        f"--tls-cert-file={certificates.server_cert_file}",
        f"--tls-private-key-file={certificates.server_key_file}",
        # No Endpoints may hold a loopback address, so the server must not publish its own.
        "--advertise-address=127.0.0.1",
        "--endpoint-reconciler-type=none",
        "--anonymous-auth=false",
        f"--token-auth-file={data_dir / 'tokens.csv'}",
        "--authorization-mode=RBAC",
        "--disable-admission-plugins=ServiceAccount",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={certificates.service_account_key_file}",
        f"--service-account-signing-key-file={certificates.service_account_key_file}",
        "--service-cluster-ip-range=10.96.0.0/16",
    ]


def _controller_manager_flags(
    kubeconfig: Path, certificates: Certificates, port: int, settings: Settings
) -> list[str]:
    return [
        f"--kubeconfig={kubeconfig}",
        f"--controllers={','.join(settings.controllers)}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--tls-cert-file={certificates.server_cert_file}",
        f"--tls-private-key-file={certificates.server_key_file}",
        # The default of 20 requests a second would be what tests wait for.
        "--kube-api-qps=200",
        "--kube-api-burst=400",
        *settings.controller_manager_flags,
    ]


def _kubeconfig_text(server_url: str, ca_file: Path, token: str) -> str:
    """A kubeconfig in JSON, which every reader of YAML takes."""
    name = "testbed"
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": name,
                "cluster": {"server": server_url, "certificate-authority": str(ca_file)},
            }
        ],
        "users": [{"name": name, "user": {"token": token}}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "current-context": name,
    }
    return json.dumps(config, indent=2) + "\n"


def _write_private(file: Path, text: str) -> None:
    file.touch(mode=0o600)
    file.write_text(text, encoding="utf-8")


def _readiness(
    url: str, path: str, certificates: Certificates, token: str | None = None
) -> Callable[[], str]:
    """A question to a server: answers `ok`, or what was said instead."""
    host = url.removeprefix("https://")
    trust = ssl.create_default_context(cafile=str(certificates.ca_file))
    headers = {"Authorization": f"Bearer {token}"} if token else {}

    def ask() -> str:
        connection = http.client.HTTPSConnection(host, timeout=REQUEST_S_MAX, context=trust)
        try:
            connection.request("GET", path, headers=headers)
            response = connection.getresponse()
            body = response.read().decode(errors="replace").strip()
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"
        else:
            return "ok" if response.status == http.HTTPStatus.OK else f"{response.status} {body}"
        finally:
            connection.close()

    return ask


def _wait_until_ready(
    processes: Sequence[ChildProcess], ask: Callable[[], str], deadline: float
) -> None:
    """Wait for the process started last; none of the others may end meanwhile."""
    begun = time.monotonic()
    while (answer := ask()) != "ok":
        for process in processes:
            process.check_running()
        if time.monotonic() > deadline:
            newest = processes[-1]
            waited_s = time.monotonic() - begun
            raise NotReadyError(newest.name, waited_s, answer, newest.log_tail())
        time.sleep(POLL_S)
