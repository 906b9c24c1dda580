"""A relay in front of a member's bus port, which can drop what goes in one direction."""

from __future__ import annotations

import selectors
import socket
import threading


class Relay:
    """Passes bytes on between whoever connects and one address."""

    def __init__(self, host: str, port: int, target: tuple[str, int]) -> None:
        self._target = target
        self._door = socket.create_server((host, port))
        self.drops_in = False  # what the callers send
        self.drops_out = False  # what the member sends
        self._is_open = True
        self._sockets: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while self._is_open:
            try:
                caller, _ = self._door.accept()
            except OSError:
                return
            try:
                member = socket.create_connection(self._target, timeout=1.0)
            except OSError:
                caller.close()
                continue
            self._sockets += [caller, member]
            threading.Thread(target=self._pass_on, args=(caller, member), daemon=True).start()

    def _pass_on(self, caller: socket.socket, member: socket.socket) -> None:
        selector = selectors.DefaultSelector()
        selector.register(caller, selectors.EVENT_READ, (member, True))
        selector.register(member, selectors.EVENT_READ, (caller, False))
        try:
            while self._is_open:
                for key, _ in selector.select(0.2):
                    to, is_in = key.data
                    assert isinstance(key.fileobj, socket.socket)
                    data = key.fileobj.recv(65536)
                    if not data:
                        return
                    if not (self.drops_in if is_in else self.drops_out):
                        to.sendall(data)
        except OSError:
            return
        finally:
            selector.close()
            caller.close()
            member.close()

    def close(self) -> None:
        self._is_open = False
        self._door.shutdown(socket.SHUT_RDWR)  # Whoever waits for a caller ends.
        self._door.close()
        for sock in self._sockets:
            sock.close()
