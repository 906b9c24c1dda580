"""Where an API server is and who we are to it. Values only: nothing is read or sent here."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from swell.api.meta import Body


class AccessError(Exception):
    """No way to a cluster can be made of what was given; says where and what to do."""


@dataclass(frozen=True, slots=True)
class ExternalLogin:
    """A user entry that another program or library has to turn into credentials."""

    config: Body  # the whole kubeconfig, as its loader wants it
    context: str
    folder: Path


@dataclass(frozen=True, slots=True)
class InCluster:
    """The service account of the pod we run in."""

    token_file: Path
    ca_file: Path


@dataclass(frozen=True, slots=True)
class KubeUser:
    """Credentials; all may be empty. `source` is set where they have to be fetched elsewhere."""

    token: str = field(default="", repr=False)
    token_file: Path | None = None
    certificate_pem: bytes = b""
    key_pem: bytes = field(default=b"", repr=False)
    source: ExternalLogin | InCluster | None = None


@dataclass(frozen=True, slots=True)
class Access:
    """One API server as one user, and the namespace meant when none is named."""

    server: str
    user: KubeUser
    context: str = ""
    namespace: str = "default"
    ca_pem: bytes = b""  # empty: what the machine trusts
    insecure: bool = False
    tls_server_name: str = ""
