"""Which group each pod belongs to, also before that group exists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING

from swell.api.pod import Pod
from swell.scheduler.model.native_groups import native_group_of, native_job_name
from swell.scheduler.model.tasks import GROUP_ANNOTATION, Task

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

    def key_of(self, pod: Pod, virtual: str = "") -> str:
        """Returns the key of the pod's group, or an empty key.

        `virtual` is the name of the group that stands for a pod that names none.
        """
        return self._key_of(pod, _annotated(pod), virtual)

    def _key_of(self, pod: Pod, named: str, virtual: str) -> str:
        native = native_group_of(pod)
        if virtual and not named:
            named = f"{pod.metadata.namespace}/{virtual}"
        if native and named not in self._jobs:
            return f"{pod.metadata.namespace}/{native_job_name(native)}"
        return named if pod.spec.scheduler_name in self._scheduler_names else ""

    def note(self, task: Task, virtual: str = "") -> None:
        """Sets the group of a task, and whether another scheduler places it."""
        pod = task.pod
        named = _annotated(pod)
        task.group_key = self._key_of(pod, named, virtual)
        task.is_foreign = pod.spec.scheduler_name not in self._scheduler_names
        if named and native_group_of(pod):
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
        return [task for task in twofold if task.group_key != self.key_of(task.pod)]


def _annotated(pod: Pod) -> str:
    named = pod.metadata.annotations.get(GROUP_ANNOTATION, "")
    return f"{pod.metadata.namespace}/{named}" if named else ""


def _drop(tasks: dict[str, dict[str, Task]], group: str, key: str) -> None:
    found = tasks.get(group)
    if found is not None:
        found.pop(key, None)
        if not found:
            del tasks[group]
