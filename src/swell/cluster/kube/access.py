"""An API server's address and the credentials for it, as values. It reads and sends nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from swell.api.meta import Body


class AccessError(Exception):
    """The configuration does not lead to a cluster; the message says where it is wrong."""


@dataclass(frozen=True, slots=True)
class ExternalLogin:
    """A kubeconfig user whose credentials come from an exec plugin or an auth provider."""

    config: Body  # the whole kubeconfig, which the official client's loader asks for
    context: str
    folder: Path


@dataclass(frozen=True, slots=True)
class InCluster:
    """The service account of the pod that this process runs in."""

    token_file: Path
    ca_file: Path


@dataclass(frozen=True, slots=True)
class KubeUser:
    """Credentials; all may be empty. `source` is set when they have to be fetched."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate_pem: bytes = b""
    key_pem: bytes = field(default=b"", repr=False)
    source: ExternalLogin | InCluster | None = None


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
