"""Sizes in variants of one cluster: the autoscaler's decision on a ledger that is kept. Pure.

To sum up tens of thousands of pods takes seconds, and a variant changes a few of them. So only
these are put in and taken out, as a running autoscaler does with what it sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from swell.api.meta import Key
from swell.api.resource import ApiObject
from swell.autoscaler.cluster_resource import AutoscalerSnapshot
from swell.autoscaler.job_views import id_of
from swell.autoscaler.plan import AutoscalerObjects, AutoscalerPlan, decide_sizes, ledger_of
from swell.autoscaler.policies.interface import Parameters
from swell.scheduler.config import Config
from swell.scheduler.plan import SchedulerObjects

T = TypeVar("T", bound=ApiObject)


@dataclass(frozen=True, slots=True)
class OutlookRules:
    """The rules by which sizes and places are decided."""

    config: Config
    policy: str
    parameters: Parameters


class SizingWorld:
    """The ledger of one cluster, which is led from one variant of it to the next."""

    def __init__(self, objects: SchedulerObjects, rules: OutlookRules) -> None:
        self._objects, self._rules = objects, rules
        self._ledger = ledger_of(sizing_objects(objects), scheduler=rules.config)

    def sizes(self, world: SchedulerObjects) -> AutoscalerPlan:
        """Returns the sizes of all jobs in a variant."""
        return decide_sizes(self.snapshot(world), self._rules.parameters, self._rules.policy)

    def snapshot(self, world: SchedulerObjects) -> AutoscalerSnapshot:
        """Returns a variant and its jobs; it counts until the next one is asked for.

        Variants differ in nodes, pods, groups and jobs, and in nothing else.
        """
        old, ledger = self._objects, self._ledger
        self._objects = world
        _follow(old.nodes, world.nodes, ledger.put_node, lambda one: ledger.drop_node(_name(one)))
        _follow(
            old.groups, world.groups, ledger.put_group, lambda one: ledger.drop_group(_key(one))
        )
        _follow(
            old.training_jobs,
            world.training_jobs,
            ledger.put_job,
            lambda one: ledger.drop_job(id_of(one)),
        )
        _follow(old.pods, world.pods, ledger.put_pod, lambda one: ledger.drop_pod(_key(one)))
        return ledger.snapshot()


def sizing_objects(world: SchedulerObjects) -> AutoscalerObjects:
    """Returns the part of a cluster that the autoscaler decides by."""
    return AutoscalerObjects(
        nodes=world.nodes,
        pods=world.pods,
        groups=world.groups,
        queues=world.queues,
        priority_classes=world.priority_classes,
        namespaces=world.namespaces,
        hyper_nodes=world.hyper_nodes,
        native_groups=world.native_groups,
        training_jobs=world.training_jobs,
    )


def _follow(
    old: Sequence[T], new: Sequence[T], put: Callable[[T], None], drop: Callable[[T], None]
) -> None:
    """Drop the objects that are gone, and put in those that are new or others than before."""
    if old is new:
        return
    # Objects do not change, so one that is the same object is as it was.
    held, kept = {id(one) for one in old}, {id(one) for one in new}
    found = [one for one in new if id(one) not in held]
    replaced = {_key(one) for one in found}
    for one in old:
        if id(one) not in kept and _key(one) not in replaced:
            drop(one)
    for one in found:
        put(one)


def _key(one: ApiObject) -> Key:
    return one.metadata.key


def _name(one: ApiObject) -> str:
    return one.metadata.name
