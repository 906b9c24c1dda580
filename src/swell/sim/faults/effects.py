"""The effect of each kind of fault on a request, and on its caller."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from swell.api.meta import Status, StatusDetails
from swell.runtime.errors import ClusterError, OutcomeUnknownError, UnreachableError, error_for
from swell.sim.faults.network import CLIENT_TIMEOUT_S, ProcessLife, SimulatedNetwork, unanswered
from swell.sim.faults.plan import Fault, FaultKind

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

# How far back a stale list may be, in commits.
STALE_COMMITS_MAX = 60


@dataclass(frozen=True, slots=True)
class SimulatedCall(Generic[R_co]):
    """One request: the site it is counted at, the function that sends it, and possible faults."""

    site: str
    kind: str
    request: Callable[[], Awaitable[R_co]]
    offered: tuple[FaultKind, ...]
    stale: Callable[[int], Awaitable[R_co | None]] | None = None

    @property
    def is_write(self) -> bool:
        return FaultKind.TIMEOUT_AFTER in self.offered

    def no_answer(self) -> Exception:
        """Returns the error of a client that gets no answer: for a write the outcome is unknown."""
        return OutcomeUnknownError(self.site) if self.is_write else UnreachableError(self.site)


async def apply_fault(
    call: SimulatedCall[R], fault: Fault, network: SimulatedNetwork, life: ProcessLife
) -> R:
    """Carry out a call with a fault.

    Raises what the caller sees, or returns an answer after all.
    """
    if not network.injector.on:
        return await call.request()  # the faulty phase ended meanwhile
    if fault.kind == FaultKind.STALE_LIST:
        return await _answer_stale(call, fault, network)
    network.injector.hit(fault)
    await _EFFECTS[FaultKind(fault.kind)](_FaultContext(call, fault, network, life))
    return await call.request()


async def _answer_stale(call: SimulatedCall[R], fault: Fault, network: SimulatedNetwork) -> R:
    n_commits = 1 + int(STALE_COMMITS_MAX * fault.amount**2)  # squared: mostly the recent past
    stale = await call.stale(n_commits) if call.stale else None
    if stale is None:
        return await call.request()
    network.injector.hit(fault)
    return stale


def refuse_while_forbidden(call: SimulatedCall[R], network: SimulatedNetwork) -> None:
    """Refuse writes to a kind, or one verb of it as by a quota, while such a fault lasts."""
    now_s, ends_s = network.clock.monotonic(), network.refused_until_s
    if call.is_write and now_s < ends_s.get(call.kind, 0.0):
        raise refusal(403, "Forbidden")
    if now_s < ends_s.get(f"{call.site.split(' ')[1]} {call.kind}", 0.0):
        raise refusal(403, "Forbidden", message="exceeded quota")


def refusal(code: int, reason: str, *, message: str = "", retry_after_s: int = 0) -> ClusterError:
    return error_for(
        Status(
            status="Failure",
            code=code,
            reason=reason,
            message=message or f"injected: {reason}",
            details=StatusDetails(retry_after_seconds=retry_after_s),
        )
    )


@dataclass(frozen=True, slots=True)
class _FaultContext:
    """The arguments of an effect."""

    call: SimulatedCall[object]
    fault: Fault
    network: SimulatedNetwork
    life: ProcessLife

    async def stay_silent(self) -> None:
        await self.network.clock.sleep(CLIENT_TIMEOUT_S)
        raise self.call.no_answer()


# Each effect raises what the caller sees. If it returns, the request is sent after all.


async def _conflict(_: _FaultContext) -> None:
    raise refusal(409, "Conflict")


async def _server_error(context: _FaultContext) -> None:
    """Answer 500 or 503. A server may fail before or after it has stored the write."""
    if context.call.is_write and context.fault.amount < 0.25:
        await unanswered(context.call.request)
    if context.fault.amount < 0.5:
        raise refusal(500, "InternalError")
    raise refusal(503, "ServiceUnavailable")


async def _throttle(context: _FaultContext) -> None:
    raise refusal(429, "TooManyRequests", retry_after_s=1 + int(context.fault.scaled(0, 5)))


async def _unreachable(context: _FaultContext) -> None:
    raise UnreachableError(context.call.site)


async def _time_out_before(context: _FaultContext) -> None:
    await context.stay_silent()


async def _time_out_after(context: _FaultContext) -> None:
    await unanswered(context.call.request)
    await context.stay_silent()


async def _apply_late(context: _FaultContext) -> None:
    # The client has given up by then, and may have tried again.
    delay_s = CLIENT_TIMEOUT_S + context.fault.scaled(0, 20)
    context.network.send_later(delay_s, context.call.request)
    await context.stay_silent()


async def _slow_down(context: _FaultContext) -> None:
    await context.network.clock.sleep(context.fault.scaled(0.5, CLIENT_TIMEOUT_S - 1))


async def _refuse_kind(context: _FaultContext) -> None:
    """Refuse a kind for a while and for all clients, as after a bad RBAC edit or webhook."""
    ends_s = context.network.clock.monotonic() + context.fault.scaled(2, 30)
    context.network.refused_until_s[context.call.kind] = ends_s
    raise refusal(403, "Forbidden") if context.fault.amount < 0.5 else refusal(422, "Invalid")


async def _truncate(context: _FaultContext) -> None:
    await context.call.request()
    if context.call.is_write:
        raise context.call.no_answer()
    raise refusal(500, "InternalError", message="unexpected end of JSON input")


async def _crash_before(context: _FaultContext) -> None:
    await context.life.crash(context.fault)


async def _crash_after(context: _FaultContext) -> None:
    await unanswered(context.call.request)
    await context.life.crash(context.fault)


async def _pause(context: _FaultContext) -> None:
    """Pause the process between its decision and the request."""
    await context.life.pause(context.fault.scaled(5, 90))


_EFFECTS: Mapping[FaultKind, Callable[[_FaultContext], Awaitable[None]]] = {
    FaultKind.CONFLICT: _conflict,
    FaultKind.SERVER_ERROR: _server_error,
    FaultKind.THROTTLED: _throttle,
    FaultKind.UNREACHABLE: _unreachable,
    FaultKind.TIMEOUT_BEFORE: _time_out_before,
    FaultKind.TIMEOUT_AFTER: _time_out_after,
    FaultKind.APPLIED_LATE: _apply_late,
    FaultKind.SLOW: _slow_down,
    FaultKind.REFUSED: _refuse_kind,
    FaultKind.TRUNCATED: _truncate,
    FaultKind.CRASH_BEFORE: _crash_before,
    FaultKind.CRASH_AFTER: _crash_after,
    FaultKind.CRASH_LOOP: _crash_after,
    FaultKind.PAUSED: _pause,
}
