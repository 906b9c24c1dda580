"""Jobs that name another manager: nothing at all is written about them, and the log says so once.

Their spec has `managedBy` with a value that is not ours. The field never changes.
"""

from __future__ import annotations

from swell.api.meta import Body, Key, Uid
from swell.api.training import MANAGER
from swell.runtime.logs import get_logger

log = get_logger(__name__)


def manager_in(body: Body) -> str:
    """The manager that the raw body of a job names; empty for none, and for one that is no text."""
    spec = body.get("spec")
    name = spec.get("managedBy") if isinstance(spec, dict) else None
    return name if isinstance(name, str) else ""


def is_foreign(manager: str) -> bool:
    return manager not in {"", MANAGER}


class ForeignJobs:
    """Remembers which jobs of other managers have been logged."""

    def __init__(self) -> None:
        self._logged: dict[Key, Uid] = {}

    def note(self, key: Key, uid: Uid, manager: str) -> None:
        if self._logged.get(key) != uid:
            self._logged[key] = uid
            log.info("left to its manager", job=str(key), manager=manager)

    def forget(self, key: Key) -> None:
        self._logged.pop(key, None)
