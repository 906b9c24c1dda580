"""Owns a program's tasks: starts them, ends the program when one fails, and stops them in order.

It is the only module that catches any exception. One that a service does not handle ends the
program; `contain` and `contain_call` turn one into a `Bug` for callers that have other work.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from traceback import format_exception
from typing import ParamSpec, TypeVar

from swell.runtime.clock import Clock
from swell.runtime.logs import get_logger

P = ParamSpec("P")
R = TypeVar("R")
log = get_logger(__name__)

# A task that goes on this long after it was cancelled is abandoned; it ends with the process.
_CANCEL_S = 5.0


@dataclass(frozen=True, slots=True)
class Bug:
    """An exception that no code handles: one of our invariants is broken."""

    error: Exception

    @property
    def trace(self) -> str:
        return "".join(format_exception(self.error))


async def contain(work: Awaitable[R]) -> R | Bug:
    """Returns the result of the work, or the exception it raised as a bug."""
    try:
        return await work
    except Exception as error:
        return Bug(error)


def contain_call(call: Callable[P, R], *given: P.args, **named: P.kwargs) -> R | Bug:
    """Returns the result of a plain call, or the exception it raised as a bug."""
    try:
        return call(*given, **named)
    except Exception as error:
        return Bug(error)


@dataclass(frozen=True, slots=True)
class ManagedService:
    """A task that runs as long as the program does.

    `stop` asks it to finish the work it has begun and to return; without one it is cancelled.
    """

    name: str
    run: Callable[[], Awaitable[None]]
    stop: Callable[[], None] | None = None


class ServiceFailedError(Exception):
    """A service ended that should have run as long as the program."""

    def __init__(self, name: str) -> None:
        super().__init__(f"service {name} ended")
        self.name = name


class Manager:
    """Runs services. They start in the order they were added and stop in the reverse order."""

    def __init__(self, *, clock: Clock, drain_s: float = 20.0) -> None:
        self._clock = clock
        self._drain_s = drain_s
        self._services: list[ManagedService] = []
        self._tasks: list[asyncio.Task[Bug | None]] = []
        self._stopping = asyncio.Event()
        self._failed: str | None = None

    def add(
        self,
        name: str,
        run: Callable[[], Awaitable[None]],
        stop: Callable[[], None] | None = None,
    ) -> None:
        self._services.append(ManagedService(name, run, stop))

    def stop(self) -> None:
        """Begin an orderly shutdown. It may be called from a signal handler, and more than once."""
        self._stopping.set()

    async def run(self, *, handle_signals: bool = False) -> None:
        """Run every service until `stop`, a signal, or the end of one of them.

        Raises ServiceFailedError in the last case, after the others have been stopped.
        """
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT) if handle_signals else ()
        for number in signals:
            loop.add_signal_handler(number, self.stop)
        try:
            # In order, and without waiting for any: a service waits itself for what it needs.
            for service in self._services:
                task = asyncio.create_task(contain(service.run()), name=service.name)
                task.add_done_callback(self._on_end)
                self._tasks.append(task)
            await self._stopping.wait()
        finally:
            await self._shut_down()
            for number in signals:
                loop.remove_signal_handler(number)
        if self._failed is not None:
            raise ServiceFailedError(self._failed)

    def _on_end(self, task: asyncio.Task[Bug | None]) -> None:
        """Note that a service has ended. Unless it was asked to, the program ends too."""
        if not task.cancelled():
            result = task.result()
            if isinstance(result, Bug):
                log.error("service failed", service=task.get_name(), trace=result.trace)
        if not self._stopping.is_set():
            self._failed = task.get_name()
            self._stopping.set()

    async def _shut_down(self) -> None:
        """Stop services one by one within the drain time, the last started first.

        A later service uses earlier ones: a controller needs its informers until it has finished.
        """
        self._stopping.set()
        deadline = self._clock.monotonic() + self._drain_s
        # Not strict: when a start was interrupted, the last services have no task.
        for service, task in reversed(list(zip(self._services, self._tasks, strict=False))):
            if service.stop is None:
                task.cancel()
            elif not task.done():
                service.stop()
            left_s = max(0.0, deadline - self._clock.monotonic())
            if not await _ends_within(task, left_s):
                log.warning("service cut short", service=service.name)
                task.cancel()
                if not await _ends_within(task, _CANCEL_S):
                    log.error("service does not end", service=service.name)


async def run_services(services: Iterable[ManagedService], clock: Clock) -> None:
    """Run services until cancelled, as a part of a larger program."""
    manager = Manager(clock=clock)
    for service in services:
        manager.add(service.name, service.run, service.stop)
    await manager.run()


async def run_workers(worker: Callable[[], Coroutine[None, None, None]], n_workers: int) -> None:
    """Run this many workers until all have returned; when one fails, cancel the others."""
    tasks = [asyncio.create_task(worker()) for _ in range(n_workers)]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _ends_within(task: asyncio.Task[Bug | None], limit_s: float) -> bool:
    """Wait for a task without cancelling it. Returns whether it ended in time."""
    try:
        async with asyncio.timeout(limit_s):
            await asyncio.shield(asyncio.gather(task, return_exceptions=True))
    except TimeoutError:
        return False
    return True
