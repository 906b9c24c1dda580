"""The options of a request, parsed from its query or body as kube-apiserver parses them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import parse_qsl

import msgspec

from swell.api.codec import convert
from swell.cluster.embedded import refusals
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.verbs.core import VALIDATION_LEVELS
from swell.cluster.embedded.verbs.requests import (
    DeleteOptions,
    DeleteOptionsShape,
    ListOptions,
    RequestContext,
    WatchOptions,
)
from swell.schema.field_errors import FieldError, invalid, not_supported, too_long

Query = Mapping[str, list[str]]
_META = "meta.k8s.io"
_MANAGER_LENGTH_MAX = 128  # Kubernetes' limit of a fieldManager
_INT64 = 2**63


class DeleteRequest(NamedTuple):
    """The options of a delete, and whether it is a dry run."""

    options: DeleteOptions
    dry_run: bool


def parse_query(text: str) -> dict[str, list[str]]:
    """All values of every parameter; one without a value has the empty text."""
    found: dict[str, list[str]] = {}
    if text:
        for name, value in parse_qsl(text, keep_blank_values=True):
            found.setdefault(name, []).append(value)
    return found


def is_true(query: Query, name: str) -> bool:
    """Whether a flag is set. As in Go's conversion, any value but "false" and "0" sets it."""
    values = query.get(name)
    return values is not None and values[0].lower() not in {"false", "0"}


def number(query: Query, name: str) -> int | None:
    """A 64-bit integer parameter; None when it is not given, 400 when it is no integer."""
    values = query.get(name)
    if not values:
        return None
    digits = values[0].removeprefix("-").removeprefix("+")
    if not (digits.isascii() and digits.isdecimal() and len(digits) < 20):
        raise bad_request(f"{name}: {values[0]!r} is not an integer")
    found = int(values[0])
    if not -_INT64 <= found < _INT64:
        raise bad_request(f"{name}: {values[0]!r} is out of range")
    return found


def list_options(query: Query, namespace: str) -> ListOptions:
    if not query:
        return ListOptions(namespace)
    number(query, "timeoutSeconds")  # of no effect on a list, but checked
    return ListOptions(
        namespace=namespace,
        labels=_text(query, "labelSelector"),
        fields=_text(query, "fieldSelector"),
        limit=number(query, "limit") or 0,
        continue_token=_text(query, "continue"),
        resource_version=_text(query, "resourceVersion"),
        resource_version_match=_text(query, "resourceVersionMatch"),
        # Its presence is enough: a list with it is refused, whatever its value.
        send_initial_events=True if "sendInitialEvents" in query else None,
    )


def watch_options(query: Query, namespace: str) -> WatchOptions:
    initial = is_true(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    return WatchOptions(
        namespace=namespace,
        labels=_text(query, "labelSelector"),
        fields=_text(query, "fieldSelector"),
        resource_version=_text(query, "resourceVersion"),
        resource_version_match=_text(query, "resourceVersionMatch"),
        send_initial_events=initial,
        bookmarks=is_true(query, "allowWatchBookmarks"),
        continue_token=_text(query, "continue"),
    )


def write_context(
    query: Query, actor: str, options_kind: str, warnings: list[str]
) -> RequestContext:
    """The context of a write; `options_kind` names the options object in a refusal."""
    if not query:
        return RequestContext(actor, warnings=warnings)
    level = _text(query, "fieldValidation")
    errors = _dry_run_errors(query.get("dryRun", []))
    manager = _text(query, "fieldManager")
    if len(manager) > _MANAGER_LENGTH_MAX:
        errors.append(too_long("fieldManager", _MANAGER_LENGTH_MAX))
    elif not manager.isprintable():
        errors.append(invalid("fieldManager", manager, "should only contain printable characters"))
    if level not in VALIDATION_LEVELS:
        errors.append(not_supported("fieldValidation", level, VALIDATION_LEVELS))
    if errors:
        raise refusals.invalid(options_kind, _META, "", errors)
    return RequestContext(
        actor,
        bool(query.get("dryRun")),
        level,
        warnings,
        manager=manager,
        force=is_true(query, "force"),
    )


def delete_request_from_query(query: Query) -> DeleteRequest:
    orphan = is_true(query, "orphanDependents") if "orphanDependents" in query else None
    return _delete_request(
        DeleteOptions(
            uid=_text(query, "uid") or None,
            resource_version=_text(query, "resourceVersion") or None,
            grace_s=number(query, "gracePeriodSeconds"),
            propagation=_text(query, "propagationPolicy") or None,
            orphan_dependents=orphan,
        ),
        query.get("dryRun", []),
    )


def delete_request_from_body(body: object) -> DeleteRequest:
    """Options sent as a DeleteOptions object; the query is ignored then."""
    try:
        given = convert({} if body is None else body, DeleteOptionsShape)
    except msgspec.ValidationError as error:
        raise bad_request(f"DeleteOptions: {error}") from error
    if given.kind not in {None, "", "DeleteOptions"}:
        raise bad_request(f"expected DeleteOptions, got {given.kind}")
    return _delete_request(given.options(), [value or "" for value in given.dry_run or ()])


def _delete_request(options: DeleteOptions, dry_run: list[str]) -> DeleteRequest:
    errors = _dry_run_errors(dry_run)
    if errors:
        raise refusals.invalid("DeleteOptions", _META, "", errors)
    return DeleteRequest(options, bool(dry_run))


def _dry_run_errors(values: list[str]) -> list[FieldError]:
    """The error of the first unknown value; a real server reports no more."""
    return [not_supported("dryRun", value, ["All"]) for value in values if value != "All"][:1]


def _text(query: Query, name: str) -> str:
    values = query.get(name)
    return values[0] if values else ""
