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
from swell.scheduler.actions.preempt import TOPOLOGY_AWARE, preempt
from swell.scheduler.actions.reclaim import reclaim
from swell.scheduler.actions.shuffle import shuffle
from swell.scheduler.config import COUNT_CLAIMABLE
from swell.scheduler.config_file import ArgumentKind
from swell.scheduler.domain_claims import ALLOW_WHOLE, MAX_DOMAINS
from swell.scheduler.session import Session

ACTIONS: Final[Mapping[str, Callable[[Session], None]]] = {
    "enqueue": enqueue,
    "allocate": allocate,
    "backfill": backfill,
    "preempt": preempt,
    "reclaim": reclaim,
    "shuffle": shuffle,
}

_CLAIMS: Final[Mapping[str, ArgumentKind]] = {
    MAX_DOMAINS: ArgumentKind.NUMBER,
    ALLOW_WHOLE: ArgumentKind.FLAG,
}
# The arguments of each action.
ARGUMENTS: Final[Mapping[str, Mapping[str, ArgumentKind]]] = {
    **{name: {} for name in ACTIONS},
    "enqueue": {COUNT_CLAIMABLE: ArgumentKind.FLAG},
    "preempt": {TOPOLOGY_AWARE: ArgumentKind.FLAG, **_CLAIMS},
    "reclaim": _CLAIMS,
}

# Volcano's actions for whole gangs; here preempt and reclaim decide for whole gangs.
ALIASES: Final[Mapping[str, str]] = {"gangpreempt": "preempt", "gangreclaim": "reclaim"}

_NO_SAMPLE = "all nodes are looked at"
# Actions of Volcano, and arguments of actions, that are not here, and what to use instead.
INSTEAD: Final[Mapping[str, str]] = {
    "overcommit-factor": "use the plugin overcommit",
    "predicateErrorCacheEnable": "answers are always remembered for pods of one shape",
    "enablePredicateErrorCache": "answers are always remembered for pods of one shape",
    "topologyAwarePreemptWorkerNum": _NO_SAMPLE,
    "minCandidateNodesPercentage": _NO_SAMPLE,
    "minCandidateNodesAbsolute": _NO_SAMPLE,
    "maxCandidateNodesAbsolute": _NO_SAMPLE,
}
