"""The roll call of a generation: members tell the ports of their workers, and learn everybody's.

Every launcher listens at its meeting port as long as it lives. The members of a plan connect to the
plan's meeting point and send one line each; once all of them have, each gets the whole list, and
the connection ends. A line begins with a code over the rest of it that only holders of the job's
secret can make; nothing is parsed before that code is right. The rest has the plan's prefix, which
is drawn for one generation: an old line is worth nothing.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import hmac
import selectors
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec

from swell.train.bus.plan import GroupPlan
from swell.train.launch.variables import Seat

# An entry holds a port for each worker of a member; the answer one for each worker of a job.
# Callers have proved nothing while their line is read, so all of them together get 32 MiB.
_ENTRY_BYTES_MAX = 8 << 10
_ROLL_BYTES_MAX = 1 << 20
_CALLERS_MAX = 4096
_CODE_BYTES = hashlib.sha256().digest_size * 2
# Callers who say nothing are dropped after as long as a roll call may take.
ROLL_CALL_S = 10.0


class Entry(msgspec.Struct, frozen=True):
    """The line of one member."""

    prefix: str
    size: int
    rank: int
    ports: tuple[int, ...]


class Roll(msgspec.Struct, frozen=True):
    """The answer: the ports of all members, by rank."""

    prefix: str
    ports: tuple[tuple[int, ...], ...]


Said = TypeVar("Said", Entry, Roll)


def signed(message: Entry | Roll, secret: bytes) -> bytes:
    """The message as a line: its code, then its text."""
    text = msgspec.json.encode(message)
    return _code(type(message), text, secret) + text + b"\n"


def verified(line: bytes, kind: type[Said], secret: bytes) -> Said | None:
    """The message in a line without its end; None unless a holder of the secret has made it."""
    code, text = line[:_CODE_BYTES], line[_CODE_BYTES:]
    if not hmac.compare_digest(code, _code(kind, text, secret)):
        return None
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None


def _code(kind: type[Entry | Roll], text: bytes, secret: bytes) -> bytes:
    # The label keeps one kind of message from being taken for the other.
    label = b"swell launch entry " if kind is Entry else b"swell launch roll "
    return hmac.new(secret, label + text, hashlib.sha256).hexdigest().encode()


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
        """End the thread. The sockets are closed here, after it: it may end by itself meanwhile."""
        self._is_closed = True
        with contextlib.suppress(OSError):  # closed before
            self._waker.send(b"\0")
        self._thread.join()
        for one in (self._door, self._woken, self._waker):
            one.close()

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

    def _accept(self) -> None:
        """Take a caller in. Where there is no room, the one that has waited longest goes."""
        try:
            sock, _ = self._door.accept()
        except OSError as error:
            # Otherwise the caller has given up. Without room the door would wake us at once again.
            if error.errno in (errno.EMFILE, errno.ENFILE):
                self._drop_oldest()
            return
        if len(self._callers) >= _CALLERS_MAX:
            self._drop_oldest()
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
        elif not part or len(caller.inbox) > _ENTRY_BYTES_MAX:
            self._drop(caller)

    def _take(self, caller: _Caller, line: bytes) -> None:
        entry = verified(line, Entry, self._secret)
        if entry is None:
            self._drop(caller)
            return
        call = self._calls.setdefault(entry.prefix, _Call(entry.size, time.monotonic()))
        call.ports[entry.rank] = entry.ports
        call.callers.append(caller)
        if len(call.ports) >= call.size:
            self._answer(entry.prefix, call)

    def _answer(self, prefix: str, call: _Call) -> None:
        ports = tuple(ports for _, ports in sorted(call.ports.items()))
        answer = signed(Roll(prefix, ports), self._secret)
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

    def _drop_oldest(self) -> None:
        """Drop a caller whose line has not come, if there is one; else one whose line has."""
        known = {caller for call in self._calls.values() for caller in call.callers}
        silent = (caller for caller in self._callers if caller not in known)
        oldest = next(silent, None) or next(iter(self._callers), None)
        if oldest is not None:
            self._drop(oldest)

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
    entry = signed(Entry(plan.prefix, plan.size, rank, ports), secret)
    give_up = time.monotonic() + ROLL_CALL_S
    while time.monotonic() < give_up and not is_over():
        try:
            with socket.create_connection(plan.meeting, timeout=1.0) as line:
                line.sendall(entry)
                answer = _answer(line, give_up, is_over)
        except OSError:
            answer = b""
        roll = verified(answer, Roll, secret)
        if roll is not None and roll.prefix == plan.prefix and len(roll.ports) == plan.size:
            members = zip(plan.members, roll.ports, strict=True)
            return tuple(Seat(member.host, ports) for member, ports in members)
        time.sleep(0.02)
    return None


def _answer(line: socket.socket, give_up: float, is_over: Callable[[], bool]) -> bytes:
    """The line that the server answers, without its end; empty if none comes."""
    line.settimeout(0.05)
    inbox = bytearray()
    while time.monotonic() < give_up and not is_over():
        try:
            part = line.recv(1 << 16)
        except TimeoutError:
            continue
        inbox += part
        if inbox.endswith(b"\n"):
            return bytes(inbox[:-1])
        if not part or len(inbox) > _ROLL_BYTES_MAX:
            break
    return b""
