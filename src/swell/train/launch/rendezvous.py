"""The rendezvous backend `swell` of torchrun: `torchrun --rdzv-backend=swell`.

torchrun's agents meet as the members of the job's group do, instead of in a store that one of them
keeps. A death is seen at once, and no bootstrap data of an earlier round is ever met again: every
generation has a prefix of its own. torch finds the backend by an entry point of this package.
"""

from __future__ import annotations

import os
import socket
import sys
import time
from datetime import timedelta
from typing import TYPE_CHECKING

from swell.train.bus.plan import Departure, GroupPlan, Held
from swell.train.launch.round_store import RoundOverError, RoundStore
from swell.train.place import Place, place_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.distributed import PrefixStore, TCPStore
    from torch.distributed.elastic.rendezvous.api import (
        RendezvousHandlerCreator,
        RendezvousInfo,
        RendezvousParameters,
    )

    from swell.train.group import Group

BACKEND = "swell"
# torchrun asks ten times a second whether the group changes. Steps are slices of the time since
# the plan came, as the launcher's are, so that all members count alike.
_SLICE_S = 0.02
# Members that do not come to the meeting point within this are lost.
_MEET_WITHIN = timedelta(seconds=10)
_CONNECT_WITHIN = timedelta(seconds=1)
# The store's timeout of torch itself, for all that follows.
_STORE_WITHIN = timedelta(seconds=300)
_SIGTERM_EXIT = 143


def handler() -> RendezvousHandlerCreator:
    """Return the function that makes a handler: the shape that torch's entry point asks for."""
    return make_handler


def make_handler(params: RendezvousParameters) -> SwellRendezvous:
    """Open the group of this process' place for one of torchrun's agents."""
    from swell.train.bus import open_group

    place = place_of(os.environ)
    if place is None:
        raise ValueError(
            "the rendezvous backend 'swell' works in jobs of Swell, and this process is no member "
            "of one: use --standalone or another --rdzv-backend"
        )
    door = _listen(place.address)
    store = _own_store(door)
    group = open_group(
        place,
        minimum=params.min_nodes,
        meeting_port=door.getsockname()[1],
        on_abort=lambda _: None,  # torchrun asks
    )
    return SwellRendezvous(params.run_id, place, group, store)


def _listen(address: str) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    return socket.create_server((address, 0), family=family, backlog=128)


def _own_store(door: socket.socket) -> TCPStore:
    """A store that lives as long as this agent, at an address of its own."""
    from torch.distributed import TCPStore

    host, port = door.getsockname()[:2]
    return TCPStore(
        host_name=host if host != "0.0.0.0" else "127.0.0.1",  # noqa: S104 (compared, not bound)
        port=port,
        is_master=True,
        wait_for_workers=False,
        master_listen_fd=os.dup(door.fileno()),
    )


def _connected(meeting: tuple[str, int], is_over: Callable[[], bool]) -> TCPStore:
    """The store of another agent; RoundOverError if that dies before.

    torch's own connecting goes on for twice its timeout where nobody listens. So it gets a short
    one, and begins when somebody does listen.
    """
    from torch.distributed import DistError, TCPStore

    host, port = meeting
    give_up = time.monotonic() + _MEET_WITHIN.total_seconds()
    while time.monotonic() < give_up and not is_over():
        try:
            socket.create_connection(meeting, timeout=_CONNECT_WITHIN.total_seconds()).close()
            return TCPStore(
                host, port, is_master=False, wait_for_workers=False, timeout=_CONNECT_WITHIN
            )
        except (OSError, DistError):
            time.sleep(_SLICE_S)
    raise RoundOverError(f"nobody keeps the round's store at {host}:{port}")


class SwellRendezvous:
    """A rendezvous of torchrun's agents that follows the members of the job.

    It has the methods of torch's `RendezvousHandler`, and is none: that would need torch.
    """

    def __init__(self, run_id: str, place: Place, group: Group, store: TCPStore) -> None:
        self._run_id, self._place, self._group, self._store = run_id, place, group, store
        self._generation = 0
        self._planned_at = 0.0
        # The group has agreed on a change: that workers are stopped is no failure.
        self._is_change = False

    def get_backend(self) -> str:
        return BACKEND

    def get_run_id(self) -> str:
        return self._run_id

    @property
    def use_agent_store(self) -> bool:
        """False: a store for workers is the first worker's own, and new with every generation."""
        return False

    def is_closed(self) -> bool:
        return False

    def set_closed(self) -> None:
        """Do nothing: a job ends when all its members have."""

    def num_nodes_waiting(self) -> int:
        """Return 1 if the group changes or has broken up: torchrun stops its workers then."""
        step = 1 + int((time.monotonic() - self._planned_at) / _SLICE_S)
        if self._group.is_aborted(self._generation):
            return 1
        if not self._group.begin(step):
            self._is_change = True
            return 1
        return 0

    def next_rendezvous(self) -> RendezvousInfo:
        """Wait for the next plan, and meet its members. A member that leaves exits."""
        if self._generation and not self._is_change:
            # Workers failed here, or the generation has broken up: to say so twice does no harm.
            self._group.failed(self._generation)
        while True:
            held = Held(self._generation, 0)
            answer = self._group.join(held, trained=self._generation > 0)
            if isinstance(answer, Departure):
                self._group.close()
                sys.exit(0 if answer is Departure.FINISHED else _SIGTERM_EXIT)
            met = self._meet(answer)
            if met is not None:
                self._generation, self._is_change = answer.generation, False
                self._planned_at = time.monotonic()
                return met
            self._group.failed(answer.generation)

    def _meet(self, plan: GroupPlan) -> RendezvousInfo | None:
        """Meet at the plan's store; None if the members do not all come."""
        from torch.distributed import DistError
        from torch.distributed.elastic.rendezvous.api import RendezvousInfo, RendezvousStoreInfo

        rank, generation = plan.rank_of(self._place.index), plan.generation

        def is_over() -> bool:
            return self._group.is_aborted(generation)

        try:
            store = RoundStore(
                self._store_of(plan, rank, is_over),
                plan.size,
                is_over=is_over,
                end=lambda: self._group.failed(generation),
            )
            store.set_timeout(_MEET_WITHIN)
            first = RendezvousStoreInfo.build(rank, store, plan.members[0].host)
        except (DistError, RoundOverError):
            return None
        store.set_timeout(_STORE_WITHIN)
        return RendezvousInfo(store, rank, plan.size, first)

    def _store_of(self, plan: GroupPlan, rank: int, is_over: Callable[[], bool]) -> PrefixStore:
        from torch.distributed import PrefixStore

        store = self._store if plan.source == rank else _connected(plan.meeting, is_over)
        return PrefixStore(plan.prefix, store)

    def shutdown(self) -> bool:
        """Leave the group. Only without an error on its way all has been trained."""
        if sys.exc_info()[0] is None:
            self._group.finish()
        self._group.close()
        return True
