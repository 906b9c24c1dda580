"""Field errors with the reasons and wording of Kubernetes, and the Status they make.

Builds values; decides nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from swell.api.meta import Status, StatusDetails
from swell.cluster.embedded.registry import FieldError
from swell.runtime.errors import ClusterError, error_for

# What Kubernetes shows for an error that belongs to no field.
NO_FIELD = "<nil>"


def required(field: str, detail: str = "") -> FieldError:
    return FieldError("FieldValueRequired", field, _message("Required value", detail))


def invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueInvalid", field, f"Invalid value: {_shown(value)}: {detail}")


def type_invalid(field: str, value: object, detail: str) -> FieldError:
    return FieldError("FieldValueTypeInvalid", field, f"Invalid value: {_shown(value)}: {detail}")


def not_supported(field: str, value: object, supported: Iterable[object]) -> FieldError:
    values = ", ".join(_shown(item) for item in supported)
    return FieldError(
        "FieldValueNotSupported",
        field,
        f"Unsupported value: {_shown(value)}: supported values: {values}",
    )


def forbidden(field: str, detail: str) -> FieldError:
    return FieldError("FieldValueForbidden", field, _message("Forbidden", detail))


def duplicate(field: str, value: object) -> FieldError:
    return FieldError("FieldValueDuplicate", field, f"Duplicate value: {_shown(value)}")


def not_found(field: str, value: object) -> FieldError:
    return FieldError("FieldValueNotFound", field, f"Not found: {_shown(value)}")


def too_long(field: str, limit: int) -> FieldError:
    return FieldError(
        "FieldValueTooLong", field, f"Too long: may not be more than {limit} characters"
    )


def too_many(field: str, n_items: int, limit: int) -> FieldError:
    return FieldError(
        "FieldValueTooMany", field, f"Too many: {n_items}: must have at most {limit} items"
    )


def bad_request(message: str) -> ClusterError:
    return error_for(Status(status="Failure", code=400, reason="BadRequest", message=message))


def access_denied(plural: str, group: str, name: str, message: str) -> ClusterError:
    """What an admission plug-in answers."""
    where = f"{plural}.{group}" if group else plural
    return error_for(
        Status(
            status="Failure",
            code=403,
            reason="Forbidden",
            message=f'{where} "{name}" is forbidden: {message}',
            details=StatusDetails(name=name, group=group, kind=plural),
        )
    )


def _message(head: str, detail: str) -> str:
    return f"{head}: {detail}" if detail else head


def _shown(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else text[:200] + "..."
