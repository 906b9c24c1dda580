"""The rules of `metadata`, the same for every kind: names, labels, annotations, owners, finalizers.

Pure: from bodies to field errors. A field that an update does not change is not checked again, so
that an object stored under older rules can still be updated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING

from swell.api.meta import Body
from swell.schema.field_errors import FieldError, forbidden, invalid, required, too_long

if TYPE_CHECKING:  # it imports the store and asyncio, which commands that check manifests do not
    from swell.cluster.embedded.registry import ServedKind

Problems = tuple[str, ...]  # what is wrong with a value, in words; empty when nothing is

ANNOTATIONS_BYTES_MAX = 256 << 10  # of all keys and values together, as in Kubernetes
_QUALIFIED_LENGTH_MAX = 253 + len("/") + 63
ORPHAN = "orphan"
FOREGROUND = "foregroundDeletion"

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LABEL_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_QUALIFIED = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")

# The names of the rules are those of `ServedKind.name_rule`: pattern, length, description.
_NAME_RULES: dict[str, tuple[re.Pattern[str], int, str]] = {
    "subdomain": (
        _SUBDOMAIN,
        253,
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or"
        " '.', and must start and end with an alphanumeric character (e.g. 'example.com',",
    ),
    "label": (
        _LABEL,
        63,
        "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and"
        " must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc',",
    ),
    "label1035": (
        _LABEL_1035,
        63,
        "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an"
        " alphabetic character, and end with an alphanumeric character (e.g. 'my-name', "
        " or 'abc-123',",
    ),
}
SEGMENT = "segment"  # the rule of names that need only be a part of a path
_QUALIFIED_SHAPE = (
    "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an"
    " alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for"
    " validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_LABEL_SHAPE = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.',"
    " and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or"
    " '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
STANDARD_FINALIZERS = frozenset({"kubernetes", ORPHAN, FOREGROUND})
_IMMUTABLE = (
    *("name", "namespace", "uid"),
    *("creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"),
)


def name_problems(name: str, rule: str = "subdomain", unit: str = "characters") -> Problems:
    """The problems with a name; `unit` is the word for its length, which differs by the place."""
    if rule == SEGMENT:
        return _segment_problems(name)
    pattern, n_max, description = _NAME_RULES[rule]
    found: Problems = ()
    if len(name) > n_max:
        found += (f"must be no more than {n_max} {unit}",)
    if not pattern.fullmatch(name):
        found += (f"{description} regex used for validation is '{pattern.pattern}')",)
    return found


def _segment_problems(name: str) -> Problems:
    if name in {".", ".."}:
        return (f"may not be '{name}'",)
    return tuple(f"may not contain '{mark}'" for mark in "/%" if mark in name)


def qualified_name_problems(name: str) -> Problems:
    """The problems with a label key, annotation key or finalizer."""
    # Long ones are rare and all different, so they are not worth a place in the cache.
    check = _qualified_problems if len(name) <= _QUALIFIED_LENGTH_MAX else _uncached_problems
    return check(name)


def _uncached_problems(name: str) -> Problems:
    prefix, slash, rest = name.rpartition("/")
    if "/" in prefix:
        example = "with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')"
        return (f"a valid label key {_QUALIFIED_SHAPE} {example}",)
    found: Problems = ()
    if slash and not prefix:
        found += ("prefix part must be non-empty",)
    elif slash:
        found += tuple(f"prefix part {one}" for one in name_problems(prefix, unit="bytes"))
    if not rest:
        found += ("name part must be non-empty",)
    elif len(rest) > 63:
        found += ("name part must be no more than 63 bytes",)
    if not _QUALIFIED.fullmatch(rest):
        found += (f"name part {_QUALIFIED_SHAPE}",)
    return found


_qualified_problems = lru_cache(maxsize=4096)(_uncached_problems)  # most objects share a few keys


def label_value_problems(value: str) -> Problems:
    """The problems with a label's value."""
    found: Problems = ()
    if len(value) > 63:
        found += ("must be no more than 63 bytes",)
    if value and not _QUALIFIED.fullmatch(value):
        found += (_LABEL_SHAPE,)
    return found


