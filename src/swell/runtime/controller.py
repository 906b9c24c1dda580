"""The reconcile loop of every controller.

For one key at a time a worker

1. reads consistently what an earlier failure left uncertain,
2. takes a snapshot of the caches,
3. has a pure function decide on a plan,
4. has the executor carry the plan out, and
5. requeues the key when the plan or a failure asks for it.

Failures are of three families. *Retry*: the key is requeued with a back-off. *Reject*: a write that
the server does not allow is kept for the next decision to report. *Bug*: an unexpected exception is
logged with the recent history of the key, which backs off; the other keys go on.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from swell.api.backoff import Backoff
from swell.api.meta import Key
from swell.runtime.cache import StaleListError
from swell.runtime.clock import Clock
from swell.runtime.cluster import Malformed
from swell.runtime.errors import ClusterError, UnreachableError
from swell.runtime.executor import Executor, Failure, FailureKind, Outcome
from swell.runtime.logs import ReconcilePass, get_logger, reconcile_pass
from swell.runtime.manager import Bug, contain, run_workers
from swell.runtime.plan import NOTHING, Action, Plan, Write
from swell.runtime.queue import QueueClosedError, WorkQueue
from swell.runtime.uncertain import AnyInformer, Children, UncertainKeys

S = TypeVar("S")
log = get_logger(__name__)

# A plan asks for a wake-up in wall time, which may be set while we wait. So no wait is longer than
# this, and the time is compared anew.
WAKE_S_MAX = 600.0
# Wall time is a coarser number than a delay: a wake-up due in less than its resolution would be
# due again at once, in a hot loop.
WAKE_S_MIN = 0.001
# A write that the server refuses now, by a quota for example, may succeed minutes later.
REFUSED = Backoff(base_s=1.0, cap_s=300.0)


class ControllerMeter(Protocol):
    """Measures reconciles: how they ended, how long they took, and how many keys wait."""

    def reconciled(self, controller: str, result: str, seconds: float) -> None: ...

    def queued(self, controller: str, n_keys: int) -> None: ...


@dataclass(frozen=True, slots=True)
class RejectedWrite:
    """A write that the server refused, for the next decisions to take into account.

    `count` is how often in a row. Trying again before `retry_at` (wall time) is of no use; the
    loop requeues the key for then.
    """

    action: Write
    reason: str
    message: str
    count: int
    retry_at: float

    def is_about(self, action: Action) -> bool:
        """Whether an action writes the same object."""
        return (action.resource, action.key) == (self.action.resource, self.action.key)


@dataclass(frozen=True, slots=True)
class Reconciler(Generic[S]):
    """The part of a controller that knows its kind.

    `snapshot` reads the caches and awaits nothing; it returns None when the key is gone. `decide`
    is pure. `malformed` decides for an owner that could not be decoded; without it, such an owner
    is left as it is until it can be.
    """

    snapshot: Callable[[Key], S | None]
    decide: Callable[[S, float], Plan]
    malformed: Callable[[Malformed, float], Plan] | None = None


class Controller(Generic[S]):
    """Runs one reconciler. The caller runs the informers; no key is decided before all are synced.

    A change of an owner wakes its key, one of a child the key of its owner. For `others` the
    caller adds a handler that calls `wake`.
    """

    def __init__(
        self,
        name: str,
        reconciler: Reconciler[S],
        *,
        owners: AnyInformer | None,
        children: Sequence[Children] = (),
        others: Sequence[AnyInformer] = (),
        executor: Executor,
        queue: WorkQueue[Key],
        clock: Clock,
        workers: int = 4,
        meter: ControllerMeter | None = None,
    ) -> None:
        self.name = name
        self._reconciler = reconciler
        self._owners = owners
        self._executor = executor
        self._queue = queue
        self._clock = clock
        self._n_workers = workers
        self._meter = meter
        self._uncertain = UncertainKeys(owners, children, others)
        self._rejected: dict[Key, RejectedWrite] = {}
        self._history = KeyHistory()
        self._n_passes = 0
        self._informers = [
            *([owners] if owners is not None else []),
            *(c.informer for c in children),
            *others,
        ]
        if owners is not None:
            owners.add_handler(self.wake)
        for child in children:
            child.informer.add_handler(self._waker(child.settle_s), child.index)

    def wake(self, key: Key) -> None:
        """Have a key reconciled as soon as possible."""
        self._queue.add(key)

    def _waker(self, settle_s: float) -> Callable[[Key], None]:
        def wake(key: Key) -> None:
            self._queue.add_after(key, settle_s)

        return wake

    def rejected_write(self, key: Key) -> RejectedWrite | None:
        """Returns the latest write refused for a key, until a write of that object succeeds."""
        return self._rejected.get(key)

    @property
    def is_idle(self) -> bool:
        """Whether no key is ready or worked on."""
        return self._queue.is_idle

    async def run(self) -> None:
        """Reconcile until `stop`; keys that are ready by then are still reconciled."""
        for informer in self._informers:
            await informer.wait_synced()
        await run_workers(self._worker, self._n_workers)

    def stop(self) -> None:
        self._queue.close()

    async def _worker(self) -> None:
        while True:
            try:
                key = await self._queue.get()
            except QueueClosedError:
                return
            started = self._clock.monotonic()
            self._n_passes += 1
            reconcile_pass.set(ReconcilePass(self.name, key, self._n_passes))
            # One key's bug must not stop the others, so that a bad object harms only its owner.
            result = await contain(self._reconcile(key))
            if isinstance(result, Bug):
                self._on_bug(key, result)
                result = "bug"
            self._queue.done(key)
            if self._meter:
                self._meter.reconciled(self.name, result, self._clock.monotonic() - started)
                self._meter.queued(self.name, len(self._queue))

    async def _reconcile(self, key: Key) -> str:
        """Reconcile one key. Returns how it ended, as the metrics name it."""
        try:
            plan = await self._planned(key)
        except ClusterError as error:
            return self._retry(key, "unread", str(error), error.retry_after_s)
        except (UnreachableError, StaleListError, TimeoutError) as error:
            return self._retry(key, "unread", str(error))
        if plan is None:
            self._forget(key)
            return "gone"
        outcome = await self._executor.execute(plan)
        self._remember(key, plan, outcome)
        # All failures and not only the worst: each may have left its own object uncertain.
        self._uncertain.record(key, outcome.failures)
        failure = outcome.worst
        if failure is None:
            return self._settle(key, plan)
        if failure.kind is FailureKind.REFUSED:
            return self._keep_rejected(key, failure)
        return self._retry(key, failure.kind.value, failure.message, failure.retry_after_s)

    async def _planned(self, key: Key) -> Plan | None:
        """Returns a plan of one moment: nothing is awaited while it is made.

        A cache may lack an object that exists. So a plan that is right only if something does not
        exist is made a second time, after a consistent read.
        """
        await self._uncertain.resolve(key)
        plan = self._decide(key)
        if plan is None or not plan.needs_consistent_read:
            return plan
        self._uncertain.mark(key)
        await self._uncertain.resolve(key)
        return self._decide(key)

    def _decide(self, key: Key) -> Plan | None:
        now = self._clock.now()
        malformed = self._owners.malformed(key) if self._owners is not None else None
        if malformed is not None:
            # Nothing is decided on a placeholder; the informer has reported the object.
            decide = self._reconciler.malformed
            return decide(malformed, now) if decide else NOTHING
        snapshot = self._reconciler.snapshot(key)
        return None if snapshot is None else self._reconciler.decide(snapshot, now)

    def _settle(self, key: Key, plan: Plan) -> str:
        self._queue.forget(key)
        # A plan that leaves the refused write out says nothing about it: it stays on record.
        rejected = self._rejected.get(key)
        if rejected and any(rejected.is_about(action) for action in plan.each_action()):
            del self._rejected[key]
        if plan.wake_at is not None:
            delay_s = max(WAKE_S_MIN, plan.wake_at - self._clock.now())
            self._queue.add_after(key, min(WAKE_S_MAX, delay_s))
        return "wrote" if plan.actions else "quiet"

    def _retry(self, key: Key, result: str, why: str, at_least_s: float = 0.0) -> str:
        delay_s = self._queue.retry(key, at_least_s)
        log.info(
            "will retry", controller=self.name, key=str(key), result=result, why=why,
            failures=self._queue.failures(key), delay_s=round(delay_s, 3),
        )  # fmt: skip
        return result

    def _keep_rejected(self, key: Key, failure: Failure) -> str:
        """Keep the refused write, and requeue the key at once if it is the first.

        The decision may want to report it. Later ones wait: two writes refused in turn would
        otherwise wake each other in a hot loop.
        """
        former = self._rejected.get(key)
        count = former.count + 1 if former else 1
        delay_s = self._queue.retry(key, max(failure.retry_after_s, REFUSED.full_s(count)))
        self._rejected[key] = RejectedWrite(
            failure.action, failure.reason, failure.message, count, self._clock.now() + delay_s
        )
        if former is None:
            self._queue.add(key)
        # A refusal that lasts is logged once.
        if former is None or former.message != failure.message:
            log.warning(
                "write refused", controller=self.name, key=str(key), reason=failure.reason,
                message=failure.message,
            )  # fmt: skip
        return FailureKind.REFUSED.value

    def _on_bug(self, key: Key, bug: Bug) -> None:
        delay_s = self._queue.retry(key)
        log.error(
            "bug", controller=self.name, key=str(key), trace=bug.trace,
            story=self._history.lines(key), delay_s=round(delay_s, 3),
        )  # fmt: skip

    def _remember(self, key: Key, plan: Plan, outcome: Outcome) -> None:
        if not plan.actions:
            return
        actions = tuple(plan.each_action())
        shown = ", ".join(f"{type(a).__name__} {a.resource} {a.key}" for a in actions[:5])
        if actions[5:]:
            shown += f" and {len(actions) - 5} more"
        failure = outcome.worst
        end = f"{failure.kind.value}: {failure.message}" if failure else "done"
        reasons = f" because {', '.join(plan.reasons)}" if plan.reasons else ""
        self._history.add(key, f"{self._clock.now():.3f} {shown}{reasons}: {end}")

    def _forget(self, key: Key) -> None:
        self._queue.forget(key)
        self._rejected.pop(key, None)


class KeyHistory:
    """The last few lines about each of the last few keys, logged with a bug."""

    def __init__(self, *, keys_max: int = 1000, lines_max: int = 20) -> None:
        self._keys_max = keys_max
        self._lines_max = lines_max
        self._lines: OrderedDict[Key, deque[str]] = OrderedDict()

    def add(self, key: Key, line: str) -> None:
        lines = self._lines.setdefault(key, deque(maxlen=self._lines_max))
        lines.append(line)
        self._lines.move_to_end(key)
        if len(self._lines) > self._keys_max:
            self._lines.popitem(last=False)

    def lines(self, key: Key) -> list[str]:
        return list(self._lines.get(key, ()))
