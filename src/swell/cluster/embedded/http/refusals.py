"""The refusals that are HTTP's alone, each with the Status a real API server sends."""

from __future__ import annotations

from swell.api.meta import Status, StatusDetails
from swell.runtime.errors import ClusterError, error_for


def unauthorized() -> ClusterError:
    return _refusal(401, "Unauthorized", "Unauthorized")


def unknown_path() -> ClusterError:
    details = StatusDetails()
    return _refusal(404, "NotFound", "the server could not find the requested resource", details)


def method_not_allowed() -> ClusterError:
    text = "the server does not allow this method on the requested resource"
    return _refusal(405, "MethodNotAllowed", text)


def not_acceptable() -> ClusterError:
    text = "only the following media types are accepted: application/json"
    return _refusal(406, "NotAcceptable", text)


def too_large(limit: int) -> ClusterError:
    text = f"Request entity too large: limit is {limit}"
    return _refusal(413, "RequestEntityTooLarge", text)


def unsupported_media(given: str, *supported: str) -> ClusterError:
    text = f"the body of the request was in an unknown format ({given!a})"
    text += f" - accepted media types include: {', '.join(supported)}"
    return _refusal(415, "UnsupportedMediaType", text)


def not_implemented(what: str) -> ClusterError:
    text = f"{what} is not implemented by the embedded API server"
    return _refusal(501, "NotImplemented", text)


def unavailable(text: str) -> ClusterError:
    return _refusal(503, "ServiceUnavailable", text)


def _refusal(
    code: int, reason: str, message: str, details: StatusDetails | None = None
) -> ClusterError:
    return error_for(
        Status(status="Failure", code=code, reason=reason, message=message, details=details)
    )
