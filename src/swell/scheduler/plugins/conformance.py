"""The plugin conformance protects pods that the cluster itself needs from eviction."""

from __future__ import annotations

from collections.abc import Sequence

from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session

# The two priority classes that Kubernetes reserves for system pods.
_CRITICAL = frozenset({"system-cluster-critical", "system-node-critical"})


def open_conformance(session: Session, option: PluginOption) -> Hooks:
    del session, option
    return Hooks(preemptable=_not_critical, reclaimable=_not_critical)


def _not_critical(preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
    del preemptor
    return [unit for unit in victims if not any(_is_critical(task) for task in unit.tasks)]


def _is_critical(task: Task) -> bool:
    pod = task.pod
    return pod.metadata.namespace == "kube-system" or pod.spec.priority_class_name in _CRITICAL
