"""Which group each pod belongs to, also before that group exists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from swell.api.pod import Pod
from swell.scheduler.model.native_groups import native_group_of, native_job_name
from swell.scheduler.model.pod_notes import GROUP_ANNOTATION
from swell.scheduler.model.tasks import Task

if TYPE_CHECKING:
    from swell.scheduler.model.jobs import JobInfo


class Membership:
    """Tasks whose group does not exist yet, and tasks that name two groups.

    A group of Volcano comes before a native one where it exists: the annotation was written on
    purpose, and the field may come from a controller.
    """

    def __init__(self, jobs: Mapping[str, JobInfo], scheduler_names: Collection[str]) -> None:
        self._jobs = jobs
        self._scheduler_names = scheduler_names
        self._waiting: dict[str, dict[str, Task]] = {}
        # By the key of a group of Volcano: pods that name it and a native group as well.
        self._twofold: dict[str, dict[str, Task]] = {}

    def _key_of(self, pod: Pod, named: str, native: str) -> str:
        """Returns the key of the pod's group, or an empty key."""
        if native and named not in self._jobs:
            return f"{pod.metadata.namespace}/{native_job_name(native)}"
        return named if pod.spec.scheduler_name in self._scheduler_names else ""

    def note(self, task: Task, group: str, virtual: str = "") -> None:
        """Sets the group of a task, and whether another scheduler places it.

        `group` is the name that its annotation says; `virtual` stands for one of a pod without.
        """
        pod = task.pod
        native, name = native_group_of(pod), group or virtual
        named = f"{pod.metadata.namespace}/{name}" if name else ""
        task.group_key = self._key_of(pod, named, native)
        task.is_foreign = pod.spec.scheduler_name not in self._scheduler_names
        if group and native:
            self._twofold.setdefault(named, {})[task.key] = task

    def forget(self, task: Task) -> None:
        _drop(self._waiting, task.group_key, task.key)
        _drop(self._twofold, _annotated(task.pod), task.key)

    def wait(self, task: Task) -> None:
        """Keeps a task until its group comes."""
        self._waiting.setdefault(task.group_key, {})[task.key] = task

    def take_waiting(self, key: str) -> list[Task]:
        """Returns the tasks that have waited for this group, and keeps them no longer."""
        return list(self._waiting.pop(key, {}).values())

    def misplaced(self, key: str) -> list[Task]:
        """Returns the tasks of two groups that belong to the other one now."""
        twofold = self._twofold.get(key, {}).values()
        return [
            task
            for task in twofold
            if task.group_key != self._key_of(task.pod, key, native_group_of(task.pod))
        ]


def _annotated(pod: Pod) -> str:
    named = pod.metadata.annotations.get(GROUP_ANNOTATION, "")
    return f"{pod.metadata.namespace}/{named}" if named else ""


def _drop(tasks: dict[str, dict[str, Task]], group: str, key: str) -> None:
    found = tasks.get(group)
    if found is not None:
        found.pop(key, None)
        if not found:
            del tasks[group]
