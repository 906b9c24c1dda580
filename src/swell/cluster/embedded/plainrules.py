"""Rules for kinds without a schema: spec and status apart, desired state counted, merge patches."""

from __future__ import annotations

from swell.api.meta import Body
from swell.cluster.embedded.refusals import bad_request
from swell.cluster.embedded.registry import Kind, WriteContext
from swell.runtime.cluster import Patch, PatchKind
from swell.schema.field_errors import FieldError

_MAPS = ("labels", "annotations")
_LISTS = ("finalizers", "ownerReferences")
_TEXTS = ("name", "generateName", "namespace", "uid", "resourceVersion")


class PlainRules:
    """No schema: what is given is kept. `has_status` isolates the status from other writes."""

    def __init__(self, *, has_status: bool = True) -> None:
        self._has_status = has_status

    def shape(self, body: Body, context: WriteContext) -> Body:  # noqa: ARG002 (the contract)
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

    def validate(self, new: Body, old: Body | None, context: WriteContext) -> list[FieldError]:  # noqa: ARG002
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


def merge_only(kind: Kind, body: Body, patch: Patch) -> Body:  # noqa: ARG001 (the contract)
    """Merge patches alone; for stores without the whole set."""
    if patch.kind is not PatchKind.MERGE or not isinstance(patch.body, dict):
        raise bad_request("only merge patches are supported here")
    return _merged(body, patch.body)


def _merged(body: Body, patch: Body) -> Body:
    for field, value in patch.items():
        if value is None:
            body.pop(field, None)
        elif isinstance(value, dict):
            held = body.get(field)
            body[field] = _merged(held if isinstance(held, dict) else {}, value)
        else:
            body[field] = value
    return body
