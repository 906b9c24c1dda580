"""Forming, aborting and forgetting a group of `torch.distributed`, many times in one process.

One store server lives as long as the process; generations are prefixes of its keys. A group that
broke up on GPUs is not destroyed, since that can hang in NCCL's watchdog: torch forgets it, and
another thread aborts what is left of it.
"""

from __future__ import annotations

import atexit
import datetime as dt
import json
import os
import socket
import threading
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
import torch.distributed as dist

from swell.train.backends.torch.gloo_sockets import connections_to, listening_ports, shut_down
from swell.train.bus.plan import GroupPlan
from swell.train.collectives import FORM_S
from swell.train.errors import GroupBrokenError, TrainError
from swell.train.state.tree import Bytes

# The limit of one collective. A death ends one at once; this is for a program that hangs.
COLLECTIVE_S = 1800.0
BURIAL_S = 5.0  # how long the end of a process waits for what is left of its groups
# Parts of messages of errors that mean a broken connection, in torch's releases so far.
SIGNS = (
    "gloo",
    "NCCL",
    "Connection closed by peer",
    "Connection reset by peer",
    "Broken pipe",
    "Socket Timeout",
    "Timed out",
    "timed out",
    "recvValue",
    "ProcessGroup",
    "process group",
)


@dataclass(slots=True)
class Formed:
    """The group of one generation, and the ports by which its sockets are known."""

    generation: int
    rank: int
    size: int
    store: Any = None
    group: Any = None
    before: set[int] = field(default_factory=set)
    ports: set[int] = field(default_factory=set)
    is_settled: bool = False


class TorchCollectives:
    """Collectives of torch's default process group."""

    def __init__(self, *, address: str, backend: str, device: torch.device, alone: bool) -> None:
        self.device, self._backend = device, backend
        self._alone = alone
        self.formed: Formed | None = None
        self._aborted = -1
        self._lock = threading.Lock()
        self._server: Any = None
        self._door: socket.socket | None = None
        if not alone:
            # Its own socket, so that the store listens at the pod's address and nowhere else.
            family = socket.AF_INET6 if ":" in address else socket.AF_INET
            self._door = socket.create_server((address, 0), family=family, backlog=64)
            port = self._door.getsockname()[1]
            self._server = dist.TCPStore(
                address,
                port,
                is_master=True,
                wait_for_workers=False,
                master_listen_fd=self._door.detach(),
            )
        if self.is_cuda:
            # Read by torch when a group is made: errors are ours to see, not the watchdog's.
            os.environ.setdefault("TORCH_NCCL_ASYNC_ERROR_HANDLING", "0")

    @property
    def meeting_port(self) -> int:
        return int(self._server.port) if self._server else 0

    @property
    def is_cuda(self) -> bool:
        return "nccl" in self._backend

    # ---- a generation

    def form(self, plan: GroupPlan, rank: int) -> None:
        if dist.is_initialized():
            raise TrainError(
                "torch.distributed has a group already: Elastic forms it, so the script does not"
                " call init_process_group, and has one Elastic at a time"
            )
        formed = Formed(plan.generation, rank, plan.size, before=listening_ports())
        with self._lock:
            self.formed = formed
        limit = dt.timedelta(seconds=FORM_S)
        if self._alone and plan.size > 1:  # torchrun gives the meeting point by variables
            dist.init_process_group(self._backend)
            return
        if plan.size == 1:
            store: Any = dist.HashStore()
        else:
            store = dist.PrefixStore(plan.prefix, self._reach(plan, formed, limit))
        formed.store = store
        dist.init_process_group(
            self._backend, store=store, rank=rank, world_size=plan.size, timeout=limit
        )
        formed.group = dist.group.WORLD
        self._check(formed)
        self.learn_ports("formed")

    def settle(self) -> None:
        self.learn_ports("settled")
        if self.formed is not None:
            self.formed.is_settled = True
        limit = dt.timedelta(seconds=COLLECTIVE_S)
        if hasattr(dist, "set_timeout"):
            dist.set_timeout(limit)
        else:  # before torch 2.15
            dist.distributed_c10d._set_pg_timeout(limit)  # noqa: SLF001

    def learn_ports(self, when: str) -> None:
        """Exchange the ports at which gloo listens: sub-groups have ports of their own."""
        formed = self.formed
        if formed is None or self.is_cuda or formed.size == 1 or self._alone:
            return
        mine = sorted(listening_ports() - formed.before)
        formed.store.set(f"{when}/{formed.rank}", json.dumps(mine))
        for rank in range(formed.size):
            formed.ports.update(json.loads(formed.store.get(f"{when}/{rank}")))
        self._check(formed)

    def abort(self, generation: int) -> None:
        with self._lock:
            self._aborted = max(self._aborted, generation)
            formed = self.formed
            if formed is None or formed.generation > generation:
                return
        if self.is_cuda and formed.group is not None:
            _abort_nccl(formed.group)  # not the default group: that may be the next one by now
        ports = set(formed.ports)
        if not formed.is_settled and not self.is_cuda:
            ports |= listening_ports() - formed.before  # not exchanged yet
        shut_down(ports)

    def leave(self, *, broken: bool) -> None:
        with self._lock:
            formed, self.formed = self.formed, None
        if not dist.is_initialized():
            return
        if self.is_cuda:
            _forget(broken=broken)
            return
        if formed is not None:
            shut_down(formed.ports)
        dist.destroy_process_group()

    def is_failure(self, error: BaseException) -> bool:
        if isinstance(error, dist.DistError):
            return True
        return isinstance(error, RuntimeError) and any(sign in str(error) for sign in SIGNS)

    # ---- collectives

    def broadcast(self, buffer: Bytes, source: int) -> None:
        if self.formed is None or self.formed.size == 1:
            return
        tensor = torch.from_numpy(buffer)
        there = tensor.to(self.device)
        dist.broadcast(there, src=source)
        if there is not tensor:
            tensor.copy_(there)  # waits for the device
            self._check(self.formed)

    def gather(self, message: bytes) -> list[bytes]:
        if self.formed is None or self.formed.size == 1:
            return [message]
        size = self.formed.size
        lengths = torch.zeros(size, dtype=torch.int64, device=self.device)
        lengths[self.formed.rank] = len(message)
        dist.all_reduce(lengths)
        counts = lengths.tolist()
        mine = np.zeros(max(*counts, 1), np.uint8)
        mine[: len(message)] = np.frombuffer(message, np.uint8)
        parts = [
            torch.empty(mine.nbytes, dtype=torch.uint8, device=self.device) for _ in range(size)
        ]
        dist.all_gather(parts, torch.from_numpy(mine).to(self.device))
        raw = [part.cpu().numpy().tobytes() for part in parts]
        self._check(self.formed)
        return [one[:count] for one, count in zip(raw, counts, strict=True)]

    def exchange(self, *transfers: Any) -> None:
        """Do all transfers at once, since NCCL does one after the other and a ring would wait.

        It returns when the data have arrived: who leaves next takes its connections with it.
        """
        for work in dist.batch_isend_irecv(list(transfers)):
            work.wait()
        if self.is_cuda:
            torch.cuda.current_stream(self.device).synchronize()
        self.check()

    # ---- parts

    def check(self) -> None:
        """Raise if the current group has broken up."""
        if self.formed is not None:
            self._check(self.formed)

    def _check(self, formed: Formed) -> None:
        if self._aborted >= formed.generation:
            raise GroupBrokenError("the group has broken up")

    def _reach(self, plan: GroupPlan, formed: Formed, limit: dt.timedelta) -> Any:
        """A client of the meeting point's store, whose connection an abort can shut down."""
        host, port = plan.meeting
        try:  # the store itself would retry a port that refuses until the limit
            socket.create_connection((host, port), timeout=FORM_S).close()
        except OSError as error:
            raise GroupBrokenError(f"the meeting point does not answer: {error}") from error
        old = connections_to(port)
        store = dist.TCPStore(host, port, is_master=False, wait_for_workers=False, timeout=limit)
        with self._lock:
            formed.ports |= connections_to(port) - old
        self._check(formed)
        return store


