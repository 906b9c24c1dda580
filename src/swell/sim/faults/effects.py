"""What each fault does to a request, and what its caller sees of it."""

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

STALE_COMMITS_MAX = 60


@dataclass(frozen=True, slots=True)
class SimulatedCall(Generic[R_co]):
    """One request: where it is counted, what carries it out, what may befall it."""

    site: str
    kind: str
    request: Callable[[], Awaitable[R_co]]
    offered: tuple[FaultKind, ...]
    stale: Callable[[int], Awaitable[R_co | None]] | None = None

    @property
    def is_write(self) -> bool:
        return FaultKind.TIMEOUT_AFTER in self.offered

    def no_answer(self) -> Exception:
        """What a client makes of silence: only a write leaves doubt."""
        return OutcomeUnknownError(self.site) if self.is_write else UnreachableError(self.site)


async def apply_fault(
    call: SimulatedCall[R], fault: Fault, network: SimulatedNetwork, life: ProcessLife
) -> R:
    """Carry out a call with a fault: raises what the caller sees, or answers after all."""
    if not network.injector.on:
        return await call.request()  # the faults ended while it was on its way
    if fault.kind == FaultKind.STALE_LIST:
        return await _answer_stale(call, fault, network)
    network.injector.hit(fault)
    await _EFFECTS[FaultKind(fault.kind)](_FaultContext(call, fault, network, life))
    return await call.request()


async def _answer_stale(call: SimulatedCall[R], fault: Fault, network: SimulatedNetwork) -> R:
    n_commits = 1 + int(STALE_COMMITS_MAX * fault.amount**2)  # mostly the recent past
    stale = await call.stale(n_commits) if call.stale else None
    if stale is None:
        return await call.request()
    network.injector.hit(fault)
    return stale


def refuse_while_forbidden(call: SimulatedCall[R], network: SimulatedNetwork) -> None:
    """While a kind is refused, every write to it is; while a verb of it is, as by a quota, that."""
    now_s, seasons = network.clock.monotonic(), network.refused_until_s
    if call.is_write and now_s < seasons.get(call.kind, 0.0):
        raise refusal(403, "Forbidden")
    if now_s < seasons.get(f"{call.site.split(' ')[1]} {call.kind}", 0.0):
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
    call: SimulatedCall[object]
    fault: Fault
    network: SimulatedNetwork
    life: ProcessLife

    async def stay_silent(self) -> None:
        await self.network.clock.sleep(CLIENT_TIMEOUT_S)
        raise self.call.no_answer()


# Each effect raises what the caller sees. One that returns lets the request go on.


async def _conflict(_: _FaultContext) -> None:
    raise refusal(409, "Conflict")


async def _server_error(scene: _FaultContext) -> None:
    """A server that fails after storing answers the same as one that fails before."""
    if scene.call.is_write and scene.fault.amount < 0.25:
        await unanswered(scene.call.request)
    if scene.fault.amount < 0.5:
        raise refusal(500, "InternalError")
    raise refusal(503, "ServiceUnavailable")


async def _throttle(scene: _FaultContext) -> None:
    raise refusal(429, "TooManyRequests", retry_after_s=1 + int(scene.fault.scaled(0, 5)))


async def _unreachable(scene: _FaultContext) -> None:
    raise UnreachableError(scene.call.site)


async def _time_out_before(scene: _FaultContext) -> None:
    await scene.stay_silent()


async def _time_out_after(scene: _FaultContext) -> None:
    await unanswered(scene.call.request)
    await scene.stay_silent()


async def _apply_late(scene: _FaultContext) -> None:
    delay_s = CLIENT_TIMEOUT_S + scene.fault.scaled(0, 20)
    scene.network.send_later(delay_s, scene.call.request)
    await scene.stay_silent()


async def _slow_down(scene: _FaultContext) -> None:
    await scene.network.clock.sleep(scene.fault.scaled(0.5, CLIENT_TIMEOUT_S - 1))


async def _refuse_kind(scene: _FaultContext) -> None:
    """For everybody and for a while, as when a role is edited or a webhook is broken."""
    ends_s = scene.network.clock.monotonic() + scene.fault.scaled(2, 30)
    scene.network.refused_until_s[scene.call.kind] = ends_s
    raise refusal(403, "Forbidden") if scene.fault.amount < 0.5 else refusal(422, "Invalid")


async def _truncate(scene: _FaultContext) -> None:
    await scene.call.request()
    if scene.call.is_write:
        raise scene.call.no_answer()
    raise refusal(500, "InternalError", message="unexpected end of JSON input")


async def _crash_before(scene: _FaultContext) -> None:
    await scene.life.crash(scene.fault)


async def _crash_after(scene: _FaultContext) -> None:
    await unanswered(scene.call.request)
    await scene.life.crash(scene.fault)


async def _pause(scene: _FaultContext) -> None:
    """The request was decided on before the pause and reaches the server after it."""
    await scene.life.pause(scene.fault.scaled(5, 90))


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
