"""An asyncio event loop in virtual time: waiting costs nothing, and every run is the same.

The selector never waits: it moves the clock to the next timer. There are no sockets, no threads and
no wall clock. So a wait that nothing can end is found at once and raised as a deadlock, and work
that repeats without time passing is raised as a livelock.

Tasks may belong to a scope (a simulated process), and a scope may be frozen: nothing in it runs
until it is thawed, while its timers go on expiring, as for a process that was stopped (SIGSTOP).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context, ContextVar
from typing import Any, NoReturn, TypeVar
from weakref import WeakValueDictionary

R = TypeVar("R")

# The simulated process a task belongs to; tasks inherit it from the task that creates them.
SCOPE: ContextVar[str] = ContextVar("scope", default="")

# 2026-01-01T00:00:00Z. Any fixed time would do; every virtual clock starts here.
EPOCH_S = 1_767_225_600.0
# Far more turns than the largest burst of callbacks needs at one instant.
MAX_TURNS_AT_ONE_INSTANT = 100_000


class DeadlockError(Exception):
    """All tasks wait, and no timer is set that could wake one of them."""

    def __init__(self, waiting: list[str]) -> None:
        super().__init__(f"nothing left to run; waiting: {', '.join(waiting)}")
        self.waiting = waiting


class LivelockError(Exception):
    """Tasks keep each other busy without time passing."""

    def __init__(self, at_s: float) -> None:
        super().__init__(f"{MAX_TURNS_AT_ONE_INSTANT} turns of the loop at {at_s:.3f} s")
        self.at_s = at_s


class UnhandledError(Exception):
    """A callback, or a task that is not awaited, has failed."""


class VirtualClock:
    """The time of the running virtual loop.

    Its wall time may jump; its monotonic time never does.
    """

    def __init__(self, epoch_s: float = EPOCH_S) -> None:
        self._epoch_s = epoch_s

    def now(self) -> float:
        return self._epoch_s + self.monotonic()

    def monotonic(self) -> float:
        return asyncio.get_running_loop().time()

    async def sleep(self, delay_s: float) -> None:
        await asyncio.sleep(delay_s)

    def jump(self, delta_s: float) -> None:
        """Set the wall clock forwards or back, as an operator or NTP would."""
        self._epoch_s += delta_s


class VirtualLoop(asyncio.BaseEventLoop):
    """The event loop of a simulation. Use `run`, which also cancels the tasks that are left."""

    def __init__(self) -> None:
        super().__init__()
        self._now_s = 0.0
        self._turns = 0
        # By number, because asyncio's own set of tasks has no stable order.
        self._tasks: WeakValueDictionary[int, asyncio.Task[Any]] = WeakValueDictionary()
        self._n_tasks = 0
        self._frozen: dict[str, list[asyncio.Handle]] = {}
        self._selector = self  # the base loop calls `select` on it
        self._ready = _ReadyQueue(self._divert)
        self.unhandled: list[str] = []
        self.set_exception_handler(_note_unhandled)

    def time(self) -> float:
        return self._now_s

    def select(self, timeout: float | None) -> tuple[()]:
        """Advance the time. The base loop calls this between two turns."""
        if timeout is None:
            raise DeadlockError([task.get_name() for task in self.tasks()])
        if timeout > 0:
            self._now_s += timeout
            self._turns = 0
            return ()
        self._turns += 1
        if self._turns > MAX_TURNS_AT_ONE_INSTANT:
            self._turns = 0  # the loop must still be able to cancel its tasks
            raise LivelockError(self._now_s)
        return ()

    def freeze(self, scope: str) -> None:
        """Stop all callbacks of a scope. Its timers go on."""
        self._frozen.setdefault(scope, [])

    def thaw(self, scope: str) -> None:
        """Continue a scope: callbacks that became ready meanwhile run now, in their order."""
        self._ready.extend(self._frozen.pop(scope, []))

    def tasks(self) -> list[asyncio.Task[Any]]:
        """Returns unfinished tasks, oldest first; asyncio's own set has no stable order."""
        return [task for _, task in sorted(self._tasks.items()) if not task.done()]

    def create_task(
        self,
        coro: Coroutine[Any, Any, R],  # type: ignore[override]
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[R]:
        self._n_tasks += 1
        # asyncio numbers tasks over all loops, so its names would differ between runs.
        label = f"task-{self._n_tasks}" if name is None else str(name)
        task: asyncio.Task[R] = super().create_task(coro, name=label, context=context)
        self._tasks[self._n_tasks] = task
        return task

    def _divert(self, handle: asyncio.Handle) -> bool:
        """Whether a ready handle belongs to a frozen scope; such a handle is kept for `thaw`."""
        if not self._frozen:
            return False
        scope = handle._context.get(SCOPE, "")  # type: ignore[attr-defined]  # noqa: SLF001
        if scope not in self._frozen:
            return False
        self._frozen[scope].append(handle)
        return True

    def _process_events(self, event_list: object) -> None:
        pass

    def _write_to_self(self) -> NoReturn:
        raise RuntimeError("no threads in virtual time")

    def run_in_executor(self, *_: object) -> NoReturn:
        raise RuntimeError("no threads in virtual time")


def run(main: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine in virtual time from zero, then cancel the tasks that it left running.

    Raises UnhandledError if a callback or a task that was not awaited has failed.
    """
    loop = VirtualLoop()
    try:
        with _ending(loop):
            result = loop.run_until_complete(main)
    finally:
        loop.close()
    if loop.unhandled:
        raise UnhandledError("; ".join(loop.unhandled))
    return result


@contextlib.contextmanager
def _ending(loop: VirtualLoop) -> Iterator[None]:
    """Cancel tasks in the order of their creation, twice at most, because clean-up may hang."""
    try:
        yield
    finally:
        for _ in range(2):
            left = loop.tasks()
            if not left:
                break
            # A frozen task could not be cancelled.
            for scope in sorted(loop._frozen):  # noqa: SLF001
                loop.thaw(scope)
            for task in left:
                task.cancel()
            with contextlib.suppress(DeadlockError):
                loop.run_until_complete(_settle(left))
        loop.run_until_complete(loop.shutdown_asyncgens())


async def _settle(tasks: list[asyncio.Task[Any]]) -> None:
    results = await asyncio.gather(*tasks, return_exceptions=True)
    failed = [r for r in results if isinstance(r, Exception)]
    if failed:
        raise ExceptionGroup("tasks failed while being ended", failed)


def _note_unhandled(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    assert isinstance(loop, VirtualLoop)  # noqa: S101
    loop.unhandled.append(f"{context.get('message')}: {context.get('exception')!r}")


class _ReadyQueue(deque[asyncio.Handle]):
    """The base loop's queue of ready handles; those of frozen scopes are kept back when popped."""

    def __init__(self, divert: Callable[[asyncio.Handle], bool]) -> None:
        super().__init__()
        self._divert = divert

    def popleft(self) -> asyncio.Handle:
        handle = super().popleft()
        return _SKIPPED if self._divert(handle) else handle


class _SkippedHandle:
    """Replaces a handle that was kept back: the base loop skips cancelled handles."""

    _cancelled = True


_SKIPPED: Any = _SkippedHandle()
