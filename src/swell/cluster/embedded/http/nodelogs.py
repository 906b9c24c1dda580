"""Fetches logs from the node agents that hold them, as an API server does from kubelets.

Agents know the server by its certificate, which a ConfigMap tells them to trust: no secret ever
leaves the server, whoever may have taken over an agent's port. What an agent sends is passed on
and never believed.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator
from urllib.parse import urlencode

import aiohttp

from swell.api.meta import Body, Key
from swell.cluster.embedded import refusals
from swell.cluster.embedded.apiserver import ApiServer
from swell.cluster.embedded.http.credentials import Files, server_tls
from swell.cluster.embedded.http.logs import LogRequest
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.verbs.calls import Call

ACTOR = "logs"
# Where a real API server says whom those it calls may trust.
AUTHORITIES = Key("kube-system", "extension-apiserver-authentication")
AUTHORITY = "client-ca-file"
CONNECT_S = 10.0
PIECE_BYTES = 64 << 10
REFUSAL_BYTES_MAX = 2000


class NodeLogs:
    """Reads logs by way of the nodes' own servers. `publish` first tells these whom to trust."""

    def __init__(self, api: ApiServer, files: Files) -> None:
        self._api = api
        self._files = files

    def publish(self) -> None:
        """Have agents trust the certificate of this server, which is made now if there is none."""
        server_tls(self._files)
        kind = self._api.registry.stored("configmaps")
        if kind is None:
            raise AssertionError("configmaps are built in")
        namespace, name = AUTHORITIES
        body: Body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": name, "namespace": namespace},
            "data": {AUTHORITY: self._files.certificate.read_text()},
        }
        if self._api.storage.get("configmaps", AUTHORITIES) is None:
            self._api.create(kind, namespace, body, Call(ACTOR))
        else:
            self._api.update(kind, AUTHORITIES, body, Call(ACTOR))

    async def read(self, pod: Body, request: LogRequest) -> AsyncIterator[bytes]:
        """The log in pieces; ClusterError when the node does not give it."""
        meta = pod["metadata"]
        place = self._place(pod["spec"]["nodeName"])
        path = f"{place}/containerLogs/{meta['namespace']}/{meta['name']}/{request.container}"
        timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_S)
        connector = aiohttp.TCPConnector(ssl=self._tls())
        try:
            async with (
                aiohttp.ClientSession(connector=connector, timeout=timeout) as session,
                session.get(f"{path}?{_query(request)}", allow_redirects=False) as answer,
            ):
                if answer.status != 200:
                    told = (await answer.content.read(REFUSAL_BYTES_MAX)).decode(errors="replace")
                    raise bad_request(told.strip() or f"the node answers {answer.status}")
                async for piece in answer.content.iter_chunked(PIECE_BYTES):
                    yield piece
        except (aiohttp.ClientError, OSError) as error:
            raise refusals.internal(f"no log from node: {error}") from error

    def _place(self, node: str) -> str:
        """Where a node's own server is."""
        found = self._api.storage.get("nodes", Key("", node))
        if found is None:
            raise refusals.not_found("nodes", "", node)
        status = found.body.get("status") or {}
        endpoint = (status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}
        addresses = {a.get("type"): a.get("address") for a in status.get("addresses") or ()}
        if not endpoint.get("Port") or not addresses.get("InternalIP"):
            raise bad_request(f"node {node} serves no logs")
        return f"https://{addresses['InternalIP']}:{endpoint['Port']}"

    def _tls(self) -> ssl.SSLContext:
        """We say who we are; agents have certificates of their own, which prove nothing to us."""
        tls = ssl.create_default_context()
        tls.check_hostname = False
        tls.verify_mode = ssl.CERT_NONE
        tls.load_cert_chain(self._files.certificate, self._files.key)
        return tls


def _query(request: LogRequest) -> str:
    flags = {
        "follow": request.follow,
        "previous": request.previous,
        "timestamps": request.timestamps,
    }
    amounts = {
        "tailLines": request.tail_lines,
        "limitBytes": request.limit_bytes,
        "sinceSeconds": request.since_seconds,
        "sinceTime": request.since_time or None,
    }
    asked = {name: "true" for name, is_asked in flags.items() if is_asked}
    return urlencode(asked | {name: str(n) for name, n in amounts.items() if n is not None})
