"""Checks of single fields that several kinds share: names, ports, paths, selectors, numbers.

Each function yields the errors of one field.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping, Sequence

from swell.api import quantity
from swell.api.meta import Body
from swell.cluster.embedded.objectmeta import (
    label_errors,
    label_value_problems,
    name_problems,
    qualified_name_problems,
)
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

ENV_NAME = re.compile(r"[ -<>-~]+")  # printable ASCII without "="
CONFIG_KEY = re.compile(r"[-._a-zA-Z0-9]+")
CONFIG_KEY_LENGTH_MAX = 253  # the length of a DNS subdomain
INT32_MAX = 2**31 - 1
HEADER_NAME = re.compile("[-A-Za-z0-9]+")
CONDITION_STATUSES = ("False", "True", "Unknown")
# Kubernetes' limits of a condition.
REASON_LENGTH_MAX, MESSAGE_LENGTH_MAX = 1024, 32 << 10
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")


def name_errors(value: str, field: str, rule: str = "subdomain") -> Iterator[FieldError]:
    """A name by one of the rules of `objectmeta`."""
    for problem in name_problems(value, rule):
        yield field_errors.invalid(field, value, problem)


def qualified_name_errors(value: str, field: str) -> Iterator[FieldError]:
    for problem in qualified_name_problems(value):
        yield field_errors.invalid(field, value, problem)


def non_negative(body: Body, name: str, path: str) -> Iterator[FieldError]:
    value = body.get(name)
    if value is not None and value < 0:
        detail = "must be greater than or equal to 0"
        yield field_errors.invalid(f"{path}.{name}", value, detail)


def immutable(new: object, old: object, field: str) -> Iterator[FieldError]:
    if new != old:
        yield field_errors.invalid(field, new, "field is immutable")


def conditions_errors(conditions: Sequence[Body], field: str) -> Iterator[FieldError]:
    """Conditions of the common form (metav1.Condition), each type once."""
    seen = set[str]()
    for index, condition in enumerate(conditions):
        where, kind, reason = (
            f"{field}[{index}]",
            condition.get("type", ""),
            condition.get("reason"),
        )
        if kind in seen:
            yield field_errors.duplicate(f"{where}.type", kind)
        seen.add(kind)
        yield from qualified_name_errors(kind, f"{where}.type")
        if condition.get("status") not in CONDITION_STATUSES:
            status = condition.get("status", "")
            yield field_errors.not_supported(f"{where}.status", status, CONDITION_STATUSES)
        yield from non_negative(condition, "observedGeneration", where)
        if not condition.get("lastTransitionTime"):
            yield field_errors.required(f"{where}.lastTransitionTime")
        if not reason:
            yield field_errors.required(f"{where}.reason")
        elif not _REASON.fullmatch(reason):
            yield field_errors.invalid(f"{where}.reason", reason, "must be a word of letters")
        for name, limit in (("reason", REASON_LENGTH_MAX), ("message", MESSAGE_LENGTH_MAX)):
            if len(str(condition.get(name, "")).encode()) > limit:
                yield field_errors.too_long(f"{where}.{name}", limit)


def access_mode_errors(modes: Sequence[str] | None, field: str) -> Iterator[FieldError]:
    """The modes of a volume or claim: at least one, and one that allows a single pod alone."""
    if not modes:
        yield field_errors.required(field, "at least 1 access mode is required")
        return
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield field_errors.not_supported(field, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        detail = "may not use ReadWriteOncePod with other access modes"
        yield field_errors.forbidden(field, detail)


def size_errors(sizes: Mapping[str, str], field: str) -> Iterator[FieldError]:
    """The size of a volume, which is more than nothing."""
    for name, value in sizes.items():
        if quantity.parse(value).nano <= 0:
            yield field_errors.invalid(f"{field}[{name}]", value, "must be greater than zero")


def negative_errors(sizes: Mapping[str, str], field: str) -> Iterator[FieldError]:
    for name, value in sizes.items():
        if quantity.parse(value).nano < 0:
            detail = "must be greater than or equal to 0"
            yield field_errors.invalid(f"{field}[{name}]", value, detail)


def requested_size_errors(spec: Body, field: str) -> Iterator[FieldError]:
    """The size that a claim asks for."""
    size = spec.get("resources", {}).get("requests", {}).get("storage")
    if size is None:
        yield field_errors.required(f"{field}.resources[storage]")
    else:
        yield from size_errors({"storage": size}, f"{field}.resources")


def id_errors(value: int, field: str) -> Iterator[FieldError]:
    """The numeric ID of a user or a group."""
    if not 0 <= value <= INT32_MAX:
        yield field_errors.invalid(field, value, f"must be between 0 and {INT32_MAX}, inclusive")


def port_number_errors(port: int, field: str) -> Iterator[FieldError]:
    if not 1 <= port <= 65535:
        yield field_errors.invalid(field, port, "must be between 1 and 65535, inclusive")


def port_name_errors(name: str, field: str) -> Iterator[FieldError]:
    if len(name) > 15:
        yield field_errors.invalid(field, name, "must be no more than 15 characters")
    if not re.fullmatch("[-a-z0-9]+", name):
        detail = "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)"
        yield field_errors.invalid(field, name, detail)
    if not re.search("[a-z]", name):
        yield field_errors.invalid(field, name, "must contain at least one letter (a-z)")
    if "--" in name:
        yield field_errors.invalid(field, name, "must not contain consecutive hyphens")
    if name[:1] == "-" or name[-1:] == "-":
        yield field_errors.invalid(field, name, "must not begin or end with a hyphen")


def port_errors(port: object, field: str) -> Iterator[FieldError]:
    """A port by number or by name."""
    if isinstance(port, int):
        yield from port_number_errors(port, field)
    else:
        yield from port_name_errors(str(port or ""), field)


def ip_errors(value: str, field: str) -> Iterator[FieldError]:
    try:
        ipaddress.ip_address(value)
    except ValueError:
        yield field_errors.invalid(field, value, "must be a valid IP address")


def special_address_errors(address: str, field: str) -> Iterator[FieldError]:
    value = ipaddress.ip_address(address)
    if value.is_unspecified or value.is_loopback or value.is_link_local or value.is_multicast:
        detail = "may not be unspecified, loopback, link-local or multicast"
        yield field_errors.invalid(field, address, detail)


def network_errors(value: str, field: str) -> Iterator[FieldError]:
    try:
        ipaddress.ip_network(value if "/" in value else "", strict=False)
    except ValueError:
        yield field_errors.invalid(field, value, "must be a valid CIDR value")


def config_key_errors(key: str, field: str) -> Iterator[FieldError]:
    """A key of a ConfigMap or a Secret."""
    if len(key) > CONFIG_KEY_LENGTH_MAX:
        yield field_errors.invalid(
            field, key, f"must be no more than {CONFIG_KEY_LENGTH_MAX} characters"
        )
    if not CONFIG_KEY.fullmatch(key):
        detail = (
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.' (e.g."
            " 'key.name',  or 'KEY_NAME',  or 'key-name', regex used for validation is"
            f" '{CONFIG_KEY.pattern}')"
        )
        yield field_errors.invalid(field, key, detail)
    if key in {".", ".."}:
        yield field_errors.invalid(field, key, f"must not be '{key}'")
    elif key.startswith(".."):
        yield field_errors.invalid(field, key, "must not start with '..'")


def env_name_errors(name: str, field: str) -> Iterator[FieldError]:
    if not ENV_NAME.fullmatch(name):
        detail = (
            "a valid environment variable name must consist only of printable ASCII characters"
            " other than '='"
        )
        yield field_errors.invalid(field, name, detail)


def relative_path_errors(path: str, field: str) -> Iterator[FieldError]:
    if path.startswith("/"):
        yield field_errors.invalid(field, path, "must be a relative path")
    yield from no_backstep_errors(path, field)


def no_backstep_errors(path: str, field: str) -> Iterator[FieldError]:
    if ".." in path.split("/"):
        yield field_errors.invalid(field, path, "must not contain '..'")


def file_mode_errors(body: Body, name: str, path: str) -> Iterator[FieldError]:
    mode = body.get(name)
    if mode is not None and not 0 <= mode <= 0o777:
        yield field_errors.invalid(f"{path}.{name}", mode, "must be between 0 and 0777 (octal)")


def labels_errors(labels: dict[str, str], field: str) -> list[FieldError]:
    return label_errors(labels, field)


def selector_errors(selector: Body | None, field: str) -> Iterator[FieldError]:
    """A label selector, with its labels and expressions."""
    if not selector:
        return
    yield from label_errors(selector.get("matchLabels", {}), f"{field}.matchLabels")
    for index, term in enumerate(selector.get("matchExpressions", ())):
        path = f"{field}.matchExpressions[{index}]"
        yield from requirement_errors(term, term.get("operator"), path)


def requirement_errors(
    term: Body, operator: str | None, path: str, *, numeric: bool = False
) -> Iterator[FieldError]:
    """A requirement on labels; node selectors may also compare numbers (Gt, Lt)."""
    values = term.get("values", [])
    if operator in {"In", "NotIn"}:
        if not values:
            yield field_errors.required(f"{path}.values", "must be specified for In and NotIn")
    elif operator in {"Exists", "DoesNotExist"}:
        if values:
            detail = "may not be specified for this operator"
            yield field_errors.forbidden(f"{path}.values", detail)
    elif numeric and operator in {"Gt", "Lt"}:
        if len(values) != 1:
            yield field_errors.required(f"{path}.values", "must be one value for Lt and Gt")
    else:
        yield field_errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    yield from qualified_name_errors(term.get("key", ""), f"{path}.key")
    for index, value in enumerate(values):
        for problem in label_value_problems(value):
            yield field_errors.invalid(f"{path}.values[{index}]", value, problem)