def _abort_nccl(group: Any) -> None:
    group._get_backend(torch.device("cuda")).abort()  # noqa: SLF001 (torch has no public way)


def _forget(*, broken: bool) -> None:
    """Forget all groups as `destroy_process_group` does, and wait for none of them."""
    c10d = dist.distributed_c10d
    world = c10d._world  # noqa: SLF001
    groups = list(world.pg_map)
    # Read while there is a default group: some versions compute one of these from it.
    names = [name for name in dir(world) if name.startswith(("pg_", "tags_"))]
    tables = [getattr(world, name) for name in names]
    if broken:
        _abort_nccl(dist.group.WORLD)  # frees the device's streams before the next group
    for group in groups:
        c10d._unregister_process_group(group.group_name)  # noqa: SLF001
    c10d._update_default_pg(None)  # noqa: SLF001
    for table in tables:
        if isinstance(table, dict):
            table.clear()
    world.group_count = 0
    burial = threading.Thread(target=_bury, args=(groups,), name="swell-bury", daemon=True)
    _burials[:] = [*(one for one in _burials if one.is_alive()), burial]
    burial.start()


_burials: list[threading.Thread] = []


def _wait_for_burials() -> None:
    """Let them end first: a process that ends inside NCCL's abort is ended with SIGABRT."""
    for burial in _burials:
        burial.join(BURIAL_S)


atexit.register(_wait_for_burials)


def _bury(groups: list[Any]) -> None:
    while groups:
        group = groups.pop()
        try:
            _abort_nccl(group)
        except (RuntimeError, AttributeError):  # aborted before, or a sub-group without one
            continue
