"""The actions: the steps of a session, in the order of the configuration.

An action is a function that works on a session. The default order:

- `enqueue`: admits groups whose minimum fits the quotas.
- `allocate`: gives pending gangs nodes.
- `backfill`: gives best-effort tasks nodes.
- `preempt`: makes room for important jobs within their queue.
- `reclaim`: makes room for queues below what they deserve.
- `shuffle`: evicts tasks that plugins want moved; not in the default configuration.
"""

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
