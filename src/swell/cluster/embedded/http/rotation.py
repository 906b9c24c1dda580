"""Applies changes of credentials to a running server: certificates, and tokens of open requests.

Every new request is checked against the files by `tokens`. This is for what has begun already: a
watch or a followed log of a token that is no longer valid is cut off, and new connections get the
certificate that is in the folder now.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

from swell.cluster.embedded.http.credentials import Files
from swell.cluster.embedded.http.tokens import Tokens
from swell.runtime.clock import Clock

_log = logging.getLogger(__name__)
LOOK_S = 0.5


class OpenRequests:
    """The requests that are being answered, each with the header it was authenticated by."""

    def __init__(self) -> None:
        # By identity: a request of aiohttp is a mapping, and has no hash.
        self._open: dict[int, tuple[web.BaseRequest, str]] = {}

    def add(self, request: web.BaseRequest, header: str) -> None:
        self._open[id(request)] = (request, header)

    def remove(self, request: web.BaseRequest) -> None:
        self._open.pop(id(request), None)

    def end_invalid(self, tokens: Tokens) -> int:
        """Cut the connections of requests whose tokens are no longer valid; returns how many."""
        ended = [
            request for request, header in self._open.values() if not tokens.identity_of(header)
        ]
        for request in ended:
            if request.transport is not None:
                request.transport.abort()
        return len(ended)


class CertificateFile:
    """The certificate of a folder, as a TLS context has it."""

    def __init__(self, files: Files, tls: ssl.SSLContext) -> None:
        self._files = files
        self._tls = tls
        self._loaded = files.certificate.read_bytes()

    def reload(self) -> bool:
        """Load the certificate if it is another one; whether it was.

        Connections that are open keep the one they began with.
        """
        with contextlib.suppress(OSError):
            found = self._files.certificate.read_bytes()
            if found == self._loaded:
                return False
            try:
                # A context keeps a certificate without its key, so both are tried on another one.
                ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(
                    self._files.certificate, self._files.key
                )
                self._tls.load_cert_chain(self._files.certificate, self._files.key)
            except ssl.SSLError:
                return False  # the key is of another one: they are being replaced just now
            self._loaded = found
            return True
        return False


@asynccontextmanager
async def following(
    clock: Clock,
    tokens: Tokens,
    requests: OpenRequests,
    certificate: CertificateFile,
    on_certificate: Callable[[], None],
) -> AsyncIterator[None]:
    """Look at the files again and again for the time of the context."""

    async def look() -> None:
        while True:
            await clock.sleep(LOOK_S)
            if certificate.reload():
                _log.info("the certificate has been replaced")
                on_certificate()
            if n_ended := requests.end_invalid(tokens):
                _log.info("%d requests of tokens that are not valid any more are ended", n_ended)

    task = asyncio.create_task(look())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
