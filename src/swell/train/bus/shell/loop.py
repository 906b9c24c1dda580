"""The bus thread: events from sockets, files and the training thread; instructions carried out.

It never blocks: names are looked up elsewhere, abort callbacks have threads of their own, and every
socket is asynchronous. Each turn ends with one tick of the state machine.
"""

from __future__ import annotations

import collections
import contextlib
import errno
import logging
import secrets
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from swell.train.bus.events import (
    AbortGeneration,
    AllowSteps,
    Closing,
    Deliver,
    Dial,
    DialRefused,
    DialUnnamed,
    Event,
    FirstStepBegun,
    HangUp,
    HoldSteps,
    Instruction,
    LeaveAsked,
    LineClosed,
    LineId,
    LineOpened,
    Received,
    RosterRead,
    SendMessage,
    StepsHeld,
    Tick,
)
from swell.train.bus.member import BusMember
from swell.train.bus.messages import Frame, Message
from swell.train.bus.plan import Departure, GroupPlan
from swell.train.bus.shell.connection import ConnectionLostError, ConnectionState, LineSocket
from swell.train.bus.shell.folder import MembersFolder, read_release
from swell.train.bus.shell.gate import StepGate
from swell.train.bus.shell.handshake import NONCE_BYTES, Handshake
from swell.train.bus.shell.reporting import answer_request
from swell.train.bus.shell.resolver import Resolver, is_numeric
from swell.train.bus.shell.termination import TerminationSignal
from swell.train.forks import keep_from_children

logger = logging.getLogger("swell.train")

TICK_S = 0.05
# How long an end may take to prove itself or to send its request, and a closed line to empty.
UNKNOWN_S, CLOSING_S = 2.0, 0.5
# Ends that have proved nothing; the oldest goes when there are more. A peer takes milliseconds.
UNKNOWN_MAX = 128
# Accepted at once, so that a flood of connections does not keep the thread from its lines.
_ACCEPTED_AT_ONCE = 32

Answer = GroupPlan | Departure


