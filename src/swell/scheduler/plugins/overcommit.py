"""overcommit: admits somewhat more than the cluster has, so that queues keep it busy."""

from __future__ import annotations

from typing import Final

import numpy as np

from swell.scheduler.config import PluginOption
from swell.scheduler.hooks import Hooks, Vote
from swell.scheduler.model.jobs import Job
from swell.scheduler.model.reasons import Reason, Refusal
from swell.scheduler.model.resources import less_equal_on, quota_places
from swell.scheduler.plugins.quota import Limits
from swell.scheduler.session import Session

FACTOR: Final = "overcommit-factor"
_OLD_FACTOR: Final = "overCommitFactor"
ARGUMENTS: tuple[str, ...] = (FACTOR, _OLD_FACTOR)
_DEFAULT = 1.2


def open_overcommit(session: Session, option: PluginOption) -> Hooks:
    arguments = option.arguments
    factor = arguments.number(FACTOR, arguments.number(_OLD_FACTOR, _DEFAULT))
    if factor < 1:
        factor = _DEFAULT
    used = session.snapshot.nodes.used()
    room = session.total * factor - used
    queues = session.snapshot.queues.values()
    reserved = np.sum([queue.reserved for queue in queues], axis=0) if queues else 0 * room

    def enqueueable(job: Job) -> Vote | Refusal:
        asked = job.asks_for_admission()
        if asked is None:
            return Vote.PERMIT
        places = quota_places(asked)
        if less_equal_on(asked + reserved, room, places):
            return Vote.PERMIT
        claimable = session.claimable.in_cluster(job)
        if less_equal_on(asked + reserved, room + claimable, places):
            return Vote.PERMIT
        limits = Limits(session.snapshot.dimensions, session.total).exceeded(
            "", asked, used + reserved - claimable, session.total * factor
        )
        numbers = "; ".join(map(str, limits))
        text = f"the cluster's resources times {factor:g} are used or promised already: {numbers}"
        return Refusal(Reason.OVERCOMMIT, text, limits)

    def admitted(job: Job) -> None:
        asked = job.asks_for_admission()
        if asked is not None:
            np.add(reserved, asked, out=reserved)

    return Hooks(enqueueable=enqueueable, admitted=admitted)
