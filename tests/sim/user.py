"""A user of one kind of job, who submits, changes, deletes, waits and looks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, TypeVar

from swell.api.meta import Body, Key
from swell.api.pod import PodPhase
from swell.api.resource import ApiObject, Resource
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ClusterError
from swell.sim.observation import NAMESPACE, one_of, pods_in
from swell.sim.scenario import USER

if TYPE_CHECKING:
    from swell.sim.world import SimulatedWorld

J = TypeVar("J", bound=ApiObject)


class SimulatedUser(Generic[J]):
    """A user of one kind of job. `make` writes the manifest of a job from its name and more."""

    def __init__(
        self,
        world: SimulatedWorld,
        resource: Resource[J],
        make: Callable[..., Body],
        is_over: Callable[[J], bool],
    ) -> None:
        self.world = world
        self.cluster = world.connect(USER)
        self._resource = resource
        self._make = make
        self._is_over = is_over

    async def submit(self, name: str, *what: object, **spec: object) -> None:
        await self.cluster.create(self._resource, self._make(name, *what, **spec))

    async def delete(self, name: str) -> None:
        await self.cluster.delete(self._resource, Key(NAMESPACE, name))

    async def force_delete(self, name: str) -> None:
        """Remove the finalizer, then delete: the garbage collector has to remove the rest."""
        await self.patch(name, {"metadata": {"finalizers": None}})
        await self.delete(name)

    async def patch(self, name: str, body: Body) -> None:
        try:
            await self.cluster.patch(self._resource, Key(NAMESPACE, name), merge_patch(body))
        except ClusterError as error:
            self.world.trace.note(f"user was refused: {error}")

    async def edit(self, name: str, spec: Body) -> None:
        await self.patch(name, {"spec": spec})

    async def annotate(self, name: str, key: str, text: str) -> None:
        await self.patch(name, {"metadata": {"annotations": {key: text}}})

    async def wait(self, *what: object, up_to_s: float = 10) -> None:
        """Wait for a random time."""
        await self.world.clock.sleep(self.world.chance.between(0, up_to_s, "user", *what))

    async def until(self, name: str, holds: Callable[[J], bool], within_s: float = 100) -> bool:
        """Wait for a condition on a job. Returns whether it became true in time."""

        def look() -> bool:
            job = self.job(name)
            return job is not None and holds(job)

        return await self.world.until(look, within_s)

    async def until_ended(self, name: str, within_s: float = 300) -> bool:
        return await self.until(name, self._is_over, within_s)

    async def until_gone(self, name: str) -> None:
        await self.world.until(lambda: self.job(name) is None, within_s=1000)

    async def until_running(self, name: str, n_pods: int, within_s: float = 40) -> None:
        await self.world.until(lambda: self._n_running(name) >= n_pods, within_s)

    def job(self, name: str) -> J | None:
        return one_of(self.world, self._resource, name)

    def _n_running(self, name: str) -> int:
        return sum(
            pod.metadata.name.startswith(f"{name}-") and pod.status.phase is PodPhase.RUNNING
            for pod in pods_in(self.world)
        )
