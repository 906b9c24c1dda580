"""The bugs that can be planted in how the operator makes groups of Kubernetes for its pods."""

from __future__ import annotations

from collections.abc import Mapping

from swell.api.aitrainingjob import AITrainingJobStatus
from swell.operator.aitrainingjob import causes, native_gang
from swell.operator.aitrainingjob.snapshot import AITrainingJobSnapshot
from tests.sim.operator.flaws import all_of, inside
from tests.sim.operator.subject import Flaw

needs_own_group = native_gang._needs_own_group


def _all_or_none_apart(
    seen: AITrainingJobSnapshot, status_: AITrainingJobStatus, wanted: list[tuple[str, int]]
) -> bool:
    """Pods get a group of their own only while some have finished, wherever the others are."""
    if not any(one.is_finished for one in seen.replicas):
        return False
    return needs_own_group(seen, status_, wanted)


_LEAVES_STRANDED = inside(causes, "stranded", lambda *_: iter(()))


PLANTED_WITH_NATIVE_GROUPS: Mapping[str, Flaw] = {
    "operator joins a native group that others have left": all_of(
        _LEAVES_STRANDED, inside(native_gang, "_needs_own_group", _all_or_none_apart)
    ),
    "operator leaves pods in a native group that cannot start": _LEAVES_STRANDED,
    "operator creates native gangs at once": inside(native_gang, "_has_minimum", lambda *_: True),
}
