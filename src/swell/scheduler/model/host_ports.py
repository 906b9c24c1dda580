"""Which ports of which nodes are taken, by the places of nodes as `nodes` numbers them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from swell.scheduler.model.resources import Mask
from swell.scheduler.model.tasks import TAKES_LATER, TAKES_NOW, HostPort, Task


class HostPorts:
    """The tasks that have a port on the network of their node."""

    def __init__(self) -> None:
        # By protocol and number: the place, the address and the task.
        self._users: dict[tuple[str, int], list[tuple[int, str, Task]]] = {}

    def __len__(self) -> int:
        return len(self._users)

    def take(self, task: Task, place: int) -> None:
        for port in task.shape.ports:
            self._users.setdefault((port.protocol, port.port), []).append((place, port.ip, task))

    def give_back(self, task: Task, place: int) -> None:
        for port in task.shape.ports:
            users = self._users[port.protocol, port.port]
            users.remove((place, port.ip, task))
            if not users:
                del self._users[port.protocol, port.port]

    def free(self, port: HostPort, private: Mask, *, at_once: bool) -> Mask:
        """Returns the nodes where the port is free: now, or once all that is leaving has left.

        On nodes with private ports (a network per pod) it always is.
        """
        free = np.ones(len(private), dtype=np.bool_)
        takes = TAKES_NOW if at_once else TAKES_LATER
        for place, ip, task in self._users.get((port.protocol, port.port), ()):
            # A pipelined task takes its ports later only, but they are reserved from now on.
            if port.clashes(ip) and (takes[task.status] or TAKES_LATER[task.status]):
                free[place] = private[place]
        return free

    def renumber(self, moved: Mapping[int, int]) -> None:
        """Follows nodes that have moved to other places."""
        for port, users in self._users.items():
            self._users[port] = [(moved[old], ip, task) for old, ip, task in users]
