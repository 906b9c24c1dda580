"""The SDK for asynchronous programs: `await swell.aio.connect()`, and so on.

Every call is that of the synchronous SDK, run in a thread, so that there is one implementation
(ADR 111). Names, arguments and answers are the same; what blocks there is awaited here, and what
is iterated there is iterated with `async for` here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Unpack

from swell.api.aitrainingjob import StartEstimate
from swell.api.meta import Body
from swell.sdk import cluster as sync_cluster
from swell.sdk import shortcuts
from swell.sdk.cluster import ClusterHandle, Work
from swell.sdk.errors import SwellError, SwellWarning
from swell.sdk.job import MESSAGE, JobEvent, JobHandle, PrintedLine
from swell.sdk.options import JobKeywords
from swell.sdk.sweep import Rows, SweepHandle

if TYPE_CHECKING:
    from swell.scheduler.explain.positions import QueuePosition

T = TypeVar("T")


class AsyncJobChange(NamedTuple):
    """A job as it is after a change; `type` is added, modified or deleted."""

    type: str
    job: AsyncJob


class AsyncJob:
    """A job as it was when it was last read; `refresh` and `wait` read it again."""

    def __init__(self, job: JobHandle) -> None:
        self._job = job

    def __repr__(self) -> str:
        return repr(self._job)

    @property
    def name(self) -> str:
        return self._job.name

    @property
    def namespace(self) -> str:
        return self._job.namespace

    @property
    def kind(self) -> str:
        return self._job.kind

    @property
    def uid(self) -> str:
        return self._job.uid

    @property
    def phase(self) -> str:
        return self._job.phase

    @property
    def message(self) -> str:
        return self._job.message

    @property
    def has_ended(self) -> bool:
        return self._job.has_ended

    @property
    def body(self) -> Body:
        return self._job.body

    async def refresh(self) -> AsyncJob:
        await asyncio.to_thread(self._job.refresh)
        return self

    async def wait(self, timeout: float | None = None, *, check: bool = False) -> AsyncJob:  # noqa: ASYNC109
        await asyncio.to_thread(self._job.wait, timeout, check=check)
        return self

    def logs(
        self, *, follow: bool = False, role: str = "", index: int | None = None, container: str = ""
    ) -> AsyncIterator[PrintedLine]:
        return _iterated(self._job.logs(follow=follow, role=role, index=index, container=container))

    async def scale(self, **sizes: int) -> AsyncJob:
        await asyncio.to_thread(self._job.scale, **sizes)
        return self

    async def stop(self, reason: str = MESSAGE, *, ending: str = "Failed") -> AsyncJob:
        await asyncio.to_thread(self._job.stop, reason, ending=ending)
        return self

    async def delete(self) -> None:
        await asyncio.to_thread(self._job.delete)

    async def explain(self) -> str:
        return await asyncio.to_thread(self._job.explain)

    async def position(self) -> QueuePosition | None:
        return await asyncio.to_thread(self._job.position)

    @property
    def start_estimate(self) -> StartEstimate | None:
        return self._job.start_estimate

    async def events(self) -> list[JobEvent]:
        return await asyncio.to_thread(self._job.events)

    async def history(self) -> list[Body]:
        return await asyncio.to_thread(self._job.history)


class AsyncSweep:
    """A sweep as it was when it was last read; `refresh` and `wait` read it again."""

    def __init__(self, sweep: SweepHandle) -> None:
        self._sweep = sweep

    def __repr__(self) -> str:
        return repr(self._sweep)

    @property
    def name(self) -> str:
        return self._sweep.name

    @property
    def counts(self) -> dict[str, int]:
        return self._sweep.counts

    @property
    def has_ended(self) -> bool:
        return self._sweep.has_ended

    @property
    def jobs(self) -> list[AsyncJob]:
        return [AsyncJob(job) for job in self._sweep.jobs]

    @property
    def rows(self) -> list[dict[str, Any]]:
        return self._sweep.rows

    async def refresh(self) -> AsyncSweep:
        await asyncio.to_thread(self._sweep.refresh)
        return self

    async def wait(self, timeout: float | None = None) -> AsyncSweep:  # noqa: ASYNC109
        await asyncio.to_thread(self._sweep.wait, timeout)
        return self

    def logs(self) -> AsyncIterator[PrintedLine]:
        return _iterated(self._sweep.logs())

    async def stop(self, reason: str = "stopped by Sweep.stop") -> AsyncSweep:
        await asyncio.to_thread(self._sweep.stop, reason)
        return self

    async def retry(self) -> AsyncSweep:
        await asyncio.to_thread(self._sweep.retry)
        return self

    async def delete(self) -> None:
        await asyncio.to_thread(self._sweep.delete)


class AsyncCluster:
    """A cluster. Calls are independent of each other, and may be awaited together."""

    def __init__(self, cluster: ClusterHandle) -> None:
        self._cluster = cluster

    def __repr__(self) -> str:
        return repr(self._cluster)

    @property
    def namespace(self) -> str:
        return self._cluster.namespace

    @property
    def is_embedded(self) -> bool:
        return self._cluster.is_embedded

    async def submit(
        self,
        work: Work,
        *,
        name: str = "",
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        strict: bool = False,
        **options: Unpack[JobKeywords],
    ) -> AsyncJob:
        """Submit a manifest, a command or a function.

        >>> import asyncio
        >>> import swell.aio
        >>> async def main():
        ...     cluster = await swell.aio.connect()
        ...     job = await cluster.submit(["echo", "hello"], name="greets-async")
        ...     await job.wait(check=True)
        ...     return [str(line) async for line in job.logs()]
        >>> asyncio.run(main())
        ['[trainer-0] hello']
        """
        job = await asyncio.to_thread(
            self._cluster.submit,
            work,
            name=name,
            args=args,
            kwargs=kwargs,
            strict=strict,
            **options,
        )
        return AsyncJob(job)

    async def sweep(
        self,
        work: str | Sequence[str] | Callable[..., object],
        rows: Rows,
        *,
        name: str = "",
        parallel: int | None = None,
        **options: Unpack[JobKeywords],
    ) -> AsyncSweep:
        sweep = await asyncio.to_thread(
            self._cluster.sweep, work, rows, name=name, parallel=parallel, **options
        )
        return AsyncSweep(sweep)

    async def job(self, name: str) -> AsyncJob:
        return AsyncJob(await asyncio.to_thread(self._cluster.job, name))

    async def jobs(self, labels: str = "") -> list[AsyncJob]:
        return [AsyncJob(job) for job in await asyncio.to_thread(self._cluster.jobs, labels)]

    async def watch(self, labels: str = "") -> AsyncIterator[AsyncJobChange]:
        async for change in _iterated(self._cluster.watch(labels)):
            yield AsyncJobChange(change.type, AsyncJob(change.job))


async def connect(
    *,
    kubeconfig: str = "",
    context: str = "",
    embedded: bool = False,
    namespace: str = "",
    start: bool = False,
) -> AsyncCluster:
    """Return the cluster that the command line would choose here, or the one that is named."""
    cluster = await asyncio.to_thread(
        sync_cluster.connect,
        kubeconfig=kubeconfig,
        context=context,
        embedded=embedded,
        namespace=namespace,
        start=start,
    )
    return AsyncCluster(cluster)


async def submit(
    work: Work,
    *,
    name: str = "",
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    strict: bool = False,
    **options: Unpack[JobKeywords],
) -> AsyncJob:
    """Submit a manifest, a command or a function to the cluster that is chosen."""
    job = await asyncio.to_thread(
        shortcuts.submit, work, name=name, args=args, kwargs=kwargs, strict=strict, **options
    )
    return AsyncJob(job)


async def sweep(
    work: str | Sequence[str] | Callable[..., object],
    rows: Rows,
    *,
    name: str = "",
    parallel: int | None = None,
    **options: Unpack[JobKeywords],
) -> AsyncSweep:
    """Submit one job for every row of parameters to the cluster that is chosen."""
    made = await asyncio.to_thread(
        shortcuts.sweep, work, rows, name=name, parallel=parallel, **options
    )
    return AsyncSweep(made)


async def watch(labels: str = "") -> AsyncIterator[AsyncJobChange]:
    """Yield every job and every change of one, of the cluster that is chosen."""
    cluster = await connect()
    async for change in cluster.watch(labels):
        yield change


async def _iterated(items: Iterator[T]) -> AsyncIterator[T]:
    """Yield items that are waited for in a thread. Leaving the loop ends the iteration there."""
    end = object()
    try:
        while (item := await asyncio.to_thread(next, items, end)) is not end:
            yield item  # type: ignore[misc]
    finally:
        # A generator that is being advanced in its thread is closed by its end instead.
        close = getattr(items, "close", None)
        if close is not None and not getattr(items, "gi_running", False):
            close()


Cluster, Job, JobChange, Sweep = AsyncCluster, AsyncJob, AsyncJobChange, AsyncSweep
__all__ = [
    "Cluster",
    "Job",
    "JobChange",
    "JobEvent",
    "PrintedLine",
    "Sweep",
    "SwellError",
    "SwellWarning",
    "connect",
    "submit",
    "sweep",
    "watch",
]
