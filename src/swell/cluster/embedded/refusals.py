"""Every refusal of the embedded API server: code, reason, message and causes of its Status.

Verbs, HTTP handlers and the rules of kinds find out that a request is wrong; the Status that the
client gets for it is decided here and nowhere else. Codes, reasons and wording are those of a real
API server, because clients (and `kubectl`) act on them. Errors of single fields are values made by
`swell.schema.field_errors`; `invalid` gathers them into one Status.

A patch is refused in one of these ways:

    the content type is none of a patch               415  unsupported_media
    a strategic merge patch of a custom resource      415  strategic_patch_unsupported
    the body is no JSON, or not of the patch's shape  400  bad_request
    a JSON patch with too many operations             413  too_many_patch_operations
    an operation cannot be applied to the object      422  patch_not_applicable
    a field is given twice, with strict validation    422  strict_decoding
    the patched object has a field of another type    422  unreadable_body
    the patched object calls itself another kind      422  not_of_kind
    the patched object breaks a rule of its kind      422  invalid
    the object has changed since the version given    409  conflict
    an apply changes fields of other managers         409  apply_conflict
    an apply of a list with two items of one key      400  untyped_apply
"""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.meta import Body, Status, StatusCause, StatusDetails
from swell.api.wording import count_of
from swell.cluster.embedded.access.attributes import Identity, RequestAttributes, denial
from swell.cluster.embedded.registry import ServedKind
from swell.runtime.errors import ClusterError, error_for
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

# Errors of one object that a Status lists, and their characters: an error may quote a long value.
ERRORS_LISTED_MAX = 1_000
ERRORS_BYTES_MAX = 512 << 10

# --- The request itself -------------------------------------------------------------------------


def bad_request(message: str) -> ClusterError:
    return _refusal(400, "BadRequest", message)


def unauthorized() -> ClusterError:
    return _refusal(401, "Unauthorized", "Unauthorized")


def not_allowed(identity: Identity, wanted: RequestAttributes, why: str = "") -> ClusterError:
    """No role allows the request; `why` names a binding that leads to no role."""
    message = denial(identity, wanted) + (f": {why}" if why else "")
    details = _details(wanted.resource, wanted.group, wanted.name)
    if not wanted.resource:
        return _refusal(403, "Forbidden", f"forbidden: {message}", details)
    where = _qualified(wanted.resource, wanted.group)
    named = f'{where} "{wanted.name}"' if wanted.name else where
    return _refusal(403, "Forbidden", f"{named} is forbidden: {message}", details)


def unknown_path() -> ClusterError:
    """No kind, version or subresource is served at the path of the request."""
    message = "the server could not find the requested resource"
    return _refusal(404, "NotFound", message, StatusDetails())


def method_not_allowed(verb: str) -> ClusterError:
    """The kind does not have this verb."""
    return _refusal(405, "MethodNotAllowed", f"{verb} is not supported on resources of this kind")


def path_method_not_allowed(custom: ServedKind | None = None) -> ClusterError:
    """The path is served, but not with this HTTP method; of a custom kind, it is named."""
    message = "the server does not allow this method on the requested resource"
    details = _details(custom.plural, custom.group, "") if custom else None
    return _refusal(405, "MethodNotAllowed", message, details)


def not_acceptable() -> ClusterError:
    message = "only the following media types are accepted: application/json"
    return _refusal(406, "NotAcceptable", message)


def too_large(limit: int) -> ClusterError:
    return _refusal(413, "RequestEntityTooLarge", f"Request entity too large: limit is {limit}")


def body_too_slow(limit_s: float) -> ClusterError:
    message = f"the body was not received within {limit_s:g} s"
    return _refusal(408, "Timeout", message)


def too_many_values(limit: int) -> ClusterError:
    message = f"the body has more than {limit:,} values"
    return _refusal(413, "RequestEntityTooLarge", message)


def too_many_large_bodies() -> ClusterError:
    message = "too many large bodies are being handled at this time, please try again later"
    details = StatusDetails(retry_after_seconds=1)
    return _refusal(429, "TooManyRequests", message, details)


def changed_too_often() -> ClusterError:
    message = "the object, or one that it depends on, changes all the time, please try again later"
    details = StatusDetails(retry_after_seconds=1)
    return _refusal(429, "TooManyRequests", message, details)


def decision_too_slow(limit_s: float) -> ClusterError:
    return _refusal(504, "Timeout", f"the request was not decided on within {limit_s:g} s")


