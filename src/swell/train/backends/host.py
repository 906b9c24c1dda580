"""Collectives over TCP, through the meeting point of a plan: no framework is needed.

The source of a plan is the hub: the others hold one line each to it. Sums are made there in the
order of ranks, so that every member gets the same bits.
"""

from __future__ import annotations

import contextlib
import errno
import json
import socket
import threading
import time
from typing import Any

import numpy as np

from swell.train.backends.wire import (
    greet,
    receive_frame,
    receive_frame_into,
    send_frame,
    welcome,
)
from swell.train.bus.plan import GroupPlan
from swell.train.collectives import FORM_S
from swell.train.errors import GroupBrokenError, TrainError
from swell.train.state.tree import Bytes

MESSAGE_BYTES_MAX = 1 << 20
# The handshake of one line; a stranger that says nothing holds up nobody else. Of more of them than
# this the oldest goes: a member proves itself within milliseconds.
GREET_S, GREETED_MAX = 5.0, 128
BACKLOG = 64
# Strangers can use up descriptors and threads; the meeting point has to outlive that.
EXHAUSTED_S = 0.1
_PASSING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED})
# Lines of members that have come before the hub has asked for them.
WAITING_MAX = 4096


class HostCollectives:
    """One meeting point for the life of the process, and the lines of one generation."""

    def __init__(self, address: str, secret: bytes) -> None:
        self._secret = secret
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        self._door = socket.create_server((address, 0), family=family, backlog=BACKLOG)
        self._greeting: dict[socket.socket, None] = {}  # the oldest first
        self._arrived = threading.Condition()
        self._waiting: dict[tuple[str, int], socket.socket] = {}
        self._aborted = -1
        self._generation = 0
        self._rank, self._size, self._hub = 0, 1, 0
        self._lines: dict[int, socket.socket] = {}
        threading.Thread(target=self._accept, name="swell-meeting", daemon=True).start()

    @property
    def meeting_port(self) -> int:
        return int(self._door.getsockname()[1])

    # ---- a generation

    def form(self, plan: GroupPlan, rank: int) -> None:
        self._generation, self._rank, self._size = plan.generation, rank, plan.size
        self._hub = plan.source
        if plan.size == 1:
            return
        if not plan.meeting[0]:
            raise TrainError(
                f"this is one of {plan.size} processes of torchrun, and a model without torch meets"
                " the others as a member of a job only: start it by `swell run --reporting`"
            )
        deadline = time.monotonic() + FORM_S
        if rank == plan.source:
            for other in range(plan.size):
                if other != rank:
                    self._keep(other, self._arrival(plan.prefix, other, deadline))
        else:
            self._keep(plan.source, self._call(plan, rank, deadline))

    def settle(self) -> None:
        """Do nothing: lines have no limit of their own; the bus ends those of a broken group."""

    def abort(self, generation: int) -> None:
        with self._arrived:
            self._aborted = max(self._aborted, generation)
            if generation >= self._generation:
                for line in self._lines.values():
                    _shut(line)
            self._arrived.notify_all()

    def leave(self, *, broken: bool) -> None:  # noqa: ARG002
        with self._arrived:
            for line in self._lines.values():
                _shut(line)
                line.close()
            self._lines.clear()

    def is_failure(self, error: BaseException) -> bool:
        return isinstance(error, GroupBrokenError | OSError)

    # ---- collectives

    def broadcast(self, buffer: Bytes, source: int) -> None:
        if self._size == 1:
            return
        if self._rank == self._hub:
            if source != self._hub:
                receive_frame_into(self._lines[source], buffer)
            for rank, line in self._lines.items():
                if rank != source:
                    send_frame(line, buffer)
        elif self._rank == source:
            send_frame(self._lines[self._hub], buffer)
        else:
            receive_frame_into(self._lines[self._hub], buffer)

    def gather(self, message: bytes) -> list[bytes]:
        if self._size == 1:
            return [message]
        if self._rank != self._hub:
            send_frame(self._lines[self._hub], message)
            whole = receive_frame(self._lines[self._hub], MESSAGE_BYTES_MAX * self._size)
            return [bytes.fromhex(one) for one in json.loads(whole)]
        messages = [
            message if rank == self._rank else receive_frame(self._lines[rank], MESSAGE_BYTES_MAX)
            for rank in range(self._size)
        ]
        whole = json.dumps([one.hex() for one in messages]).encode()
        for line in self._lines.values():
            send_frame(line, whole)
        return messages

    def sum(self, array: np.ndarray[Any, Any]) -> None:
        """Replace the array by the sum over all members."""
        if self._size == 1:
            return
        raw = array.reshape(-1).view(np.uint8)
        if self._rank != self._hub:
            send_frame(self._lines[self._hub], raw)
            receive_frame_into(self._lines[self._hub], raw)
            return
        total = np.zeros_like(array)
        part = np.empty_like(array)
        for rank in range(self._size):
            if rank == self._rank:
                total += array
            else:
                receive_frame_into(self._lines[rank], part.reshape(-1).view(np.uint8))
                total += part
        array[...] = total
        for line in self._lines.values():
            send_frame(line, raw)

    # ---- lines

    def _keep(self, rank: int, line: socket.socket) -> None:
        line.settimeout(None)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._arrived:
            self._lines[rank] = line
            self._check()

    def _check(self) -> None:
        if self._aborted >= self._generation:
            raise GroupBrokenError("the group broke up while it was formed")

    def _arrival(self, prefix: str, rank: int, deadline: float) -> socket.socket:
        with self._arrived:
            while (prefix, rank) not in self._waiting:
                self._check()
                left = deadline - time.monotonic()
                if left <= 0:
                    raise GroupBrokenError(f"rank {rank} did not come to the meeting point")
                self._arrived.wait(left)
            return self._waiting.pop((prefix, rank))

    def _call(self, plan: GroupPlan, rank: int, deadline: float) -> socket.socket:
        timeout = max(0.1, deadline - time.monotonic())
        try:
            line = socket.create_connection(plan.meeting, timeout=timeout)
        except OSError as error:
            raise GroupBrokenError(f"the meeting point does not answer: {error}") from error
        try:
            with self._arrived:  # an abort ends the handshake, too
                self._lines[plan.source] = line
                self._check()
            greet(line, self._secret, json.dumps([plan.prefix, rank]).encode())
        except (GroupBrokenError, OSError):
            line.close()
            raise
        return line

    def _accept(self) -> None:
        while True:
            try:
                line, _ = self._door.accept()
            except OSError as error:
                if error.errno not in _PASSING:
                    return  # the process ends
                self._make_room(0)
                time.sleep(EXHAUSTED_S)
                continue
            with self._arrived:
                self._greeting[line] = None
            self._make_room(GREETED_MAX)
            try:
                threading.Thread(target=self._greeted, args=(line,), daemon=True).start()
            except RuntimeError:  # no thread is left for it
                with self._arrived:
                    self._greeting.pop(line, None)
                line.close()
                self._make_room(0)

    def _make_room(self, n_kept: int) -> None:
        """End the oldest lines that have proved nothing; their threads close them."""
        with self._arrived:
            for oldest in list(self._greeting)[: max(0, len(self._greeting) - n_kept)]:
                _shut(oldest)

    def _greeted(self, line: socket.socket) -> None:
        line.settimeout(GREET_S)
        try:
            hello = welcome(line, self._secret)
            prefix, rank = json.loads(hello) if hello else (None, None)
        except (GroupBrokenError, OSError, ValueError):
            hello = None
        with self._arrived:
            self._greeting.pop(line, None)
        if not hello or not isinstance(prefix, str) or not isinstance(rank, int):
            line.close()
            return
        with self._arrived:
            self._waiting[prefix, rank] = line
            # Lines of generations that were never formed are not kept for ever.
            for old in list(self._waiting)[:-WAITING_MAX]:
                self._waiting.pop(old).close()
            self._arrived.notify_all()

    def close(self) -> None:
        self._door.close()


def _shut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed already, at this end or the other
        line.shutdown(socket.SHUT_RDWR)
