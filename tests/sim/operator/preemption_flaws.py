"""The bugs that can be planted in what the operator makes of preemptions."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from swell.api.aitrainingjob import AITrainingJobStatus, Ending
from swell.operator.aitrainingjob import cleanup, decide, departures, preemptions, restarts
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from swell.runtime.plan import Action
from tests.sim.operator.flaws import inside
from tests.sim.operator.subject import Flaw


def _counts_every_look(
    seen: AITrainingJobSnapshot, held: AITrainingJobStatus
) -> AITrainingJobStatus:
    """A victim counts as another preemption at every look."""
    if not preemptions._victims(seen, held):
        return held
    n = held.preemptions + 1
    return msgspec.structs.replace(held, preemptions=n, preempted_epoch=held.epoch)


def _ends_at_once(
    seen: AITrainingJobSnapshot, held: AITrainingJobStatus, end: Ending, now: float
) -> list[Action]:
    """The pods of a job that ends are asked to save, and do not get the time."""
    if any(one.is_released for one in seen.everything):
        return cleanup.end_actions(seen, end, now)
    return departures.end_departures(seen, held, end, now)


PLANTED: Mapping[str, Flaw] = {
    "operator ends preempted jobs at once": inside(decide, "end_departures", _ends_at_once),
    "operator counts preemptions at every look": inside(
        decide, "with_preemptions", _counts_every_look
    ),
    "operator counts a gang that saves one by one as often": inside(
        decide, "still_under_way", lambda _seen, _before, held: held
    ),
    "operator takes preemptions for failures": inside(restarts, "made_room", lambda *_: False),
    "operator starts anew after the last preemption": inside(
        decide, "ending_by_preemption", lambda *_: None
    ),
}
