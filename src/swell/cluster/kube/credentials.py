"""Supplies the Authorization header and the client certificate, and renews them.

Exec plugins, auth providers and service accounts are left to the official client's loaders.
These are imported only when needed, because the import takes half a second.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from swell.cluster.kube.access import Access, AccessError, ExternalLogin, InCluster

if TYPE_CHECKING:  # it imports asyncio, which single-call commands do not load
    from swell.runtime.clock import Clock

# A kubelet replaces a service account's token long before it expires, so reading the file once a
# minute is often enough.
TOKEN_FILE_FRESH_S = 60.0
# For exec plugins that do not say how long their credentials last.
LOGIN_FRESH_S = 600.0


class CredentialSource(Protocol):
    """The current credentials of one user."""

    async def authorization(self) -> str:
        """Returns the Authorization header; empty when a client certificate is used instead."""
        ...

    def forget(self) -> None:
        """Fetch the credentials again next time: the server has refused them with 401."""
        ...


def credential_source(access: Access, tls: ssl.SSLContext, clock: Clock) -> CredentialSource:
    """Returns the credentials of an access and loads its certificate into the TLS context."""
    user = access.user
    if isinstance(user.source, ExternalLogin):
        return LoginCredentials(user.source, tls, clock)
    if isinstance(user.source, InCluster):
        return ServiceAccount(user.source, access.server)
    if user.certificate_pem:
        load_certificate(tls, user.certificate_pem, user.key_pem)
    if user.token_file is not None and not user.token:
        return TokenFile(user.token_file, clock)
    return FixedToken(user.token)


def client_tls(access: Access) -> ssl.SSLContext:
    """Returns a TLS context for the server, still without a client certificate."""
    try:
        tls = ssl.create_default_context(cadata=access.ca_pem.decode() if access.ca_pem else None)
    except (ssl.SSLError, UnicodeDecodeError) as error:
        message = f"context {access.context!r}: its certificate authority is no certificate"
        raise AccessError(message) from error
    if access.insecure:
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
    return tls


def load_certificate(tls: ssl.SSLContext, certificate_pem: bytes, key_pem: bytes) -> None:
    """Use this certificate for new connections. OpenSSL can only read it from a file."""
    descriptor, name = tempfile.mkstemp(suffix=".pem")  # created with mode 0600
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(certificate_pem + b"\n" + key_pem)
        tls.load_cert_chain(name)
    except ssl.SSLError as error:
        raise AccessError(f"client certificate and key do not fit: {error}") from error
    finally:
        Path(name).unlink()


@dataclass(frozen=True, slots=True)
class FixedToken:
    """A token that does not change, or none."""

    token: str

    async def authorization(self) -> str:
        return f"Bearer {self.token}" if self.token else ""

    def forget(self) -> None:
        """Does nothing: there is no other token."""


class TokenFile:
    """A token in a file that another program rewrites."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._header = ""
        self._read_at = 0.0

    async def authorization(self) -> str:
        now = self._clock.monotonic()
        if not self._header or now - self._read_at >= TOKEN_FILE_FRESH_S:
            try:
                token = self._path.read_text().strip()
            except OSError as error:
                raise AccessError(f"{self._path}: {error.strerror}") from error
            self._header, self._read_at = f"Bearer {token}", now
        return self._header

    def forget(self) -> None:
        self._header = ""


class _Configuration(Protocol):
    """The part of the official client's configuration that is used here."""

    api_key: dict[str, str]

    def refresh_api_key_hook(self, configuration: object) -> None: ...


class ServiceAccount:
    """The pod's service account, through the official loader, which re-reads the token file."""

    def __init__(self, source: InCluster, server: str) -> None:
        self._source = source
        self._address = server.removeprefix("https://").rpartition(":")
        self._configuration: _Configuration | None = None

    async def authorization(self) -> str:
        if self._configuration is None:
            self._configuration = self._loaded()
        self._configuration.refresh_api_key_hook(self._configuration)
        return _bearer(self._configuration.api_key["BearerToken"])

    def forget(self) -> None:
        self._configuration = None

    def _loaded(self) -> _Configuration:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException
        from kubernetes.aio.config.incluster_config import InClusterConfigLoader

        host, _, port = self._address
        environment = {"KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
        loader = InClusterConfigLoader(
            str(self._source.token_file), str(self._source.ca_file), environ=environment
        )
        configuration = Configuration()
        try:
            loader.load_and_set(configuration)
        except ConfigException as error:
            raise AccessError(f"service account: {error}") from error
        return cast("_Configuration", configuration)


class LoginCredentials:
    """A user entry with an exec plugin or an auth provider, through the official loader."""

    def __init__(self, login: ExternalLogin, tls: ssl.SSLContext, clock: Clock) -> None:
        self._login = login
        self._tls = tls
        self._clock = clock
        self._header = ""
        self._valid_until = 0.0  # monotonic

    async def authorization(self) -> str:
        if self._clock.monotonic() >= self._valid_until:
            await self._log_in()
        return self._header

    def forget(self) -> None:
        self._valid_until = 0.0

    async def _log_in(self) -> None:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException
        from kubernetes.aio.config.kube_config import KubeConfigLoader

        configuration = Configuration()
        try:
            loader = KubeConfigLoader(
                self._login.config,
                active_context=self._login.context,
                config_base_path=str(self._login.folder),
            )
            await loader.load_and_set(configuration)
        except (ConfigException, OSError, ValueError) as error:
            raise AccessError(f"context {self._login.context!r}: {error}") from error
        self._header = _bearer(configuration.api_key.get("BearerToken", ""))
        if configuration.cert_file and configuration.key_file:
            self._tls.load_cert_chain(configuration.cert_file, configuration.key_file)
        elif not self._header:
            raise AccessError(f"context {self._login.context!r}: no credentials came of its login")
        expires = getattr(loader, "exec_plugin_expiry", None)
        left_s = expires.timestamp() - self._clock.now() if expires else LOGIN_FRESH_S
        self._valid_until = self._clock.monotonic() + min(LOGIN_FRESH_S, max(0.0, left_s))


def _bearer(value: str) -> str:
    """Returns a clean header: loaders spell the scheme differently and keep a file's newline."""
    scheme, _, token = value.strip().partition(" ")
    return f"{scheme.capitalize()} {token.strip()}" if token else ""
