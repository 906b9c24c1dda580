"""Explains a gang that lacks pods by the resource quotas of its namespace.

The API server refuses pods beyond a ResourceQuota, so they never reach the scheduler: all it sees
is a group with fewer pods than its minimum.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Final

from swell.api.core import ResourceQuota
from swell.api.meta import ObjectMeta
from swell.api.quantity import parse
from swell.runtime.cache import CacheIndex
from swell.scheduler.model.reasons import WaitReason
from swell.scheduler.status import GroupStatus

_LACKS_PODS: Final = frozenset({WaitReason.NOT_ENOUGH_TASKS, WaitReason.NOT_ENOUGH_PODS_OF_TASK})
# The names in a quota that limit pods. Others limit objects such as services and claims.
_OF_PODS: Final = frozenset({"pods", "count/pods", "cpu", "memory", "ephemeral-storage"})
_PREFIXES: Final = ("requests.", "limits.")
_OF_CLAIMS: Final = "requests.storage"


def _namespace_of(meta: ObjectMeta, _: ResourceQuota | None) -> tuple[str]:
    return (meta.namespace,)


BY_NAMESPACE: Final[CacheIndex[ResourceQuota]] = CacheIndex("namespace", _namespace_of)


def explained(status: GroupStatus, quotas: Callable[[], Iterable[ResourceQuota]]) -> GroupStatus:
    """Returns the status with the quotas that are used up, if the group lacks pods.

    `quotas` returns those of the group's namespace. It is called for such groups only.
    """
    refusal = status.refusal
    if refusal is None or refusal.reason not in _LACKS_PODS:
        return status
    in_order = sorted(quotas(), key=lambda quota: quota.metadata.name)
    texts = [text for quota in in_order for text in _used_up(quota)]
    if not texts:
        return status
    message = "; ".join((refusal.message, *texts))
    return replace(status, refusal=replace(refusal, message=message))


def _used_up(quota: ResourceQuota) -> Iterator[str]:
    """Yields one sentence about a quota of which some resource of pods is used up."""
    hard, used = quota.status.hard or quota.spec.hard, quota.status.used
    full = [
        f"{name} {used[name]} of {limit}"
        for name, limit in sorted(hard.items())
        if _limits_pods(name) and name in used and parse(used[name]) >= parse(limit)
    ]
    if full:
        yield f"quota {quota.metadata.name} of the namespace is used up: {', '.join(full)}"


def _limits_pods(name: str) -> bool:
    return name in _OF_PODS or (name.startswith(_PREFIXES) and name != _OF_CLAIMS)