def object_too_large(n_bytes: int, limit: int) -> ClusterError:
    """An object that etcd would not store.

    A real server answers 500 here, with etcd's message and no reason (ADR 76): clients would send
    the same object again and again.
    """
    message = f"etcdserver: request is too large: the object has {n_bytes:,} bytes"
    return _refusal(413, "RequestEntityTooLarge", f"{message}, the limit is {limit:,}")


def unsupported_media(given: str, *supported: str) -> ClusterError:
    message = f"the body of the request was in an unknown format ({given!a})"
    message += f" - accepted media types include: {', '.join(supported)}"
    return _refusal(415, "UnsupportedMediaType", message)


# --- Patches ------------------------------------------------------------------------------------


def too_many_patch_operations(limit: int) -> ClusterError:
    message = f"at most {limit} operations are allowed in a JSON patch"
    return _refusal(413, "RequestEntityTooLarge", message)


def strategic_patch_unsupported() -> ClusterError:
    message = "strategic merge patches are for built-in kinds only"
    return _refusal(415, "UnsupportedMediaType", message)


def patch_not_applicable(message: str) -> ClusterError:
    """A well-formed JSON patch does not fit the object. A real server sends no details for it."""
    return _refusal(422, "Invalid", message)


def unreadable_body(verb: str, problem: str, kind: ServedKind | None = None) -> ClusterError:
    """A field of the object has another type, or an unknown name where that is an error.

    For a patch, a real server blames the patch and names no object; for other verbs the body of
    the request is at fault.
    """
    if verb == "patch":
        return invalid("", "", "", [field_errors.invalid("patch", "", problem)])
    if kind is None:
        return bad_request(f"the body cannot be read: {problem}")
    what = f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}'
    return bad_request(f"{what}: {problem}")


def strict_decoding(verb: str, problems: list[str], kind: ServedKind | None = None) -> ClusterError:
    """A body with unknown fields or with fields given twice, under strict validation."""
    return unreadable_body(verb, "strict decoding error: " + ", ".join(problems), kind)


def not_of_kind(verb: str, problem: str) -> ClusterError:
    """The object is of another kind than its path: the same split, with the problem alone."""
    if verb == "patch":
        return invalid("", "", "", [FieldError("FieldValueInvalid", "patch", problem)])
    return bad_request(problem)


# --- The object ---------------------------------------------------------------------------------


def not_found(plural: str, group: str, name: str) -> ClusterError:
    message = f'{_qualified(plural, group)} "{name}" not found'
    return _refusal(404, "NotFound", message, _details(plural, group, name))


def already_exists(kind: ServedKind, name: str) -> ClusterError:
    message = f'{kind.resource} "{name}" already exists'
    return _refusal(409, "AlreadyExists", message, _details(kind.plural, kind.group, name))


def conflict(kind: ServedKind, name: str, message: str) -> ClusterError:
    """An update that was decided on another state than the current one."""
    return _conflict(kind.plural, kind.group, name, message)


def apply_conflict(conflicts: Sequence[tuple[str, str]]) -> ClusterError:
    """An apply changes fields that belong to others: pairs of a manager and a path, in order."""
    counted = count_of(len(conflicts), "conflict")
    owned: dict[str, list[str]] = {}
    for owner, path in conflicts:
        owned.setdefault(owner, []).append(path)
    texts = []
    for owner, paths in owned.items():
        if len(conflicts) == 1:
            texts.append(f"conflict with {owner}: {paths[0]}")
        else:
            texts.append("\n- ".join([f"conflicts with {owner}:", *paths]))
    causes = tuple(
        StatusCause(reason="FieldManagerConflict", message=f"conflict with {owner}", field=path)
        for owner, path in conflicts
    )
    message = f"Apply failed with {counted}: " + "\n".join(texts)
    return _refusal(409, "Conflict", message, StatusDetails(causes=causes))


def delete_conflict(kind: ServedKind, name: str, message: str) -> ClusterError:
    """A delete's precondition failed. A real server names the kind here, not the resource."""
    return _conflict(kind.kind, kind.error_group, name, message)


def subresource_conflict(
    kind: ServedKind, subresource: str, name: str, message: str
) -> ClusterError:
    return _conflict(f"{kind.plural}/{subresource}", kind.group, name, message)


def invalid(kind: str, group: str, name: str, errors: list[FieldError]) -> ClusterError:
    """The field errors of one object. One error is printed bare, several in brackets.

    A body of wrong values could have a hundred thousand: only the first ones are listed.
    """
    errors = _listed(errors)
    causes = tuple(StatusCause(reason=e.reason, field=e.field, message=e.message) for e in errors)
    texts = [f"{e.field}: {e.message}" for e in errors]
    joined = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    return _refusal(
        422,
        "Invalid",
        f'{_qualified(kind, group)} "{name}" is invalid: {joined}',
        StatusDetails(name=name, group=group, kind=kind, causes=causes),
    )


