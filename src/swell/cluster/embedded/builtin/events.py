"""Events: one stored form, served by two groups with different names of the same fields."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.builtin.rules import Behaviour
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

LENGTHS_MAX = {"reportingInstance": 128, "action": 128, "reason": 128, "message": 1024}
# Fields of events.k8s.io and their names in the core group, which errors use in both.
CORE_NAMES = {
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
}
NEW_NAMES = {core: new for new, core in CORE_NAMES.items()}
IMMUTABLE = (
    "involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count",
    "type", "eventTime", "action", "related", "reportingComponent", "reportingInstance",
)  # fmt: skip
UNSET = ("firstTimestamp", "lastTimestamp", "count")
CLUSTER_NAMESPACES = ("default", "kube-system")


class EventConversion:
    """Conversion between events.k8s.io and the stored form, which is the core group's."""

    def to_stored(self, body: Body) -> Body:
        return {**_renamed(body, CORE_NAMES), "apiVersion": "v1"}

    def from_stored(self, body: Body) -> Body:
        event = {**_renamed(body, NEW_NAMES), "apiVersion": "events.k8s.io/v1"}
        for name in ("reportingController", "reportingInstance"):
            if event.get(name) == "":  # of the core group's fields these two are always there
                del event[name]
        return event


def _renamed(body: Body, names: dict[str, str]) -> Body:
    return {names.get(name, name): value for name, value in body.items()}


def core_errors(new: Body, _old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    yield from _common_errors(new, "reportingComponent")


def new_errors(new: Body, old: Body | None, _context: WriteContext) -> Iterator[FieldError]:
    """Validate an event of events.k8s.io, of which an update may change only the series."""
    event = _renamed(new, CORE_NAMES)
    yield from _common_errors(event, "reportingController")
    series = event.get("series")
    if series is not None and series.get("count", 0) < 2:
        yield field_errors.invalid("series.count", series.get("count", 0), "should be at least 2")
    if series is not None and not series.get("lastObservedTime"):
        yield field_errors.required("series.lastObservedTime")
    if old is not None:
        yield from _change_errors(event, _renamed(old, CORE_NAMES))
        return
    if not event.get("eventTime"):
        yield field_errors.required("eventTime")
    if event.get("type") not in {"Normal", "Warning"}:
        yield field_errors.invalid("type", event.get("type", ""), "has invalid value")
    for name in UNSET:
        if event.get(name):
            yield field_errors.invalid(name, event[name], "needs to be unset")
    if any(event.get("source", {}).values()):
        yield field_errors.invalid("source", event["source"], "needs to be unset")


def _change_errors(event: Body, before: Body) -> Iterator[FieldError]:
    for name in IMMUTABLE:
        field = "reportingController" if name == "reportingComponent" else name
        yield from fields.immutable(event.get(name), before.get(name), field)


def _common_errors(event: Body, controller_field: str) -> Iterator[FieldError]:
    namespace = event["metadata"].get("namespace", "")
    involved = event.get("involvedObject", {}).get("namespace", "")
    detail = "does not match event.namespace"
    # An event without eventTime has the old form, of which only the namespace is checked.
    if not event.get("eventTime"):
        if involved != namespace and (involved or namespace != "default"):
            yield field_errors.invalid("involvedObject.namespace", involved, detail)
        return
    # Events about cluster-scoped objects live in these namespaces.
    if not involved and namespace not in CLUSTER_NAMESPACES:
        yield field_errors.invalid("involvedObject.namespace", involved, detail)
    controller = event.get("reportingComponent", "")
    if not controller:
        yield field_errors.required(controller_field)
    yield from fields.qualified_name_errors(controller, controller_field)
    for name, limit in LENGTHS_MAX.items():
        value = event.get(name, "")
        if not value and name != "message":
            yield field_errors.required(name)
        elif len(value) > limit:
            yield field_errors.invalid(name, "", f"can have at most {limit} characters")


CORE_EVENTS = Behaviour(errors=core_errors)
NEW_EVENTS = Behaviour(errors=new_errors)
