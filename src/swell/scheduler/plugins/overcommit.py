"""The plugin overcommit admits somewhat more than the cluster has, so that no node idles."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from swell.scheduler.config import PluginOption
from swell.scheduler.config_file import ArgumentKind, KnownPlugin
from swell.scheduler.hooks import Hooks, Vote
from swell.scheduler.model.jobs import JobInfo
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.resources import less_equal_on, quota_places
from swell.scheduler.plugins.quota import Claimable, LimitCheck
from swell.scheduler.session import Session

FACTOR: Final = "overcommit-factor"
_OLD_FACTOR: Final = "overCommitFactor"  # the older spelling
_DEFAULT = 1.2  # Volcano's


def remarks(option: PluginOption) -> Iterator[str]:
    """Yields which factors have no effect."""
    given = option.arguments.values
    if FACTOR in given and _OLD_FACTOR in given:
        yield f"argument {_OLD_FACTOR!r} has no effect beside {FACTOR!r}"
    for name, value in given.items():
        if option.arguments.number(name, _DEFAULT) < 1:
            yield f"argument {name!r} has no effect: {value!r} is below 1, so {_DEFAULT} is used"


KNOWN: Final = KnownPlugin(
    switches=("enableJobEnqueued",),
    arguments=dict.fromkeys((FACTOR, _OLD_FACTOR), ArgumentKind.NUMBER),
    remarks=remarks,
)


def open_overcommit(session: Session, option: PluginOption) -> Hooks:
    arguments = option.arguments
    factor = arguments.number(FACTOR, arguments.number(_OLD_FACTOR, _DEFAULT))
    if factor < 1:
        factor = _DEFAULT
    used = session.snapshot.nodes.used()
    room = session.total * factor - used
    queues = session.snapshot.queues.values()
    # Grows as this session admits jobs.
    reserved = np.sum([queue.reserved for queue in queues], axis=0) if queues else 0 * room

    claimable_resources = Claimable(session)

    def enqueueable(job: JobInfo) -> Vote | Refusal:
        asked = job.asks_for_admission()
        if asked is None:
            return Vote.PERMIT
        places = quota_places(asked)
        if less_equal_on(asked + reserved, room, places):
            return Vote.PERMIT
        claimable = claimable_resources.in_cluster(job)
        if less_equal_on(asked + reserved, room + claimable, places):
            return Vote.PERMIT
        limits = LimitCheck(session.snapshot.dimensions, session.total).exceeded(
            "", asked, used + reserved - claimable, session.total * factor
        )
        numbers = "; ".join(map(str, limits))
        text = f"the cluster's resources times {factor:g} are used or promised already: {numbers}"
        return Refusal(WaitReason.OVERCOMMIT, text, limits)

    def admitted(job: JobInfo) -> None:
        asked = job.asks_for_admission()
        if asked is not None:
            np.add(reserved, asked, out=reserved)

    return Hooks(enqueueable=enqueueable, admitted=admitted)
