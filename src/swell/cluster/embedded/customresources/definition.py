"""CustomResourceDefinitions: defaults, conditions and validation."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.api.times import format_time
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.definitions import EMPTY_IN_SCHEMAS
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.customresources.kinds import compile_versions
from swell.cluster.embedded.customresources.rule_checks import schema_errors
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError
from swell.schema.formats import is_known_format
from swell.schema.keywords import KeywordPlace, parts
from swell.schema.structural import SchemaPath, children

CRDS = "customresourcedefinitions.apiextensions.k8s.io"
CLEANUP_FINALIZER = "customresourcecleanup.apiextensions.k8s.io"
APPROVAL = "api-approved.kubernetes.io"
PROTECTED_GROUPS = ("k8s.io", "kubernetes.io")
COLUMN_TYPES = ("boolean", "date", "integer", "number", "string")
COLUMN_FORMATS = (
    "", "int32", "int64", "float", "double", "byte", "date", "date-time", "password", "name",
)  # fmt: skip
# The parts of a version, and the names under which versions that agree share them.
_VERSION_PARTS = {
    "schema": "validation",
    "subresources": "subresources",
    "additionalPrinterColumns": "additionalPrinterColumns",
    "selectableFields": "selectableFields",
}
WARNING_LENGTH_MAX = 256  # Kubernetes' limit of deprecationWarning


def default(definition: Body) -> None:
    spec = definition["spec"]
    names = spec.setdefault("names", {})
    kind = names.get("kind", "")
    if kind:
        names["singular"] = names.get("singular") or kind.lower()
        names["listKind"] = names.get("listKind") or f"{kind}List"
    spec.setdefault("conversion", {"strategy": "None"})


def prepare(new: Body, old: Body | None, context: WriteContext) -> None:
    """Decide at once what Kubernetes' naming controller decides later.

    That is whether the names are free, and whether the definition is established.
    """
    status = new["status"]
    stored = status["storedVersions"] = list(status.get("storedVersions") or ())
    for version in new["spec"].get("versions", ()):
        if version.get("storage") and version.get("name", "") not in stored:
            stored.append(version.get("name", ""))
    if old is not None and old["spec"] == new["spec"]:
        return
    problem = _names_problem(new, context)
    if not problem:
        status["acceptedNames"] = dict(new["spec"]["names"])
    else:
        status.setdefault("acceptedNames", {"plural": "", "kind": ""})
    # A definition that was established stays so, even when a later change of names conflicts.
    established = not problem or _is_true(status, "Established")
    _set_conditions(status, problem, established=established, now=context.now)


def _names_problem(definition: Body, context: WriteContext) -> tuple[str, str] | None:
    """The reason and message for the first name that another definition of the group holds."""
    spec = definition["spec"]
    names = spec.get("names", {})
    resources, kinds = set(), set()
    for other in context.each(CRDS):
        accepted = other.get("status", {}).get("acceptedNames", {})
        same = other["metadata"]["name"] == definition["metadata"].get("name")
        if not same and other["spec"]["group"] == spec.get("group"):
            taken = (accepted.get("plural"), accepted.get("singular"))
            resources |= {*taken, *accepted.get("shortNames", ())}
            kinds |= {accepted.get("kind"), accepted.get("listKind")}
    wanted = [
        ("PluralConflict", names.get("plural"), resources),
        ("SingularConflict", names.get("singular"), resources),
        *(("ShortNamesConflict", short, resources) for short in names.get("shortNames", ())),
        ("KindConflict", names.get("kind"), kinds),
        ("ListKindConflict", names.get("listKind"), kinds),
    ]
    for reason, name, taken_names in wanted:
        if name and name in taken_names:
            return reason, f'"{name}" is already in use'
    return None


def _set_conditions(
    status: Body, problem: tuple[str, str] | None, *, established: bool, now: float
) -> None:
    accepted = problem or ("NoConflicts", "no conflicts found")
    initial = ("InitialNamesAccepted", "the initial names have been accepted")
    refused = ("NotAccepted", "not all names are accepted")
    wanted = (
        ("NamesAccepted", problem is None, *accepted),
        ("Established", established, *(initial if established else refused)),
    )
    held = {condition["type"]: condition for condition in status.get("conditions") or ()}
    for kind, value, reason, message in wanted:
        shown = "True" if value else "False"
        before = held.get(kind, {})
        since = before.get("lastTransitionTime") if before.get("status") == shown else None
        held[kind] = {
            "type": kind,
            "status": shown,
            "reason": reason,
            "message": message,
            "lastTransitionTime": since or format_time(now),
        }
    status["conditions"] = list(held.values())


def _is_true(status: Body, kind: str) -> bool:
    conditions = status.get("conditions") or ()
    return any(one.get("type") == kind and one.get("status") == "True" for one in conditions)


# --- validation --------------------------------------------------------------------------------


def errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    spec = new["spec"]
    group, plural = spec.get("group", ""), spec.get("names", {}).get("plural", "")
    named = bool(new["metadata"].get("name"))
    if old is None and named and new["metadata"]["name"] != f"{plural}.{group}":
        name = new["metadata"].get("name", "")
        detail = 'must be spec.names.plural+"."+spec.group'
        yield field_errors.invalid("metadata.name", name, detail)
    yield from _group_errors(new)
    if spec.get("scope") and spec["scope"] not in {"Namespaced", "Cluster"}:
        yield field_errors.not_supported(
            "spec.scope", spec.get("scope", ""), ["Cluster", "Namespaced"]
        )
    if spec.get("preserveUnknownFields"):
        detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields in the schema"
        yield field_errors.invalid("spec.preserveUnknownFields", True, detail)
    yield from _name_errors(spec.get("names", {}), "spec.names")
    versions = spec.get("versions", [])
    yield from _version_list_errors(versions)
    if versions and versions[0].get("name"):  # which a real server keeps as the version, too
        yield from fields.name_errors(versions[0]["name"], "spec.version", "label1035")
    shared = _shared_parts(versions)
    for index, version in enumerate(versions):
        yield from _version_errors(version, index, shared, any(map(_has_status, versions)))
    yield from _stored_version_errors(new)
    yield from _conversion_errors(spec.get("conversion", {}))
    if old is not None:
        yield from _change_errors(spec, old)


def _group_errors(definition: Body) -> Iterator[FieldError]:
    group = definition["spec"].get("group", "")
    if not group:
        yield field_errors.required("spec.group")
        return
    yield from fields.name_errors(group, "spec.group")
    if "." not in group:
        yield field_errors.invalid("spec.group", group, "should be a domain with at least one dot")
    protected = any(group == name or group.endswith(f".{name}") for name in PROTECTED_GROUPS)
    if protected and not definition["metadata"].get("annotations", {}).get(APPROVAL):
        detail = "protected groups must have approval annotation"
        yield field_errors.required(f"metadata.annotations[{APPROVAL}]", detail)


def _name_errors(names: Body, path: str) -> Iterator[FieldError]:
    for name in ("plural", "singular", "kind", "listKind"):
        value = names.get(name, "")
        if not value:
            yield field_errors.required(f"{path}.{name}")
        else:  # only kinds may have capital letters
            shown = value.lower() if name.endswith(("kind", "Kind")) else value
            yield from fields.name_errors(shown, f"{path}.{name}", "label1035")
    for name in ("shortNames", "categories"):
        for index, value in enumerate(names.get(name, ())):
            yield from fields.name_errors(value, f"{path}.{name}[{index}]", "label1035")
    if names.get("kind") and names.get("kind") == names.get("listKind"):
        detail = "kind and listKind may not be the same"
        yield field_errors.invalid(f"{path}.listKind", names["listKind"], detail)


def _version_list_errors(versions: list[Body]) -> Iterator[FieldError]:
    names = [version.get("name", "") for version in versions]
    if len(set(names)) != len(names):
        yield field_errors.invalid("spec.versions", names, "must contain unique version names")
    if sum(bool(version.get("storage")) for version in versions) != 1:
        detail = "must have exactly one version marked as storage version"
        yield field_errors.invalid("spec.versions", names, detail)


def _shared_parts(versions: list[Body]) -> frozenset[str]:
    """The parts in which all versions agree.

    A real server keeps those once for all versions, and names their place there in errors.
    """
    return frozenset(
        part
        for part in _VERSION_PARTS
        if all(version.get(part) == versions[0].get(part) for version in versions)
    )


def _version_errors(
    version: Body, at: int, shared: frozenset[str], any_status: bool
) -> Iterator[FieldError]:
    path = f"spec.versions[{at}]"
    yield from fields.name_errors(version.get("name", ""), f"{path}.name", "label1035")
    schema = version.get("schema", {}).get("openAPIV3Schema")
    if schema is None:
        yield field_errors.required(f"{path}.schema.openAPIV3Schema", "schemas are required")
    yield from _deprecation_errors(version, f"{path}.deprecationWarning")
    for part, shared_name in _VERSION_PARTS.items():
        if part in shared and at == 0:
            yield from _part_errors(version, part, f"spec.{shared_name}", any_status)
        elif part not in shared:
            yield from _part_errors(version, part, f"{path}.{part}", _has_status(version))


def _has_status(version: Body) -> bool:
    return "status" in version.get("subresources", {})


def _part_errors(version: Body, part: str, path: str, has_status: bool) -> Iterator[FieldError]:
    """Validate one part of a version, which errors name by the given path."""
    schema = version.get("schema", {}).get("openAPIV3Schema")
    match part:
        case "schema" if schema is not None:
            yield from schema_errors(schema, f"{path}.openAPIV3Schema", has_status=has_status)
        case "subresources":
            yield from _scale_errors(version.get("subresources", {}), f"{path}.scale")
        case "additionalPrinterColumns":
            for index, column in enumerate(version.get(part, ())):
                yield from _column_errors(column, f"{path}[{index}]")
        case "selectableFields":
            for index, field in enumerate(version.get(part, ())):
                where, json_path = f"{path}[{index}].jsonPath", field.get("jsonPath", "")
                if not json_path:
                    yield field_errors.required(where)
                elif not _selects_scalar(json_path, schema or {}):
                    detail = "must point to a field of type string, boolean or integer"
                    yield field_errors.invalid(where, json_path, detail)


def _selects_scalar(json_path: str, schema: Body) -> bool:
    if not json_path.startswith(".") or json_path.startswith(".metadata"):
        return False
    for step in json_path[1:].split("."):
        schema = schema.get("properties", {}).get(step, {})
    return schema.get("type") in {"string", "boolean", "integer"}


def _deprecation_errors(version: Body, path: str) -> Iterator[FieldError]:
    warning = version.get("deprecationWarning")
    if warning is None:
        return
    if not version.get("deprecated"):
        yield field_errors.invalid(path, warning, "can only be set for deprecated versions")
    if not warning or len(warning) > WARNING_LENGTH_MAX or not warning.isprintable():
        detail = f"must be printable and have 1 to {WARNING_LENGTH_MAX} characters"
        yield field_errors.invalid(path, warning, detail)


def _scale_errors(subresources: Body, path: str) -> Iterator[FieldError]:
    scale = subresources.get("scale")
    if scale is None:
        return
    roots = {
        "specReplicasPath": (".spec.",),
        "statusReplicasPath": (".status.",),
        "labelSelectorPath": (".spec.", ".status."),
    }
    for name, allowed in roots.items():
        value = scale.get(name, "")
        if not value:
            if name != "labelSelectorPath":
                yield field_errors.required(f"{path}.{name}")
        elif not value.startswith(allowed) or "[" in value or value.endswith("."):
            detail = f"should be a json path under {' or '.join(allowed)}"
            yield field_errors.invalid(f"{path}.{name}", value, detail)


def _column_errors(column: Body, path: str) -> Iterator[FieldError]:
    if not column.get("name"):
        yield field_errors.required(f"{path}.name")
    if not column.get("type"):
        yield field_errors.required(f"{path}.type")
    elif column["type"] not in COLUMN_TYPES:
        yield field_errors.invalid(
            f"{path}.type", column["type"], f"one of {', '.join(COLUMN_TYPES)}"
        )
    if column.get("format", "") not in COLUMN_FORMATS:
        detail = f"one of {', '.join(COLUMN_FORMATS)}"
        yield field_errors.invalid(f"{path}.format", column["format"], detail)
    json_path = column.get("jsonPath", "")
    if not json_path:
        yield field_errors.required(f"{path}.JSONPath")
    elif not json_path.startswith("."):
        detail = "must be a simple json path starting with ."
        yield field_errors.invalid(f"{path}.JSONPath", json_path, detail)


def _stored_version_errors(definition: Body) -> Iterator[FieldError]:
    names = {version.get("name") for version in definition["spec"].get("versions", ())}
    if not definition["status"].get("storedVersions"):
        detail = "must have at least one stored version"
        yield field_errors.invalid("status.storedVersions", None, detail)
    for index, name in enumerate(definition["status"].get("storedVersions") or ()):
        if name not in names:
            where = f"status.storedVersions[{index}]"
            yield field_errors.invalid(where, name, "missing from spec.versions")


def _conversion_errors(conversion: Body) -> Iterator[FieldError]:
    strategy, where = conversion.get("strategy") or "None", "spec.conversion"
    if strategy not in {"None", "Webhook"}:
        yield field_errors.not_supported(f"{where}.strategy", strategy, ["None", "Webhook"])
    elif strategy == "Webhook":
        # Kubernetes accepts this; the embedded server calls no webhooks.
        yield field_errors.not_supported(f"{where}.strategy", strategy, ["None"])
    elif conversion.get("webhook"):
        detail = "should not be set when strategy is not set to Webhook"
        yield field_errors.forbidden(f"{where}.webhook", detail)


def _change_errors(spec: Body, old: Body) -> Iterator[FieldError]:
    before = old["spec"]
    yield from fields.immutable(spec.get("group"), before.get("group"), "spec.group")
    names, held = spec.get("names", {}), before.get("names", {})
    yield from fields.immutable(names.get("plural"), held.get("plural"), "spec.names.plural")
    if _is_true(old.get("status", {}), "Established"):
        yield from fields.immutable(spec.get("scope"), before.get("scope"), "spec.scope")
        yield from fields.immutable(names.get("kind"), held.get("kind"), "spec.names.kind")


def errors_and_rules(new: Body, old: Body | None, context: WriteContext) -> list[FieldError]:
    """The errors of a definition. The schemas of one without errors are compiled already."""
    if old is not None and old["spec"] == new["spec"]:
        return list(_stored_version_errors(new))  # the spec was valid when it was stored
    found = list(errors(new, old, context))
    if not found:
        _drop_empty(new)
        compile_versions(new)
    return found


def _drop_empty(definition: Body) -> None:
    """Drop the empty lists of schemas, which only their checks have to see."""
    left = [
        schema
        for version in definition["spec"]["versions"]
        if (schema := version.get("schema", {}).get("openAPIV3Schema")) is not None
    ]
    while left:
        schema = left.pop()
        empty = [name for name in EMPTY_IN_SCHEMAS if not schema.get(name, True)]
        empty += ["items"] if schema.get("items") == [] else []
        for name in empty:
            del schema[name]
        left += [part for part, _ in parts(schema, KeywordPlace(""))]


def unknown_formats(new: Body, old: Body | None) -> Iterator[str]:
    """Warn of formats that no value is checked by, and that the definition did not have before."""
    before = set(_unknown_formats(old)) if old is not None else set()
    for name in _unknown_formats(new):
        if name not in before:
            yield f'unrecognized format "{name}"'


def _unknown_formats(definition: Body) -> Iterator[str]:
    for version in definition["spec"].get("versions") or ():
        left = [(version.get("schema") or {}).get("openAPIV3Schema")]
        while left:
            schema = left.pop()
            if not isinstance(schema, dict):
                continue
            name, kind = schema.get("format"), schema.get("type", "")
            if isinstance(name, str) and name and not is_known_format(name, str(kind)):
                yield name
            left += [part for part, _ in children(schema, SchemaPath("", "root"))]


DEFINITIONS = Behaviour(
    default=default, prepare=prepare, errors=errors_and_rules, warnings=unknown_formats
)
