"""A meeting point for members that only count: a barrier over sockets, in place of collectives."""

from __future__ import annotations

import json
import socket
import threading

from swell.train.bus.plan import GroupPlan

FORM_S = 10.0


class MeetingBrokenError(Exception):
    """A member is missing, or the group has broken up."""


class Meeting:
    """One member's side: the source of a plan is the server of its generation."""

    def __init__(self, host: str) -> None:
        self._door = socket.create_server((host, 0), backlog=64)
        self.port = self._door.getsockname()[1]
        self._sockets: dict[int, socket.socket] = {}
        self._files: dict[int, object] = {}
        self._aborted = 0
        self._generation = 0
        self._lock = threading.Lock()

    def close(self) -> None:
        self._door.close()

    def take_state(self, plan: GroupPlan, rank: int, step: int) -> int:
        """Meet the others, and learn the step of the newest state."""
        with self._lock:
            self._generation = plan.generation
            if plan.generation <= self._aborted:
                raise MeetingBrokenError
        try:
            if rank == plan.source:
                self._admit(plan)
                self._broadcast({"step": step})
                return step
            sock = socket.create_connection(plan.meeting, timeout=FORM_S)
            self._keep(plan.source, sock)
            self._send(plan.source, {"generation": plan.generation, "rank": rank})
            return int(self._receive(plan.source)["step"])
        except (OSError, ValueError, KeyError) as error:
            raise MeetingBrokenError from error

    def wait_for_all(self, plan: GroupPlan, rank: int, step: int) -> None:
        try:
            if rank == plan.source:
                if any(self._receive(r)["step"] != step for r in list(self._sockets)):
                    raise MeetingBrokenError
                self._broadcast({"step": step})
                return
            self._send(plan.source, {"step": step})
            if self._receive(plan.source)["step"] != step:
                raise MeetingBrokenError
        except (OSError, ValueError, KeyError) as error:
            raise MeetingBrokenError from error

    def abort(self, generation: int) -> None:
        """Called by another thread: whoever waits here ends."""
        with self._lock:
            self._aborted = max(self._aborted, generation)
            if self._generation <= self._aborted:
                for sock in list(self._sockets.values()):
                    _shut(sock)

    def leave(self) -> None:
        with self._lock:
            for sock in self._sockets.values():
                _shut(sock)
                sock.close()
            self._sockets.clear()
            self._files.clear()

    def _admit(self, plan: GroupPlan) -> None:
        self._door.settimeout(0.2)
        waited = 0.0
        while len(self._sockets) < plan.size - 1:
            try:
                sock, _ = self._door.accept()
            except TimeoutError as error:
                waited += 0.2
                if plan.generation <= self._aborted or waited > FORM_S:
                    raise MeetingBrokenError from error
                continue
            sock.settimeout(FORM_S)
            hello = json.loads(sock.makefile().readline() or "{}")
            if hello.get("generation") == plan.generation:
                self._keep(int(hello["rank"]), sock)

    def _keep(self, rank: int, sock: socket.socket) -> None:
        sock.settimeout(300.0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with self._lock:
            self._sockets[rank] = sock
            self._files[rank] = sock.makefile()
            if self._generation <= self._aborted:
                _shut(sock)

    def _send(self, rank: int, message: dict[str, int]) -> None:
        self._sockets[rank].sendall(json.dumps(message).encode() + b"\n")

    def _broadcast(self, message: dict[str, int]) -> None:
        for rank in list(self._sockets):
            self._send(rank, message)

    def _receive(self, rank: int) -> dict[str, int]:
        found = json.loads(self._files[rank].readline() or "null")  # type: ignore[attr-defined]
        if not isinstance(found, dict):
            raise MeetingBrokenError
        return found


def _shut(sock: socket.socket) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        return
