"""Events of the core group: what happened to an object, for people to read."""

from __future__ import annotations

from enum import Enum

from swell.api.meta import ApiStruct, ObjectMeta, Uid


class EventSeverity(Enum):
    """An event's `type`."""

    NORMAL = "Normal"
    WARNING = "Warning"


class ObjectReference(ApiStruct, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: Uid = Uid("")
    resource_version: str = ""
    field_path: str = ""


class EventSource(ApiStruct, frozen=True):
    component: str = ""
    host: str = ""


class Event(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    involved_object: ObjectReference = ObjectReference()
    reason: str = ""
    message: str = ""
    type: str = ""
    count: int = 0
    source: EventSource = EventSource()
    first_timestamp: str | None = None
    last_timestamp: str | None = None
    event_time: str | None = None
    reporting_component: str = ""
    reporting_instance: str = ""
    action: str = ""
    api_version: str = "v1"
    kind: str = "Event"
