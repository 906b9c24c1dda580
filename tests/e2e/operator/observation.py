"""Observes a namespace: its jobs with the history of their statuses, and their children."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random
from typing import Protocol, TypeVar

from swell.api.aitrainingjob import FINAL_PHASES, AITrainingJob, AITrainingJobStatus
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    EVENTS,
    POD_GROUPS,
    PODS,
    SERVICES,
)
from swell.api.meta import Key
from swell.api.pod import Pod
from swell.api.resource import ApiObject, Resource
from swell.operator.aitrainingjob.labels import TRAINING_JOB_NAME, members_name
from swell.runtime.clock import Clock
from swell.runtime.cluster import Cluster, Selection
from swell.runtime.informer import Informer, by_label
from swell.runtime.manager import Manager

T = TypeVar("T", bound=ApiObject)

WITHIN_S = 60.0


class FollowedInformer(Protocol):
    """What is needed of an informer of any kind to run it."""

    @property
    def resource(self) -> Resource[object]: ...

    async def run(self) -> None: ...

    async def wait_synced(self) -> None: ...


class NotSeenError(AssertionError):
    """What had to come did not; says what was there instead."""


class NamespaceObserver:
    """Follows one namespace, and remembers every status of every job."""

    def __init__(
        self,
        cluster: Cluster,
        namespace: str,
        clock: Clock,
        random: Random,
        *,
        within_s: float = WITHIN_S,
    ) -> None:
        self.namespace = namespace
        self._within_s = within_s
        self.history: dict[str, list[AITrainingJobStatus]] = {}
        self._changed = asyncio.Event()

        def informer(resource: Resource[T]) -> Informer[T]:
            made = Informer(
                cluster,
                resource,
                clock=clock,
                random=random,
                selection=Selection(namespace),
                indexes=(by_label(TRAINING_JOB_NAME),),
            )
            made.add_handler(lambda _: self._ring())
            return made

        self.jobs = informer(AI_TRAINING_JOBS)
        self.pods = informer(PODS)
        self.services = informer(SERVICES)
        self.config_maps = informer(CONFIG_MAPS)
        self.groups = informer(POD_GROUPS)
        self.events = informer(EVENTS)
        self.jobs.add_handler(self._note)

    def add_to(self, manager: Manager) -> None:
        for informer in self._every:
            manager.add(f"observer of {informer.resource}", informer.run)

    async def wait_synced(self) -> None:
        for informer in self._every:
            await informer.wait_synced()

    def job(self, name: str) -> AITrainingJob | None:
        return self.jobs.get(Key(self.namespace, name))

    def status(self, name: str) -> AITrainingJobStatus:
        found = self.job(name)
        return found.status if found else AITrainingJobStatus()

    def pods_of(self, name: str) -> dict[str, Pod]:
        """By what a scenario calls them: role and index."""
        found = self.pods.by_label(TRAINING_JOB_NAME, name)
        return {pod.metadata.name.removeprefix(f"{name}-"): pod for pod in found}

    def owned(self, name: str) -> list[str]:
        """Everything that belongs to a job, by kind and name."""
        key = Key(self.namespace, name)
        members = Key(self.namespace, members_name(name))
        found = [f"Pod {name}-{pod}" for pod in self.pods_of(name)]
        found += [
            f"Service {service.metadata.name}"
            for service in self.services.by_label(TRAINING_JOB_NAME, name)
        ]
        found += ["PodGroup"] if self.groups.get(key) else []
        found += ["ConfigMap"] if self.config_maps.get(members) else []
        return sorted(found)

    def warned(self, name: str) -> list[str]:
        """Reasons of the events told of a job."""
        return [e.reason for e in self.events.all() if e.involved_object.name == name]

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        """Wait until something holds, looking again whenever anything changes."""
        try:
            async with asyncio.timeout(self._within_s):
                while not holds():
                    await self._changed.wait()
        except TimeoutError as error:
            raise NotSeenError(f"not within {self._within_s:.0f} s: {what}") from error

    async def until_phase(self, name: str, *phases: str) -> None:
        """Wait for a phase; an ending that was not asked for is told at once."""

        def holds() -> bool:
            status = self.status(name)
            if status.phase in FINAL_PHASES and status.phase.value not in phases:
                raise NotSeenError(f"ended in {status.phase.value}: {status.message}")
            return status.phase.value in phases

        await self.until(holds, f"phase {' or '.join(phases)}")

    @property
    def _every(self) -> list[FollowedInformer]:
        own: list[FollowedInformer] = [self.jobs, self.pods, self.services]
        return [*own, self.config_maps, self.groups, self.events]

    def _note(self, key: Key) -> None:
        found = self.jobs.get(key)
        if found is not None:
            said = self.history.setdefault(key.name, [])
            if not said or said[-1] != found.status:
                said.append(found.status)

    def _ring(self) -> None:
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
