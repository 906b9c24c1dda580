"""The bugs that can be planted in the toy controller.

Each planted bug is a flaw together with the guard that is usually missing where it is made: alone,
the guards that are left hide some of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Flag, auto


class Flaw(Flag):
    NONE = 0
    RANDOM_NAMES = auto()
    DEAF_TO_ANSWERS = auto()  # answers to writes do not reach the cache
    ACT_THEN_RECORD = auto()
    BLIND_STATUS = auto()  # status is written without the version it was computed from
    NAME_NOT_UID = auto()
    STALE_LIST = auto()
    UNKNOWN_AS_FAILURE = auto()
    EDGE_CLEANUP = auto()
    NOT_FINAL = auto()
    UNGUARDED = auto()  # writes go out whether the lease is held or not


PLANTED: Mapping[str, Flaw] = {
    "random names": Flaw.RANDOM_NAMES | Flaw.DEAF_TO_ANSWERS,
    "act then record": Flaw.ACT_THEN_RECORD | Flaw.BLIND_STATUS,
    "name instead of UID": Flaw.NAME_NOT_UID,
    "stale list accepted": Flaw.STALE_LIST,
    "unknown outcome treated as failure": Flaw.UNKNOWN_AS_FAILURE,
    "edge-triggered clean-up": Flaw.EDGE_CLEANUP,
    "phase not final": Flaw.NOT_FINAL | Flaw.BLIND_STATUS,
}

PLANTED_IN_PAIR: Mapping[str, Flaw] = {"leader without a guard": Flaw.UNGUARDED}
