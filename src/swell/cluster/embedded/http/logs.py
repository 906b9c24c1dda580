"""The `log` subresource: which container, which lines, and where they come from.

The options are checked here as a real server checks them; reading is left to a `LogSource`, which
knows the node.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Protocol

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.http.options import Query, is_true, number
from swell.cluster.embedded.refusals import bad_request
from swell.schema.field_errors import FieldError, forbidden, invalid

_DEFAULT_CONTAINER = "kubectl.kubernetes.io/default-container"


@dataclass(frozen=True, slots=True)
class LogRequest:
    """Which part of which container's log. None means no limit."""

    container: str
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    since_seconds: int | None = None
    since_time: str = ""


class LogSource(Protocol):
    """Where logs are read."""

    def read(self, pod: Body, request: LogRequest) -> AsyncIterator[bytes]:
        """The log in pieces, as long as there is something to follow; ClusterError."""
        ...


class NoLogs:
    """A server without nodes of its own has no logs."""

    def read(self, pod: Body, request: LogRequest) -> AsyncIterator[bytes]:  # noqa: ARG002
        raise refusals.not_found("nodes", "", pod["spec"]["nodeName"])


def parse_log_request(pod: Body, query: Query) -> LogRequest:
    """The request a query makes of a pod; ClusterError when it makes no sense."""
    errors = _range_errors(query)
    if errors:
        raise refusals.invalid("PodLogOptions", "", pod["metadata"]["name"], errors)
    values = query.get("sinceTime")
    return LogRequest(
        container=_container(pod, (query.get("container") or [""])[0]),
        follow=is_true(query, "follow"),
        previous=is_true(query, "previous"),
        timestamps=is_true(query, "timestamps"),
        tail_lines=number(query, "tailLines"),
        limit_bytes=number(query, "limitBytes"),
        since_seconds=number(query, "sinceSeconds"),
        since_time=values[0] if values else "",
    )


def _range_errors(query: Query) -> list[FieldError]:
    errors: list[FieldError] = []
    for name, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)):
        value = number(query, name)
        if value is not None and value < least:
            told = f"must be greater than or equal to {least}"
            errors.append(invalid(name, value, told))
    if "sinceTime" in query and "sinceSeconds" in query:
        errors.append(forbidden("sinceTime", "at most one of sinceTime or sinceSeconds"))
    return errors


def _container(pod: Body, wanted: str) -> str:
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    kinds = ("initContainers", "containers", "ephemeralContainers")
    known = [c["name"] for kind in kinds for c in spec.get(kind) or []]
    if wanted:
        if wanted not in known:
            raise bad_request(f"container {wanted} is not valid for pod {name}")
        return wanted
    main = [c["name"] for c in spec.get("containers") or []]
    chosen = (pod["metadata"].get("annotations") or {}).get(_DEFAULT_CONTAINER)
    if chosen in main:
        return str(chosen)
    if len(main) == 1:
        return str(main[0])
    raise bad_request(f"a container name must be specified for pod {name}, choose one of: {known}")