def metadata_errors(kind: ServedKind, metadata: Body, old: Body | None) -> list[FieldError]:
    """All errors in the metadata of a new object, or of a new version of an old one."""
    errors: list[FieldError] = []
    if old is None:
        errors += _name_errors(kind, metadata)
        if (metadata.get("generation") or 0) < 0:
            problem = "must be greater than or equal to 0"
            errors.append(invalid("metadata.generation", metadata["generation"], problem))
    else:
        errors += _change_errors(metadata, old)
    for field, check in _CHECKS:
        value = metadata.get(field)
        if value and (old is None or value != old.get(field)):
            errors += check(value)
            if field == "finalizers" and kind.qualified_finalizers:
                errors += _unqualified_errors(value)
    return errors


def _name_errors(kind: ServedKind, metadata: Body) -> list[FieldError]:
    errors: list[FieldError] = []
    prefix, name = metadata.get("generateName") or "", metadata.get("name") or ""
    # A suffix follows the prefix, so it may end with a dash. A real server masks that dash for
    # the check, and the character before it is lost in the process.
    masked = prefix[:-2] + "a" if len(prefix) > 1 and prefix.endswith("-") else prefix
    if prefix:
        problems = name_problems(masked, kind.name_rule)
        errors += [invalid("metadata.generateName", prefix, problem) for problem in problems]
    if not name:
        return [*errors, required("metadata.name", "name or generateName is required")]
    problems = name_problems(name, kind.name_rule)
    return [*errors, *(invalid("metadata.name", name, problem) for problem in problems)]


def _change_errors(metadata: Body, old: Body) -> list[FieldError]:
    errors = [
        invalid(f"metadata.{field}", metadata.get(field), "field is immutable")
        for field in _IMMUTABLE
        if metadata.get(field) != old.get(field)
    ]
    if old.get("deletionTimestamp"):
        added = set(metadata.get("finalizers") or ()) - set(old.get("finalizers") or ())
        if added:
            problem = "no new finalizers can be added if the object is being deleted, found new "
            errors.append(forbidden("metadata.finalizers", problem + ", ".join(sorted(added))))
    return errors


def label_errors(labels: dict[str, str], field: str = "metadata.labels") -> list[FieldError]:
    errors: list[FieldError] = []
    for key, value in labels.items():
        errors += [invalid(field, key, problem) for problem in qualified_name_problems(key)]
        errors += [invalid(field, value, problem) for problem in label_value_problems(value)]
    return errors


def annotation_errors(
    annotations: dict[str, str], field: str = "metadata.annotations"
) -> list[FieldError]:
    errors = [
        invalid(field, key, problem)
        for key in annotations
        # A real server lower-cases annotation keys before it checks them.
        for problem in qualified_name_problems(key.lower())
    ]
    n_bytes = sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())
    if n_bytes > ANNOTATIONS_BYTES_MAX:
        errors.append(too_long(field, ANNOTATIONS_BYTES_MAX))
    return errors


def _owner_errors(owners: list[Body]) -> list[FieldError]:
    field = "metadata.ownerReferences"
    errors: list[FieldError] = []
    for owner in owners:
        errors += [
            invalid(f"{field}.{part}", owner.get(part) or "", "must not be empty")
            for part in ("apiVersion", "kind", "name", "uid")
            if not owner.get(part)
        ]
        if (owner.get("apiVersion") or "").count("/") > 1:
            problem = "must be a group and a version"
            errors.append(invalid(f"{field}.apiVersion", owner["apiVersion"], problem))
        if owner.get("apiVersion") == "v1" and owner.get("kind") == "Event":
            errors.append(invalid(field, owner, "an Event is disallowed from being an owner"))
    if sum(1 for owner in owners if owner.get("controller")) > 1:
        errors.append(invalid(field, owners, "only one reference can have controller set to true"))
    return errors


def _finalizer_errors(finalizers: list[str]) -> list[FieldError]:
    field = "metadata.finalizers"
    errors = [
        invalid(field, name, problem)
        for name in finalizers
        for problem in qualified_name_problems(name)
    ]
    if ORPHAN in finalizers and FOREGROUND in finalizers:
        errors.append(invalid(field, finalizers, f"{ORPHAN} and {FOREGROUND} cannot be both set"))
    return errors


def _unqualified_errors(finalizers: list[str]) -> list[FieldError]:
    problem = "name is neither a standard finalizer name nor is it fully qualified"
    return [
        invalid(f"metadata.finalizers[{n}]", name, problem)
        for n, name in enumerate(finalizers)
        if "/" not in name and name not in STANDARD_FINALIZERS
    ]


_CHECKS: tuple[tuple[str, Callable[..., list[FieldError]]], ...] = (
    ("labels", label_errors),
    ("annotations", annotation_errors),
    ("ownerReferences", _owner_errors),
    ("finalizers", _finalizer_errors),
)
