"""The refusals of the API server's verbs, each with the Status a real one sends.

Field errors and how they read are in `faults`; here they are gathered into a refusal.
"""

from __future__ import annotations

from swell.api.meta import Status, StatusCause, StatusDetails
from swell.cluster.embedded.registry import FieldError, Kind
from swell.runtime.errors import ClusterError, error_for


def not_found(plural: str, group: str, name: str) -> ClusterError:
    return _refusal(
        404, "NotFound", f'{_where(plural, group)} "{name}" not found', _about(plural, group, name)
    )


def already_exists(kind: Kind, name: str) -> ClusterError:
    return _refusal(
        409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _of(kind, name)
    )


def conflict(kind: Kind, name: str, message: str) -> ClusterError:
    """An update that was decided on another state than the current one."""
    return _conflict(kind.plural, kind.group, name, message)


def delete_conflict(kind: Kind, name: str, message: str) -> ClusterError:
    """A delete's precondition failed. A real server names the kind here, not the resource."""
    return _conflict(kind.kind, kind.group, name, message)


def subresource_conflict(kind: Kind, subresource: str, name: str, message: str) -> ClusterError:
    return _conflict(f"{kind.plural}/{subresource}", kind.group, name, message)


def invalid(kind: str, group: str, name: str, errors: list[FieldError]) -> ClusterError:
    causes = tuple(StatusCause(reason=e.reason, field=e.field, message=e.message) for e in errors)
    told = [f"{e.field}: {e.message}" for e in errors]
    shown = told[0] if len(told) == 1 else f"[{', '.join(told)}]"
    return _refusal(
        422,
        "Invalid",
        f'{_where(kind, group)} "{name}" is invalid: {shown}',
        StatusDetails(name=name, group=group, kind=kind, causes=causes),
    )


def namespace_terminating(kind: Kind, namespace: str, name: str) -> ClusterError:
    message = (
        f"unable to create new content in namespace {namespace} because it is being terminated"
    )
    cause = StatusCause(
        reason="NamespaceTerminating",
        field="metadata.namespace",
        message=f"namespace {namespace} is being terminated",
    )
    details = StatusDetails(name=name, group=kind.group, kind=kind.plural, causes=(cause,))
    told = f'{kind.resource} "{name}" is forbidden: {message}'
    return _refusal(403, "Forbidden", told, details)


def expired(message: str) -> ClusterError:
    return _refusal(410, "Expired", message, None)


def version_too_large(wanted: int, current: int) -> ClusterError:
    message = f"Too large resource version: {wanted}, current: {current}"
    cause = StatusCause(reason="ResourceVersionTooLarge", message="Too large resource version")
    return _refusal(504, "Timeout", message, StatusDetails(causes=(cause,), retry_after_seconds=1))


def budget_exhausted(message: str) -> ClusterError:
    cause = StatusCause(reason="DisruptionBudget", message=message)
    told = "Cannot evict pod as it would violate the pod's disruption budget."
    return _refusal(429, "TooManyRequests", told, StatusDetails(causes=(cause,)))


def budget_lags(name: str) -> ClusterError:
    message = f"The disruption budget {name} is still being processed by the server."
    cause = StatusCause(reason="DisruptionBudget", message=message)
    told = "Cannot evict pod as it would violate the pod's disruption budget."
    details = StatusDetails(causes=(cause,), retry_after_seconds=10)
    return _refusal(429, "TooManyRequests", told, details)


def two_budgets() -> ClusterError:
    told = "This pod has more than one PodDisruptionBudget, which eviction does not support."
    return _refusal(500, "", told, None)


def bad_patch(message: str) -> ClusterError:
    """The patched object is none of the kind; a real server blames the patch, and nothing else."""
    return invalid("", "", "", [FieldError("FieldValueInvalid", "patch", message)])


def internal(message: str) -> ClusterError:
    return _refusal(500, "InternalError", f"Internal error occurred: {message}", None)


def method_not_allowed(verb: str) -> ClusterError:
    told = f"{verb} is not supported on resources of this kind"
    return _refusal(405, "MethodNotAllowed", told, None)


def _where(what: str, group: str) -> str:
    return f"{what}.{group}" if group else what


def _about(plural: str, group: str, name: str) -> StatusDetails:
    return StatusDetails(name=name, group=group, kind=plural)


def _of(kind: Kind, name: str) -> StatusDetails:
    return _about(kind.plural, kind.group, name)


def _conflict(what: str, group: str, name: str, message: str) -> ClusterError:
    told = f'Operation cannot be fulfilled on {_where(what, group)} "{name}": {message}'
    return _refusal(409, "Conflict", told, _about(what, group, name))


def _refusal(code: int, reason: str, message: str, details: StatusDetails | None) -> ClusterError:
    return error_for(
        Status(status="Failure", code=code, reason=reason, message=message, details=details)
    )
