"""The group as the training thread sees it, over the bus thread."""

from __future__ import annotations

import errno
import secrets
import socket
import threading
import time
from collections.abc import Callable

import msgspec

from swell.api.report import REPORT_BYTES_MAX, TrainingReport
from swell.train.bus.events import JoinAsked, LastStepDone, StepFailed, TrainingDone
from swell.train.bus.member import BusMember
from swell.train.bus.messages import MemberStatus, Roster
from swell.train.bus.plan import Departure, GroupPlan, Held
from swell.train.bus.shell.folder import MembersFolder
from swell.train.bus.shell.loop import BusThread
from swell.train.bus.shell.sending import ReportSender
from swell.train.place import Place

# A predecessor at this address may not be quite gone.
_BIND_S = 15.0
# The folder is mounted before the program starts, but the node agent writes it meanwhile.
_FOLDER_S = 15.0
# Pods of a workload are named there once the operator has seen them, and a kubelet may take more
# than a minute to renew a mounted ConfigMap.
_NAMED_S = 180.0
_INCARNATION_BITS = 53
_CLOSE_S = 2.0
# How often one that has trained all looks whether its group has broken up.
_LOOK_S = 0.02


class BusStoppedError(RuntimeError):
    """The bus cannot begin, or has ended by a bug. The message says why."""


class BusGroup:
    """Implements `swell.train.group.Group`."""

    def __init__(
        self, place: Place, minimum: int, meeting_port: int, on_abort: Callable[[int], None]
    ) -> None:
        folder = MembersFolder(place.members, place.role)
        roster = _first_roster(folder, place)
        # A folder that does not name this pod is older than it.
        instance = roster.instance_of(place.index) if place.uid else place.instance
        host = place.address or _own_row(roster, place.index)
        listener = _listen(host, place.bus_port)
        status = MemberStatus(
            index=place.index,
            instance=instance,
            incarnation=secrets.randbits(_INCARNATION_BITS) | 1,
            host=host,
            bus=place.bus_port,
            meeting=meeting_port,
        )
        member = BusMember(status, roster, minimum=minimum, now=time.monotonic())
        self._condition = threading.Condition()
        self._answers: list[GroupPlan | Departure] = []
        self._has_ended = False
        self._thread = BusThread(
            member,
            listener,
            secret=place.secret,
            folder=folder,
            release=place.release,
            on_answer=self._take_answer,
            on_abort=on_abort,
            on_end=self._end,
        )
        self._thread.start()
        self._sender: ReportSender | None = None
        if place.report_url and place.report_token is not None:
            self._sender = ReportSender(place.report_url, place.report_token)

    def join(self, held: Held, *, trained: bool) -> GroupPlan | Departure:
        with self._condition:
            self._answers.clear()
        self._thread.post(JoinAsked(held, trained))
        with self._condition:
            while not self._answers and not self._has_ended:
                self._condition.wait()
            if self._answers:
                return self._answers.pop(0)
        raise BusStoppedError("the bus has ended, and no group can be joined any more")

    def begin(self, step: int) -> bool:
        return self._thread.gate.begin(step)

    def failed(self, generation: int) -> None:
        # At once for this thread: the bus thread may be a moment behind.
        self._thread.gate.abort(generation)
        self._thread.post(StepFailed(generation))

    def is_aborted(self, generation: int) -> bool:
        return self._thread.gate.is_aborted(generation)

    def conclude(self, generation: int) -> bool:
        with self._condition:
            self._answers.clear()
        self._thread.post(LastStepDone(generation))
        with self._condition:
            while not self._answers and not self._has_ended:
                if self._thread.gate.is_aborted(generation):
                    return False
                self._condition.wait(_LOOK_S)
        return True

    def finish(self) -> None:
        self._thread.post(TrainingDone())
        self.close()

    def publish(self, report: TrainingReport) -> None:
        raw = msgspec.json.encode(report)
        if len(raw) > REPORT_BYTES_MAX:
            # Rates by size are the only part without a bound of its own.
            raw = msgspec.json.encode(msgspec.structs.replace(report, rates={}))
        self._thread.report = raw
        if self._sender is not None:
            self._sender.offer(raw)

    @property
    def is_leaving(self) -> bool:
        return self._thread.member.is_leaving

    def close(self) -> None:
        self._thread.stop(_CLOSE_S)
        if self._sender is not None:
            self._sender.close()

    def _take_answer(self, answer: GroupPlan | Departure) -> None:
        with self._condition:
            self._answers.append(answer)
            self._condition.notify_all()

    def _end(self) -> None:
        with self._condition:
            self._has_ended = True
            self._condition.notify_all()
        # Whoever is held at a step goes on, and finds the group broken up.
        self._thread.gate.abort(self._thread.member.know.generation)


def open_group(
    place: Place, *, minimum: int, meeting_port: int, on_abort: Callable[[int], None]
) -> BusGroup:
    """Listen for the other members, and look for them. Raises BusStoppedError with a reason.

    Called in the main thread, it sees SIGTERM from then on; in another one, only the release file.
    """
    return BusGroup(place, minimum, meeting_port, on_abort)


def _first_roster(folder: MembersFolder, place: Place) -> Roster:
    roster: Roster | None = None
    deadline = time.monotonic() + (_NAMED_S if place.uid else _FOLDER_S)
    while True:
        roster = folder.read() or roster
        if roster is not None and (not place.uid or folder.names(place.index, place.uid)):
            return roster
        if time.monotonic() > deadline and roster is not None:
            raise BusStoppedError(
                f"the members folder {place.members} does not name this pod ({place.uid}) as the "
                f"newest with index {place.index} after {_NAMED_S:g} s"
            )
        if time.monotonic() > deadline:
            raise BusStoppedError(
                f"the members folder {place.members} has no readable epoch and hosts of role "
                f"{place.role!r} after {_FOLDER_S:g} s"
            )
        time.sleep(0.05)


def _own_row(roster: Roster, index: int) -> str:
    if not roster.lists(index):
        raise BusStoppedError(
            f"this process has index {index} and no address of its own, and the members folder "
            f"lists {len(roster.hosts)} hosts"
        )
    return roster.hosts[index]


def _listen(host: str, port: int) -> socket.socket:
    deadline = time.monotonic() + _BIND_S
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    while True:
        try:
            return socket.create_server((host, port), family=family, backlog=128)
        except OSError as error:
            if error.errno != errno.EADDRINUSE or time.monotonic() > deadline:
                raise BusStoppedError(
                    f"the bus cannot listen at {host} port {port}: {error.strerror}"
                ) from error
        time.sleep(0.1)
