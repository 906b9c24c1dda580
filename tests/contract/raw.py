"""HTTP by hand, for what the cluster port does not show: headers, forms, bad requests."""

from __future__ import annotations

import http.client
import json
import socket
import ssl
from pathlib import Path
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

from swell.cluster.kube.credentials import client_tls
from swell.cluster.kube.kubeconfig import read_kubeconfig

TIMEOUT_S = 20.0


class Answer(NamedTuple):
    code: int
    headers: list[tuple[str, str]]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str:
        return next((v for k, v in self.headers if k.lower() == name.lower()), "")

    @property
    def warnings(self) -> list[str]:
        return [v for k, v in self.headers if k.lower() == "warning"]


class Raw:
    """One connection to a server, made anew when the server closes it."""

    def __init__(self, kubeconfig: Path) -> None:
        access = read_kubeconfig([kubeconfig])
        url = urlsplit(access.server)
        self.host, self.port = url.hostname or "", url.port or 443
        self.tls: ssl.SSLContext = client_tls(access)
        self.token = access.user.token
        self._made: http.client.HTTPSConnection | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        headers: dict[str, str | None] | None = None,
    ) -> Answer:
        """One request; a body that is not bytes is sent as JSON. A header of None is left out."""
        given: dict[str, str | None] = {"Authorization": f"Bearer {self.token}", **(headers or {})}
        raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if body is not None and "Content-Type" not in given:
            given["Content-Type"] = "application/json"
        sent = {name: value for name, value in given.items() if value is not None}
        connection = self._connection()
        try:
            connection.request(method, path, raw, sent)
        except (BrokenPipeError, ConnectionResetError):
            if raw is None or len(raw) < 1 << 20:
                self.close()
                raise
            # Refused before it was read whole: the answer is there all the same.
        response = connection.getresponse()
        answer = Answer(response.status, response.getheaders(), response.read())
        if response.will_close:
            self.close()
        return answer

    def open_silent(self) -> socket.socket:
        """A connection on which nothing is said, not even hello."""
        return socket.create_connection((self.host, self.port), TIMEOUT_S)

    def open_stream(self, path: str) -> ssl.SSLSocket:
        """A request whose answer is left to the caller, byte by byte."""
        plain = socket.socket()
        plain.settimeout(TIMEOUT_S)
        plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)  # soon full when not read
        plain.connect((self.host, self.port))
        made = self.tls.wrap_socket(plain, server_hostname=self.host)
        lines = [
            f"GET {path} HTTP/1.1",
            f"Host: {self.host}",
            f"Authorization: Bearer {self.token}",
        ]
        made.sendall("\r\n".join([*lines, "", ""]).encode())
        return made

    def _connection(self) -> http.client.HTTPSConnection:
        if self._made is None:
            self._made = http.client.HTTPSConnection(
                self.host, self.port, timeout=TIMEOUT_S, context=self.tls
            )
        return self._made

    def close(self) -> None:
        if self._made is not None:
            self._made.close()
            self._made = None
