"""pdb: victims must not break a PodDisruptionBudget. A pod without labels is never one."""

from __future__ import annotations

from collections.abc import Sequence

from swell.api.matching import is_empty_selector, selector_matches
from swell.api.policy import PodDisruptionBudget
from swell.scheduler.config import PluginOption
from swell.scheduler.hooks import Hooks
from swell.scheduler.model.tasks import Task
from swell.scheduler.session import Session
from swell.scheduler.victims import EvictionUnit

ARGUMENTS: tuple[str, ...] = ()


def open_pdb(session: Session, option: PluginOption) -> Hooks:
    del option

    def vote(preemptor: Task, units: Sequence[EvictionUnit]) -> list[EvictionUnit]:
        del preemptor
        return within_budgets(list(session.snapshot.budgets.values()), units)

    return Hooks(preemptable=vote, reclaimable=vote)


def within_budgets(
    budgets: Sequence[PodDisruptionBudget], units: Sequence[EvictionUnit]
) -> list[EvictionUnit]:
    """Spends the budgets in the order of the candidates."""
    left = [budget.status.disruptions_allowed for budget in budgets]
    granted: list[EvictionUnit] = []
    for unit in units:
        verdicts = [
            _spend(budgets, left, task) for task in unit.tasks
        ]  # each spends, none is cut off
        if all(verdicts):
            granted.append(unit)
    return granted


def _spend(budgets: Sequence[PodDisruptionBudget], left: list[int], task: Task) -> bool:
    meta = task.pod.metadata
    if not meta.labels:
        return False
    fine = True
    for at, budget in enumerate(budgets):
        selector = budget.spec.selector
        if budget.metadata.namespace != meta.namespace or is_empty_selector(selector):
            continue
        if not selector_matches(selector, meta.labels):
            continue
        if meta.name in budget.status.disrupted_pods:  # counted when it was evicted
            continue
        left[at] -= 1
        fine = fine and left[at] >= 0
    return fine