class BusThread:
    """The thread, its sockets, and the member that it serves."""

    def __init__(
        self,
        member: BusMember,
        listener: socket.socket,
        *,
        secret: bytes,
        folder: MembersFolder,
        release: Path | None,
        on_answer: Callable[[Answer], None],
        on_abort: Callable[[int], None],
        on_end: Callable[[], None],
    ) -> None:
        self.member = member
        self.gate = StepGate(self._first_step_begun)
        self.report: bytes | None = None
        self._secret = secret
        self._folder = folder
        self._release = release
        self._on_answer, self._on_abort, self._on_end = on_answer, on_abort, on_end
        self._selector = selectors.DefaultSelector()
        self._listener: socket.socket | None = listener
        listener.setblocking(False)
        self._selector.register(listener, selectors.EVENT_READ, None)
        self._wake_in, self._wake_out = socket.socketpair()
        for end in (self._wake_in, self._wake_out):
            end.setblocking(False)
        self._selector.register(self._wake_in, selectors.EVENT_READ, self._wake_in)
        self._connections: dict[LineId, LineSocket] = {}
        self._n_accepted = 0
        self._inbox: collections.deque[Event | Callable[[], None]] = collections.deque()
        self._resolver = Resolver(self._resolved)
        self._ports: dict[LineId, int] = {}
        self._signal = TerminationSignal(self._wake_out.fileno())
        self._is_released = False
        self._next_tick = 0.0
        self._is_closing = False
        self._thread = threading.Thread(target=self._run, name="swell-bus", daemon=True)
        keep_from_children(self)

    # ---- for other threads

    def start(self) -> None:
        self._thread.start()

    def post(self, event: Event | Callable[[], None]) -> None:
        """Have an event handled, or a function called, by the bus thread."""
        self._inbox.append(event)
        # Full means that it will wake anyway; closed, that nothing is left to do.
        with contextlib.suppress(OSError):
            self._wake_out.send(b"\0")

    def stop(self, within_s: float) -> None:
        """End the thread once all that was sent has gone out, or after some time."""
        self.post(self._begin_to_close)
        if self._thread is not threading.current_thread():
            self._thread.join(within_s)
        self._signal.uninstall()
        if not self._thread.is_alive() and not self._signal.is_installed:
            self._wake_in.close()
            self._wake_out.close()
            self._selector.close()

    def forget_in_child(self) -> None:
        """Close a forked child's copies of all sockets, and end on SIGTERM as it would have."""
        self._signal.forget_in_child()
        # Nothing is unregistered: the child shares the kernel's list with this process.
        self._selector.close()
        ends = [connection.sock for connection in self._connections.values()]
        for sock in (*ends, self._wake_in, self._wake_out, self._listener):
            if sock is not None:
                sock.close()

    def _first_step_begun(self, generation: int) -> None:
        self.post(FirstStepBegun(generation))

    # ---- the thread

    def _run(self) -> None:
        try:
            while not (self._is_closing and not self._connections):
                self._turn()
        finally:
            # Also after a bug: nobody may wait for this thread for ever.
            self._resolver.close()
            for connection in list(self._connections.values()):
                self._close(connection)
            self._stop_listening()
            self._on_end()

    def _turn(self) -> None:
        timeout = max(0.0, self._next_tick - time.monotonic())
        for key, mask in self._selector.select(timeout):
            if key.data is None:
                self._accept()
            elif key.data is self._wake_in:
                self._wake()
            else:
                self._serve(key.data, mask)
        while self._inbox:
            posted = self._inbox.popleft()
            if callable(posted):
                posted()
            else:
                self._handle(posted)
        now = time.monotonic()
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            self._look_at_files()
            self._drop_the_slow(now)
            self._handle(Tick())

    def _handle(self, event: Event) -> None:
        """Let the member take an event, and do as it says."""
        pending: collections.deque[Event] = collections.deque([event])
        while pending:
            for instruction in self.member.handle(pending.popleft(), time.monotonic()):
                pending.extend(self._carry_out(instruction))

    def _carry_out(self, instruction: Instruction) -> list[Event]:
        """Returns events that follow at once."""
        match instruction:
            case Dial(line, host, port):
                return self._dial(line, host, port)
            case SendMessage(line, number, message):
                return self._send(line, number, message)
            case HangUp(line):
                self._hang_up(line)
            case HoldSteps(switch):
                return [StepsHeld(switch, self.gate.hold())]
            case AllowSteps(last):
                self.gate.allow(last)
            case AbortGeneration(generation):
                self.gate.abort(generation)
                threading.Thread(
                    target=self._on_abort, args=(generation,), name="swell-abort", daemon=True
                ).start()
            case Deliver(answer):
                if isinstance(answer, GroupPlan):
                    self.gate.reset(answer.generation)
                else:
                    self._stop_listening()
                self._on_answer(answer)
        return []

    def _look_at_files(self) -> None:
        if (roster := self._folder.read()) is not None:
            self._handle(RosterRead(roster))
        if not self._is_released and (within_s := read_release(self._release)) is not None:
            self._is_released = True
            self._handle(LeaveAsked(None if within_s == float("inf") else within_s))

    def _wake(self) -> None:
        try:
            received = self._wake_in.recv(4096)
        except BlockingIOError:
            return
        numbers = received.replace(b"\0", b"")
        self._signal.pass_on(numbers)
        if signal.SIGTERM in numbers:
            self._handle(LeaveAsked())

    # ---- sockets

    def _accept(self) -> None:
        for _ in range(_ACCEPTED_AT_ONCE):
            if self._listener is None:
                return
            try:
                sock, _ = self._listener.accept()
            except BlockingIOError:
                return
            except OSError as error:
                # No descriptors are left: the oldest end that has proved nothing goes.
                if error.errno in (errno.EMFILE, errno.ENFILE):
                    self._make_room(0)
                return
            self._make_room(UNKNOWN_MAX - 1)
            self._n_accepted += 1
            self._add(sock, 2 * self._n_accepted - 1, calls=False)

    def _make_room(self, n_kept: int) -> None:
        states = (ConnectionState.UNKNOWN, ConnectionState.HTTP)
        unknown = [c for c in self._connections.values() if c.state in states and c.line % 2]
        for connection in unknown[: max(0, len(unknown) - n_kept)]:
            self._close(connection)

    def _add(self, sock: socket.socket, line: LineId, *, calls: bool) -> LineSocket:
        handshake = Handshake(self._secret, secrets.token_bytes(NONCE_BYTES), calls=calls)
        connection = LineSocket(sock, line, handshake, time.monotonic())
        self._connections[line] = connection
        self._selector.register(sock, selectors.EVENT_READ, connection)
        return connection

    def _dial(self, line: LineId, host: str, port: int) -> list[Event]:
        if is_numeric(host):
            return self._connect(line, host, port)
        self._ports[line] = port
        return [] if self._resolver.ask(line, host) else [LineClosed(line)]

    def _resolved(self, line: LineId, address: str | None, is_unnamed: bool) -> None:
        """Called by the resolver's thread."""
        self.post(lambda: self._take_address(line, address, is_unnamed=is_unnamed))

    def _take_address(self, line: LineId, address: str | None, *, is_unnamed: bool) -> None:
        port = self._ports.pop(line, None)
        if port is None:
            return  # The member has given up on it meanwhile.
        if address is None:
            self._handle(DialUnnamed(line) if is_unnamed else LineClosed(line))
            return
        for event in self._connect(line, address, port):
            self._handle(event)

    def _connect(self, line: LineId, address: str, port: int) -> list[Event]:
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        try:
            sock = socket.socket(family, socket.SOCK_STREAM)
        except OSError:
            return [LineClosed(line)]
        connection = self._add(sock, line, calls=True)
        try:
            connection.connect((address, port))
        except OSError as error:
            self._close(connection)
            return [_failure(line, error)]
        self._watch(connection)
        return []

    def _send(self, line: LineId, number: int, message: Message) -> list[Event]:
        connection = self._connections.get(line)
        if connection is None:
            return []
        try:
            connection.send(Frame(number, message))
        except ConnectionLostError:
            self._close(connection)
            return [LineClosed(line)]
        self._watch(connection)
        return []

    def _hang_up(self, line: LineId) -> None:
        self._ports.pop(line, None)
        connection = self._connections.get(line)
        if connection is None:
            return
        if connection.state is not ConnectionState.OPEN:
            self._close(connection)
            return
        connection.since = time.monotonic()
        try:
            connection.close_softly()
        except ConnectionLostError:
            self._close(connection)
            return
        self._watch(connection)

    def _serve(self, connection: LineSocket, mask: int) -> None:
        """Read and write as far as this goes without waiting."""
        if connection.line not in self._connections:
            return  # It was closed in this turn.
        try:
            if connection.state is ConnectionState.CONNECTING:
                connection.finish_connecting()
            if mask & selectors.EVENT_WRITE:
                connection.flush()
            is_open = connection.read() if mask & selectors.EVENT_READ else True
            self._take_in(connection)
            if not is_open:
                raise ConnectionLostError("closed by the other end")
        except (ConnectionLostError, OSError) as error:
            self._lose(connection, error)
            return
        if connection.line in self._connections:
            self._watch(connection)

    def _take_in(self, connection: LineSocket) -> None:
        if connection.advance():
            self._handle(LineOpened(connection.line))
        if connection.state is ConnectionState.HTTP:
            self._answer(connection)
        while (frame := connection.next_frame()) is not None:
            self._handle(Received(connection.line, frame.number, frame.message))

    def _answer(self, connection: LineSocket) -> None:
        report = self.report if self.member.leads else None
        answer = answer_request(bytes(connection.inbox), self._secret, report, self.member.leader)
        if answer is not None:
            connection.write(answer)
            connection.since = time.monotonic()
            connection.close_softly()

    def _lose(self, connection: LineSocket, error: Exception) -> None:
        was = connection.state
        self._close(connection)
        if was in (ConnectionState.CLOSING, ConnectionState.HTTP):
            return
        if was is ConnectionState.UNKNOWN and connection.line % 2:
            logger.debug("connection dropped before it was known", extra={"why": str(error)})
            return
        refused = was is ConnectionState.CONNECTING and isinstance(error, OSError)
        self._handle(_failure(connection.line, error) if refused else LineClosed(connection.line))

    def _drop_the_slow(self, now: float) -> None:
        limits = {
            ConnectionState.UNKNOWN: UNKNOWN_S,
            ConnectionState.HTTP: UNKNOWN_S,
            ConnectionState.CLOSING: CLOSING_S,
        }
        for connection in list(self._connections.values()):
            limit = limits.get(connection.state)
            if limit is not None and now - connection.since > limit:
                self._lose(connection, ConnectionLostError("too slow"))

    def _watch(self, connection: LineSocket) -> None:
        mask = selectors.EVENT_READ
        if connection.wants_to_write:
            mask |= selectors.EVENT_WRITE
        if self._selector.get_key(connection.sock).events != mask:
            self._selector.modify(connection.sock, mask, connection)

    def _close(self, connection: LineSocket) -> None:
        if self._connections.pop(connection.line, None) is not None:
            self._selector.unregister(connection.sock)
            connection.sock.close()

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._selector.unregister(self._listener)
            self._listener.close()
            self._listener = None

    def _begin_to_close(self) -> None:
        self._handle(Closing())
        self._is_closing = True
        self._stop_listening()
        for connection in list(self._connections.values()):
            self._hang_up(connection.line)


def _failure(line: LineId, error: Exception) -> Event:
    is_refused = isinstance(error, OSError) and error.errno == errno.ECONNREFUSED
    return DialRefused(line) if is_refused else LineClosed(line)
