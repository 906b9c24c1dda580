"""Priority classes, and the priority that a group has by them."""

from __future__ import annotations

from swell.api.policy import PriorityClass
from swell.api.scheduling import PodGroup
from swell.scheduler.model.native_groups import NativeTerms


class Priorities:
    """All priority classes by name."""

    def __init__(self) -> None:
        self._classes: dict[str, PriorityClass] = {}

    def put(self, priority_class: PriorityClass) -> None:
        self._classes[priority_class.metadata.name] = priority_class

    def remove(self, name: str) -> None:
        self._classes.pop(name, None)

    def of_group(self, group: PodGroup) -> int:
        """Returns the value of the group's class, else of the global default class, else 0."""
        name = group.spec.priority_class_name
        named = self._classes.get(name)
        if named is not None:
            return named.value
        if name:
            return 0  # a class that does not exist (yet)
        return next((c.value for c in self._classes.values() if c.global_default), 0)

    def of_native(self, group: PodGroup, terms: NativeTerms, lowest: int) -> int:
        """Returns the number of a native group, else the value of its class.

        With neither it is the lowest among its pods: a server that drops both fields leaves no
        more to go by.
        """
        if terms.object is not None and terms.object.spec.priority is not None:
            return terms.object.spec.priority
        return self.of_group(group) if group.spec.priority_class_name else lowest