def _listed(errors: list[FieldError]) -> list[FieldError]:
    listed: list[FieldError] = []
    n_bytes = 0
    for error in errors:
        n_bytes += len(error.field) + len(error.message)
        if listed and (len(listed) >= ERRORS_LISTED_MAX or n_bytes > ERRORS_BYTES_MAX):
            detail = f"{len(errors) - len(listed):,} further errors are not listed"
            return [*listed, field_errors.invalid(field_errors.NO_FIELD, "", detail)]
        listed.append(error)
    return listed


def access_denied(plural: str, group: str, name: str, message: str) -> ClusterError:
    """An admission plug-in's refusal."""
    return _forbidden(_details(plural, group, name), message)


GENERATED_LENGTH = 5  # of the random end of a generated name


def admitted_name(metadata: Body) -> str:
    """The name by which an admission plug-in knows an object: it sees no generated one."""
    name, prefix = metadata.get("name") or "", metadata.get("generateName") or ""
    if prefix and name.startswith(prefix) and len(name) == len(prefix) + GENERATED_LENGTH:
        return str(prefix)
    return str(name or prefix or "Unknown")


def namespace_terminating(kind: ServedKind, namespace: str, name: str) -> ClusterError:
    cause = StatusCause(
        reason="NamespaceTerminating",
        field="metadata.namespace",
        message=f"namespace {namespace} is being terminated",
    )
    return _forbidden(
        StatusDetails(name=name, group=kind.group, kind=kind.plural, causes=(cause,)),
        f"unable to create new content in namespace {namespace} because it is being terminated",
    )


# --- Lists and watches --------------------------------------------------------------------------


def expired(message: str) -> ClusterError:
    """The history from the version given is not kept any more: the client has to list again."""
    return _refusal(410, "Expired", message)


def version_too_large(wanted: int, current: int) -> ClusterError:
    """The version given is newer than the store. Clients know the cause and ask again."""
    message = f"Too large resource version: {wanted}, current: {current}"
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return _refusal(504, "Timeout", message, StatusDetails(causes=(cause,), retry_after_seconds=1))


# --- Evictions ----------------------------------------------------------------------------------


def budget_exhausted(message: str) -> ClusterError:
    return _eviction_refused(message)


def budget_lags(name: str) -> ClusterError:
    """The budget's status is older than its spec; ten seconds is what a real server asks for."""
    message = f"The disruption budget {name} is still being processed by the server."
    return _eviction_refused(message, retry_after_s=10)


def two_budgets() -> ClusterError:
    # A real server sends an internal error without a reason here.
    message = "This pod has more than one PodDisruptionBudget, which eviction does not support."
    return _refusal(500, "", message)


# --- The server ---------------------------------------------------------------------------------


def internal(message: str) -> ClusterError:
    return _refusal(500, "InternalError", f"Internal error occurred: {message}")


def not_written(why: str) -> ClusterError:
    """The disk does not take a write; nothing of it has happened."""
    return internal(f"the store could not be written: {why}")


def not_implemented(what: str) -> ClusterError:
    message = f"{what} is not implemented by the embedded API server"
    return _refusal(501, "NotImplemented", message)


def unavailable(message: str) -> ClusterError:
    return _refusal(503, "ServiceUnavailable", message)


def _eviction_refused(message: str, retry_after_s: int = 0) -> ClusterError:
    cause = StatusCause(reason="DisruptionBudget", message=message)
    return _refusal(
        429,
        "TooManyRequests",
        "Cannot evict pod as it would violate the pod's disruption budget.",
        StatusDetails(causes=(cause,), retry_after_seconds=retry_after_s),
    )


def _forbidden(details: StatusDetails, message: str) -> ClusterError:
    where = _qualified(details.kind, details.group)
    return _refusal(403, "Forbidden", f'{where} "{details.name}" is forbidden: {message}', details)


def _conflict(what: str, group: str, name: str, message: str) -> ClusterError:
    where = _qualified(what, group)
    text = f'Operation cannot be fulfilled on {where} "{name}": {message}'
    return _refusal(409, "Conflict", text, _details(what, group, name))


def _qualified(what: str, group: str) -> str:
    return f"{what}.{group}" if group else what


def _details(plural: str, group: str, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=group, kind=plural)


def _refusal(
    code: int, reason: str, message: str, details: StatusDetails | None = None
) -> ClusterError:
    return error_for(
        Status(status="Failure", code=code, reason=reason, message=message, details=details)
    )
