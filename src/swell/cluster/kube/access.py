"""An API server's address and the credentials for it, as values. It reads and sends nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from swell.api.meta import Body


class AccessError(Exception):
    """The configuration does not lead to a cluster; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A program of a kubeconfig user that prints credentials."""

    context: str
    folder: Path  # of the kubeconfig
    command: str
    api_version: str
    arguments: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    interactive_mode: str = "IfAvailable"
    install_hint: str = ""
    cluster: Body | None = None  # what the plugin is told of the cluster, if it asks for it


@dataclass(frozen=True, slots=True)
class ProviderLogin:
    """A kubeconfig user whose credentials come from an auth provider (kubectl has none now)."""

    config: Body  # the whole kubeconfig, which the official client's loader asks for
    context: str
    folder: Path


@dataclass(frozen=True, slots=True)
class KubeUser:
    """Credentials; all may be empty. `source` is set when they have to be fetched."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate_pem: bytes = b""
    key_pem: bytes = field(default=b"", repr=False)
    source: ExecPlugin | ProviderLogin | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One API server, the user there, and the namespace used when a command names none."""

    server: str
    user: KubeUser
    context: str = ""
    namespace: str = "default"
    ca_pem: bytes = b""  # empty: the certificates that the machine trusts
    insecure: bool = False
    tls_server_name: str = ""
