"""The gate that every request passes: who sends it, whether a role allows it, and its audit line.

token -> identity (401) -> impersonation -> rights (403) -> the request is answered -> audit line
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiohttp import web

from swell.cluster.embedded import refusals
from swell.cluster.embedded.access.attributes import Identity
from swell.cluster.embedded.access.index import AccessIndex
from swell.cluster.embedded.http.audit import AuditLog
from swell.cluster.embedded.http.authorization import impersonated, wanted_by
from swell.cluster.embedded.http.rotation import OpenRequests
from swell.cluster.embedded.http.routing import ResourcePath, parse_resource_path, split_path
from swell.cluster.embedded.http.tokens import Tokens

_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_DENIED = frozenset({401, 403})
# As other servers log a request whose client has gone before it was answered.
UNANSWERED = 499


@dataclass(slots=True, eq=False)
class Passage:
    """One request on its way, with what is found out about it: the identity only if it has one."""

    request: web.BaseRequest
    path: str
    query: str
    segments: tuple[str, ...]
    resource: ResourcePath | None
    identity: Identity | None = None

    @classmethod
    def of(cls, request: web.BaseRequest) -> Passage:
        path, _, query = request.raw_path.partition("?")
        segments = split_path(path)
        resource = parse_resource_path(segments) if segments[0] in {"api", "apis"} else None
        return cls(request, path, query, segments, resource)


@dataclass(frozen=True, slots=True)
class Gate:
    """The gate of one server."""

    tokens: Tokens
    access: AccessIndex
    audit: AuditLog
    requests: OpenRequests
    on_authenticated: Callable[[web.BaseRequest], None]

    def admit(self, passage: Passage) -> Identity:
        """The identity that a request is answered as; ClusterError (401, 403) when it is not.

        Rights are looked at before routing: a 404 would tell what there is.
        """
        request = passage.request
        header = request.headers.get("Authorization", "")
        identity = passage.identity = self.tokens.identity_of(header)
        if identity is None:
            raise refusals.unauthorized()
        self.on_authenticated(request)
        self.requests.add(request, header)
        identity = passage.identity = impersonated(request.headers, identity, self.access)
        if not identity.is_master:
            wanted = wanted_by(request.method, passage.segments, passage.resource, passage.query)
            decision = self.access.decide(identity, wanted)
            if not decision.allowed:
                raise refusals.not_allowed(identity, wanted, decision.reason)
        return identity

    def left(self, passage: Passage, code: int) -> None:
        """Note that a request has been answered; writes and denials go into the audit log."""
        request = passage.request
        self.requests.remove(request)
        if request.method in _READS and code not in _DENIED:
            return
        wanted = wanted_by(request.method, passage.segments, passage.resource, passage.query)
        agent = request.headers.get("User-Agent", "")
        self.audit.record(passage.identity, wanted, code, request.raw_path, agent)
