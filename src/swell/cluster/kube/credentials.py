"""Supplies the Authorization header and the client certificate, and renews them.

Auth providers, which kubectl no longer has, are left to the official client: it is an extra, since
it takes 126 MB, and is imported only when needed, since that takes half a second.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

from swell.cluster.kube.access import Access, AccessError, ExecPlugin, ProviderLogin

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
    if isinstance(user.source, ExecPlugin):
        return LoginCredentials(partial(_plugin_login, user.source, tls, clock), clock)
    if isinstance(user.source, ProviderLogin):
        return LoginCredentials(partial(_provider_login, user.source), clock)
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
            if not token:
                raise AccessError(f"{self._path}: there is no token in it")
            self._header, self._read_at = f"Bearer {token}", now
        return self._header

    def forget(self) -> None:
        self._header = ""


class Login(NamedTuple):
    """One login gave this Authorization header, and says for how long it is good."""

    header: str
    left_s: float


class LoginCredentials:
    """Credentials that are fetched by a login, and again before they end."""

    def __init__(self, log_in: Callable[[], Awaitable[Login]], clock: Clock) -> None:
        self._log_in = log_in
        self._clock = clock
        self._header = ""
        self._valid_until = 0.0  # monotonic

    async def authorization(self) -> str:
        if self._clock.monotonic() >= self._valid_until:
            self._header, left_s = await self._log_in()
            self._valid_until = self._clock.monotonic() + min(LOGIN_FRESH_S, max(0.0, left_s))
        return self._header

    def forget(self) -> None:
        self._valid_until = 0.0


async def _plugin_login(plugin: ExecPlugin, tls: ssl.SSLContext, clock: Clock) -> Login:
    from swell.cluster.kube.execplugin import ask

    credential = await ask(plugin)
    if credential.certificate_pem:
        load_certificate(tls, credential.certificate_pem, credential.key_pem)
    ends = credential.expires_at
    left_s = LOGIN_FRESH_S if ends is None else ends - clock.now()
    return Login(f"Bearer {credential.token}" if credential.token else "", left_s)


async def _provider_login(login: ProviderLogin) -> Login:
    where = f"context {login.context!r}"
    try:
        from kubernetes.aio.client import Configuration
        from kubernetes.aio.config import ConfigException
        from kubernetes.aio.config.kube_config import KubeConfigLoader
    except ImportError as error:
        said = "auth providers are read by another package: pip install 'swell[kube]'"
        raise AccessError(f"{where}: {said}") from error

    configuration = Configuration()
    try:
        loader = KubeConfigLoader(
            login.config, active_context=login.context, config_base_path=str(login.folder)
        )
        await loader.load_and_set(configuration)
    except (ConfigException, OSError, ValueError) as error:
        raise AccessError(f"{where}: {error}") from error
    header = _bearer(configuration.api_key.get("BearerToken", ""))
    if not header:
        raise AccessError(f"{where}: no credentials came of its login")
    return Login(header, LOGIN_FRESH_S)


def _bearer(value: str) -> str:
    """Returns a clean header: loaders spell the scheme differently and keep a file's newline."""
    scheme, _, token = value.strip().partition(" ")
    return f"{scheme.capitalize()} {token.strip()}" if token else ""
