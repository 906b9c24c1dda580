"""Kinds without a schema: any content is kept, only metadata and the status are looked at."""

from __future__ import annotations

from dataclasses import replace

from swell.api.meta import Body
from swell.cluster.embedded.builtin.kinds import builtin_registry
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import Registry, WriteContext
from swell.schema.field_errors import FieldError

_MAPS = ("labels", "annotations")
_LISTS = ("finalizers", "ownerReferences")
_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion")


class PlainRules:
    """Rules without a schema. With `has_status`, only the status subresource writes the status."""

    def __init__(self, *, has_status: bool = True) -> None:
        self._has_status = has_status

    def shape(self, body: Body, context: WriteContext) -> Body:
        metadata = body.get("metadata")
        if metadata is None:
            body["metadata"] = {}
        elif not isinstance(metadata, dict):
            raise bad_request("metadata is not an object")
        else:
            _check_metadata(metadata)
        return body

    def prepare(self, new: Body, old: Body | None, context: WriteContext) -> None:
        if not self._has_status:
            return
        if old is None:
            new.pop("status", None)
        elif context.subresource == "status":
            metadata = new["metadata"]
            metadata["ownerReferences"] = old["metadata"].get("ownerReferences")
            if metadata["ownerReferences"] is None:
                del metadata["ownerReferences"]
            _take_all_but(new, old, {"metadata", "status"})
        elif "status" in old:
            new["status"] = old["status"]
        else:
            new.pop("status", None)

    def validate(self, new: Body, old: Body | None, context: WriteContext) -> list[FieldError]:
        return []

    def grows_generation(self, new: Body, old: Body) -> bool:
        ignored = {"metadata", "status"} if self._has_status else {"metadata"}
        return any(
            new.get(field) != old.get(field) for field in {*new, *old} if field not in ignored
        )


def _take_all_but(new: Body, old: Body, kept: set[str]) -> None:
    for field in [field for field in new if field not in kept]:
        del new[field]
    for field, value in old.items():
        if field not in kept:
            new[field] = value


def _check_metadata(metadata: Body) -> None:
    for field in _MAPS:
        value = metadata.get(field)
        if value is None:
            metadata.pop(field, None)
        elif not isinstance(value, dict) or not all(isinstance(v, str) for v in value.values()):
            raise bad_request(f"metadata.{field} is not a map of strings")
    for field in _LISTS:
        value = metadata.get(field)
        if not value:
            metadata.pop(field, None)
        elif not isinstance(value, list):
            raise bad_request(f"metadata.{field} is not a list")
    for field in _TEXTS:
        value = metadata.get(field)
        if value is None:
            metadata.pop(field, None)
        elif not isinstance(value, str):
            raise bad_request(f"metadata.{field} is not a string")


def plain_registry() -> Registry:
    """The built-in kinds with plain rules, without those stored in the form of another kind."""
    registry = Registry()
    for kind in builtin_registry():
        if not kind.stored_as:
            rules = PlainRules(has_status="status" in kind.subresources)
            registry.add(replace(kind, rules=rules, merge_schema=None))
    return registry
