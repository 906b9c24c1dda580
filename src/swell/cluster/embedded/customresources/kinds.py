"""The kinds that a definition serves: one per version, with schema, rules and columns."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from hashlib import blake2b
from types import MappingProxyType
from typing import Any, cast
from weakref import WeakValueDictionary

from swell.api import codec
from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import definitions
from swell.cluster.embedded.builtin.rules import report_unknown
from swell.cluster.embedded.customresources.rules import TOLERATED, RuleBudget, compile_rules
from swell.cluster.embedded.objectmeta import STANDARD_FINALIZERS
from swell.cluster.embedded.registry import (
    METADATA_FIELDS,
    FieldPath,
    ScalePaths,
    ServedKind,
    TableColumn,
    WriteContext,
    version_rank,
)
from swell.schema import field_errors
from swell.schema.decode import DecodeError
from swell.schema.field_errors import FieldError, Path
from swell.schema.pruning import FILLED_BYTES_MAX, FilledTooMuchError, Pruning, compile_pruner
from swell.schema.values import MISSING, compile_values

# With one of these errors no rule is run, as in Kubernetes: rules may fail on such values.
BLOCKING = frozenset(
    {"FieldValueRequired", "FieldValueTooLong", "FieldValueTooMany", "FieldValueTypeInvalid"}
)
# What a real server says of a column that has no description of its own.
_COLUMN_TEXT = "Custom resource definition column (in JSONPath format): "
# A real server lists the verbs of custom kinds in this order.
_VERBS = ("delete", "deletecollection", "get", "list", "patch", "create", "update", "watch")
# The JSON of a schema beyond which its compiled rules are some ten thousand objects.
LARGE_SCHEMA_BYTES = 64 * 1024
NAME = TableColumn("Name", ".metadata.name", format="name", description="Name of the object")


class CustomRules:
    """The `Rules` of one version of a custom resource.

    A write goes through `shape`, `prepare` and `validate`; `reshape` and `prune` convert between
    versions.
    """

    def __init__(self, schema: Body, *, has_status: bool) -> None:
        shape = compile_pruner(schema, metadata=_shape_metadata, root=True)
        prune = compile_pruner(schema, metadata=_shape_metadata, root=True, fill=False)
        if shape is None or prune is None:
            raise AssertionError("the schema of a whole object always shapes it")
        self._shape, self._prune = shape, prune
        self._values = compile_values(schema)
        self._rules = compile_rules(schema, root=True)
        self._has_status = has_status

    def shape(self, body: Body, context: WriteContext) -> Body:
        found = Pruning()
        try:
            shaped = self._shape(body, None, found)
        except DecodeError as error:
            raise refusals.unreadable_body(context.verb, str(error), context.kind) from error
        except FilledTooMuchError as error:
            raise refusals.object_too_large(error.n_bytes, FILLED_BYTES_MAX) from error
        report_unknown(sorted(found.unknown), context)
        return cast("Body", shaped)

    def reshape(self, body: Body) -> Body:
        """A stored object, pruned and defaulted by this version's schema.

        One that its defaults would let outgrow every object is pruned only.
        """
        try:
            return cast("Body", self._shape(body, None, Pruning()))
        except FilledTooMuchError:
            return self.prune(body)

    def prune(self, body: Body) -> Body:
        """An object of another version without the fields this one does not declare."""
        return cast("Body", self._prune(body, None, Pruning()))

    def prepare(self, new: Body, old: Body | None, context: WriteContext) -> None:
        if not self._has_status:
            return
        if context.subresource == "status" and old is not None:
            status = new.get("status")
            new.clear()
            new.update(_copy({name: old[name] for name in old if name != "status"}))
            if status is not None:
                new["status"] = status
            return
        new.pop("status", None)
        if old is not None and "status" in old:
            new["status"] = _copy(old["status"])

    def validate(self, new: Body, old: Body | None, context: WriteContext) -> list[FieldError]:
        before: object = MISSING if old is None else old
        if context.subresource != "status":
            context.warnings.extend(_finalizer_warnings(new, old))
        errors: list[FieldError] = []
        self._values(new, before, None, errors)
        if self._rules is None:
            pass
        elif any(error.reason in BLOCKING for error in (*context.metadata_errors, *errors)):
            detail = "some validation rules were not checked because the object was invalid"
            errors.append(field_errors.invalid(field_errors.NO_FIELD, "", detail))
        else:
            self._rules(new, before, None, errors, RuleBudget())
        # Only now: for the generation of an object 2.0 is a change of 2, whatever is stored of it.
        if b".0" in codec.encode(new):
            _make_whole(new)
        tolerated = [error for error in errors if error.reason == TOLERATED]
        context.warnings.extend(f"{error.field}: {error.message}" for error in tolerated)
        return [error for error in errors if error.reason != TOLERATED]

    def grows_generation(self, new: Body, old: Body) -> bool:
        outside = {"metadata", "status"} if self._has_status else {"metadata"}
        names = dict.fromkeys((*new, *old))
        inside = (name for name in names if name not in outside)
        return not all(codec.is_same(new.get(name), old.get(name)) for name in inside)


def _make_whole(value: Any) -> None:
    """Turn fractions that are none into whole numbers, as they are stored and read again."""
    places = value.items() if isinstance(value, dict) else enumerate(value)
    for place, part in list(places):
        if isinstance(part, dict | list):
            _make_whole(part)
        elif isinstance(part, float) and part.is_integer() and abs(part) < 2**63:
            value[place] = int(part)


def _copy(value: object) -> Any:
    """Returns a copy of JSON data, in the cheapest way that there is (ADR 7)."""
    return codec.decode(codec.encode(value), object)


def _finalizer_warnings(new: Body, old: Body | None) -> Iterator[str]:
    """Warn of new finalizers without a domain, which built-in kinds refuse."""
    before = ((old or {}).get("metadata") or {}).get("finalizers") or ()
    for name in new["metadata"].get("finalizers") or ():
        if name not in before and "/" not in name and name not in STANDARD_FINALIZERS:
            yield f'metadata.finalizers: "{name}": prefer a domain-qualified finalizer name'


def _shape_metadata(value: object, path: Path, found: Pruning) -> object:
    return definitions.decoders().of(definitions.OBJECT_META)(value, path, found.unknown)


class VersionConversion:
    """Conversion by strategy None: only apiVersion changes, and fields are pruned."""

    def __init__(self, kind: tuple[str, CustomRules], stored: tuple[str, CustomRules]) -> None:
        self._kind = kind
        self._stored = stored

    def to_stored(self, body: Body) -> Body:
        api_version, rules = self._stored
        return {**rules.reshape(body), "apiVersion": api_version}

    def from_stored(self, body: Body) -> Body:
        api_version, rules = self._kind
        return {**rules.prune(body), "apiVersion": api_version}


def kinds_of(definition: Body) -> list[ServedKind]:
    """The kinds a definition serves, one for each served version."""
    spec = definition["spec"]
    stored = next(version for version in spec["versions"] if version.get("storage"))
    stored_rules = _rules_of(stored)
    kinds: list[ServedKind] = []
    for version in spec["versions"]:
        if not version.get("served"):
            continue
        rules = stored_rules if version is stored else _rules_of(version)
        conversion = None
        if version is not stored:
            conversion = VersionConversion(
                (_api_version(spec, version), rules), (_api_version(spec, stored), stored_rules)
            )
        kinds.append(_kind(spec, version, rules, conversion))
    return kinds


def _api_version(spec: Body, version: Body) -> str:
    return f"{spec['group']}/{version['name']}"


def compile_versions(definition: Body) -> None:
    """Compile the schemas of a valid definition that is about to be stored.

    A large definition is checked in a thread, and served on the loop as soon as it is stored: what
    was compiled here is found there.
    """
    _compiled.keep([_rules_of(version) for version in definition["spec"]["versions"]])


def _rules_of(version: Body) -> CustomRules:
    schema = version.get("schema", {}).get("openAPIV3Schema", {"type": "object"})
    return _compiled.rules(schema, has_status="status" in version.get("subresources", {}))


class _CompiledRules:
    """The rules in use by their schema, and those of the definition that was checked last.

    Rules have no state, so that versions and definitions with one schema may share them.
    """

    def __init__(self) -> None:
        self._by_schema: WeakValueDictionary[tuple[bytes, bool], CustomRules]
        self._by_schema = WeakValueDictionary()
        self._latest: list[CustomRules] = []

    def rules(self, schema: Body, *, has_status: bool) -> CustomRules:
        text = codec.encode(schema)
        key = blake2b(text).digest(), has_status
        found = self._by_schema.get(key)
        if found is None:
            found = _compile(schema, has_status=has_status, is_large=len(text) > LARGE_SCHEMA_BYTES)
            self._by_schema[key] = found
        return found

    def keep(self, rules: list[CustomRules]) -> None:
        self._latest = rules


def _compile(schema: Body, *, has_status: bool, is_large: bool) -> CustomRules:
    """Compile a schema; of a large one, exempt the rules from the next collections.

    They are hundreds of thousands of objects, and each collection that looks through them stalls
    the server. Whatever else is exempt with them is looked at by the next collection of everything
    (see `runtime.garbage`).
    """
    rules = CustomRules(schema, has_status=has_status)
    if is_large:
        gc.freeze()
    return rules


_compiled = _CompiledRules()


def _kind(
    spec: Body, version: Body, rules: CustomRules, conversion: VersionConversion | None
) -> ServedKind:
    names, subresources = spec["names"], version.get("subresources", {})
    return ServedKind(
        group=spec["group"],
        version=version["name"],
        kind=names["kind"],
        plural=names["plural"],
        singular=names.get("singular", ""),
        list_kind=names.get("listKind", f"{names['kind']}List"),
        namespaced=spec["scope"] == "Namespaced",
        short_names=tuple(names.get("shortNames", ())),
        categories=tuple(names.get("categories", ())),
        subresources=frozenset(subresources),
        columns=_columns(version),
        custom=True,
        schema=(version.get("schema") or {}).get("openAPIV3Schema"),
        rules=rules,
        conversion=conversion,
        scale=_scale(subresources.get("scale")),
        selectable_fields=_selectable(version),
        unconditional_update=False,
        verbs=_VERBS,
        deprecation=_deprecation(spec, version),
    )


def _deprecation(spec: Body, version: Body) -> str:
    """The warning of a deprecated version; its own, or one that names the version to use."""
    if not version.get("deprecated"):
        return ""
    own: str | None = version.get("deprecationWarning")
    if own is not None:
        return own
    kind, group = spec["names"]["kind"], spec["group"]
    names = [v["name"] for v in spec["versions"] if v.get("served") and not v.get("deprecated")]
    newest = max(names, key=version_rank, default=version["name"])
    text = f"{group}/{version['name']} {kind} is deprecated"
    if version_rank(newest) <= version_rank(version["name"]):
        return text
    return f"{text}; use {group}/{newest} {kind}"


def _columns(version: Body) -> tuple[TableColumn, ...]:
    """The name and the declared columns; none at all when none are declared."""
    declared = tuple(
        TableColumn(
            name=column["name"],
            json_path=column["jsonPath"],
            type=column["type"],
            format=column.get("format", ""),
            description=column.get("description") or _COLUMN_TEXT + column["jsonPath"],
            priority=column.get("priority", 0),
        )
        for column in version.get("additionalPrinterColumns", ())
    )
    return (NAME, *declared) if declared else ()


def _scale(scale: Body | None) -> ScalePaths | None:
    if scale is None:
        return None
    return ScalePaths(
        scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")
    )


def _selectable(version: Body) -> Mapping[str, FieldPath]:
    paths = [field["jsonPath"].lstrip(".") for field in version.get("selectableFields", ())]
    own = {path: FieldPath(path) for path in paths}
    return MappingProxyType({**METADATA_FIELDS, **own})
