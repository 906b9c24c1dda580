"""The roll call of a generation: members tell the ports of their workers, and learn everybody's.

Every launcher listens at its meeting port as long as it lives. The members of a plan connect to the
plan's meeting point and send one line each; once all of them have, each gets the whole list, and
the connection ends. Lines carry a code that only holders of the job's secret can make, over the
plan's prefix, which is drawn for one generation: an old line is worth nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from swell.train.bus.plan import GroupPlan
from swell.train.launch.variables import Seat

# A line holds a port for each worker of a member, or for all workers of a job.
_LINE_BYTES_MAX = 1 << 20
_CALLERS_MAX = 4096
# Callers who say nothing are dropped after as long as a roll call may take.
ROLL_CALL_S = 10.0


class Entry(msgspec.Struct, frozen=True):
    """The line of one member."""

    prefix: str
    size: int
    rank: int
    ports: tuple[int, ...]
    code: str = ""


class Roll(msgspec.Struct, frozen=True):
    """The answer: the ports of all members, by rank."""

    prefix: str
    ports: tuple[tuple[int, ...], ...]
    code: str = ""


def sign(message: Entry | Roll, secret: bytes) -> bytes:
    """The message as a line, with its code."""
    bare = msgspec.structs.replace(message, code="")
    return msgspec.json.encode(msgspec.structs.replace(bare, code=_code(bare, secret))) + b"\n"


def is_signed(message: Entry | Roll, secret: bytes) -> bool:
    bare = msgspec.structs.replace(message, code="")
    return hmac.compare_digest(message.code, _code(bare, secret))


def _code(bare: Entry | Roll, secret: bytes) -> str:
    # The label keeps one kind of message from being taken for the other.
    label = b"swell launch entry " if isinstance(bare, Entry) else b"swell launch roll "
    return hmac.new(secret, label + msgspec.json.encode(bare), hashlib.sha256).hexdigest()


@dataclass(slots=True, eq=False)
class _Caller:
    sock: socket.socket
    since: float
    inbox: bytes = b""


@dataclass(slots=True)
class _Call:
    """A roll call that is not complete."""

    size: int
    since: float
    ports: dict[int, tuple[int, ...]] = field(default_factory=dict)
    callers: list[_Caller] = field(default_factory=list)


class RollCallServer:
    """Answers roll calls at this member's meeting port, on a thread of its own."""

    def __init__(self, address: str, secret: bytes) -> None:
        self._secret = secret
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._door = socket.create_server((address, 0), family=family, backlog=128)
        self._door.setblocking(False)
        self.port: int = self._door.getsockname()[1]
        self._calls: dict[str, _Call] = {}
        self._callers: dict[_Caller, None] = {}
        self._woken, self._waker = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._door, selectors.EVENT_READ, None)
        self._selector.register(self._woken, selectors.EVENT_READ, None)
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="roll call", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._is_closed = True
        self._waker.send(b"\0")
        self._thread.join()

    def _run(self) -> None:
        while not self._is_closed:
            for key, _ in self._selector.select(1.0):
                if key.fileobj is self._door:
                    self._accept()
                elif isinstance(key.data, _Caller):
                    self._hear(key.data)
            self._drop_old(time.monotonic())
        for caller in list(self._callers):
            self._drop(caller)
        self._selector.close()
        for one in (self._door, self._woken, self._waker):
            one.close()

    def _accept(self) -> None:
        try:
            sock, _ = self._door.accept()
        except OSError:
            return  # the caller has given up
        if len(self._callers) >= _CALLERS_MAX:
            sock.close()
            return
        sock.setblocking(False)
        caller = _Caller(sock, time.monotonic())
        self._callers[caller] = None
        self._selector.register(sock, selectors.EVENT_READ, caller)

    def _hear(self, caller: _Caller) -> None:
        try:
            part = caller.sock.recv(1 << 16)
        except BlockingIOError:
            return
        except OSError:
            part = b""
        caller.inbox += part
        line, end, _ = caller.inbox.partition(b"\n")
        if end:
            caller.inbox = b""
            self._take(caller, line)
        elif not part or len(caller.inbox) > _LINE_BYTES_MAX:
            self._drop(caller)

    def _take(self, caller: _Caller, line: bytes) -> None:
        try:
            entry = msgspec.json.decode(line, type=Entry)
        except msgspec.MsgspecError:
            entry = None
        if entry is None or not is_signed(entry, self._secret):
            self._drop(caller)
            return
        call = self._calls.setdefault(entry.prefix, _Call(entry.size, time.monotonic()))
        call.ports[entry.rank] = entry.ports
        call.callers.append(caller)
        if len(call.ports) >= call.size:
            self._answer(entry.prefix, call)

    def _answer(self, prefix: str, call: _Call) -> None:
        ports = tuple(ports for _, ports in sorted(call.ports.items()))
        answer = sign(Roll(prefix, ports), self._secret)
        for caller in call.callers:
            try:
                # The answer fits the socket's buffer; a caller whose buffer is full is gone.
                caller.sock.sendall(answer)
            except OSError:
                continue
        for caller in call.callers:
            self._drop(caller)
        del self._calls[prefix]

    def _drop_old(self, now: float) -> None:
        for prefix, call in list(self._calls.items()):
            if now - call.since > ROLL_CALL_S:
                del self._calls[prefix]
        for caller in list(self._callers):
            if now - caller.since > ROLL_CALL_S:
                self._drop(caller)

    def _drop(self, caller: _Caller) -> None:
        if caller in self._callers:
            del self._callers[caller]
            self._selector.unregister(caller.sock)
            caller.sock.close()


def call_roll(
    plan: GroupPlan,
    rank: int,
    ports: tuple[int, ...],
    secret: bytes,
    is_over: Callable[[], bool],
) -> tuple[Seat, ...] | None:
    """The seats of all members; None if they do not come, or the generation is over before."""
    entry = sign(Entry(plan.prefix, plan.size, rank, ports), secret)
    give_up = time.monotonic() + ROLL_CALL_S
    while time.monotonic() < give_up and not is_over():
        try:
            with socket.create_connection(plan.meeting, timeout=1.0) as line:
                line.sendall(entry)
                roll = _answer(line, give_up, is_over)
        except OSError:
            roll = None
        if roll is not None and is_signed(roll, secret) and roll.prefix == plan.prefix:
            members = zip(plan.members, roll.ports, strict=True)
            return tuple(Seat(member.host, ports) for member, ports in members)
        time.sleep(0.02)
    return None


def _answer(line: socket.socket, give_up: float, is_over: Callable[[], bool]) -> Roll | None:
    line.settimeout(0.05)
    inbox = b""
    while time.monotonic() < give_up and not is_over():
        try:
            part = line.recv(1 << 16)
        except TimeoutError:
            continue
        inbox += part
        if inbox.endswith(b"\n"):
            try:
                return msgspec.json.decode(inbox, type=Roll)
            except msgspec.MsgspecError:
                return None
        if not part or len(inbox) > _LINE_BYTES_MAX:
            return None
    return None
