"""The steps of a session, one file each. An action is a function that works on a session."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from swell.scheduler.actions.allocate import allocate
from swell.scheduler.actions.backfill import backfill
from swell.scheduler.actions.enqueue import enqueue
from swell.scheduler.actions.preempt import preempt
from swell.scheduler.actions.reclaim import reclaim
from swell.scheduler.actions.shuffle import shuffle
from swell.scheduler.session import Session

ACTIONS: Final[Mapping[str, Callable[[Session], None]]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "shuffle": shuffle,
}
