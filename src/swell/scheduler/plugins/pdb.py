"""The plugin pdb protects PodDisruptionBudgets; and pods without labels are never victims."""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.matching import is_empty_selector, selector_matches
from swell.api.policy import PodDisruptionBudget
from swell.scheduler.config import PluginOption
from swell.scheduler.eviction_units import EvictionUnit
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session


def open_pdb(session: Session, option: PluginOption) -> Hooks:
    del option

    def vote(preemptor: Task, victims: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        del preemptor
        return within_budgets(list(session.snapshot.budgets.values()), victims)

    return Hooks(preemptable=vote, reclaimable=vote)


def within_budgets(
    budgets: Sequence[PodDisruptionBudget], victims: Sequence[EvictionUnit]
) -> list[EvictionUnit]:
    """Returns the units that the budgets allow, spent in the order of the candidates."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    granted: list[EvictionUnit] = []
    for unit in victims:
        # A list, not a generator: each task spends its budget, also after one that is refused.
        allowed = [_spend(budgets, left, task) for task in unit.tasks]
        if all(allowed):
            granted.append(unit)
    return granted


def _spend(budgets: Sequence[PodDisruptionBudget], left: list[int], task: Task) -> bool:
    """Charges the task to every budget that selects it; whether none is exceeded."""
    meta = task.pod.metadata
    if not meta.labels:
        return False  # as in Volcano
    is_allowed = True
    for at, budget in enumerate(budgets):
        selector = budget.spec.selector
        if budget.metadata.namespace != meta.namespace or is_empty_selector(selector):
            continue
        if not selector_matches(selector, meta.labels):
            continue
        if meta.name in budget.status.disrupted_pods:  # charged when it was evicted
            continue
        left[at] -= 1
        is_allowed = is_allowed and left[at] >= 0
    return is_allowed
