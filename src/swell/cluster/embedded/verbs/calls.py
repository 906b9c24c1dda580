"""What a request says beside the object: who asks, and the options of each verb. Values only."""

from __future__ import annotations

from dataclasses import dataclass, field

from swell.cluster.embedded.storage import Stored
from swell.runtime.cluster import EventType


@dataclass(slots=True)
class Call:
    """Who asks and how; warnings for the answer are gathered here."""

    actor: str
    dry_run: bool = False
    field_validation: str = ""
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ListOptions:
    """Which objects of a kind, from which version, how many at a time."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    limit: int = 0
    continue_token: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None  # said of a list, it is refused


@dataclass(frozen=True, slots=True)
class WatchOptions:
    """Which changes of a kind, from which version."""

    namespace: str = ""
    labels: str = ""
    fields: str = ""
    resource_version: str = ""
    resource_version_match: str = ""
    send_initial_events: bool | None = None
    bookmarks: bool = False


@dataclass(frozen=True, slots=True)
class DeleteOptions:
    """Preconditions, grace, and what becomes of dependents."""

    uid: str | None = None
    resource_version: str | None = None
    grace_s: int | None = None
    propagation: str | None = None
    orphan_dependents: bool | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """A list, or a part of one. `remaining` is None where a real server does not say."""

    items: tuple[Stored, ...]
    version: int
    continue_token: str = ""
    remaining: int | None = None


@dataclass(frozen=True, slots=True)
class Written:
    stored: Stored
    created: bool = False


@dataclass(frozen=True, slots=True)
class Deleted:
    """The object as the delete left it: marked and waiting, or gone."""

    stored: Stored
    gone: bool
    version: int


@dataclass(frozen=True, slots=True)
class Event:
    """One change as a watcher sees it; a bookmark has no object."""

    type: EventType
    stored: Stored | None
    version: int
    ends_initial: bool = False
