"""A coordinator for tests: one server that decides on groups, and the `Group` that asks it.

It stands in for the bus where a test is about the engine: every question goes to one place, so that
the answers are right by construction.
"""

from __future__ import annotations

import contextlib
import json
import socket
import threading
from collections.abc import Callable
from typing import Any

from swell.api.report import TrainingReport
from swell.train.bus.plan import Departure, GroupPlan, Held, Member


class Coordinator:
    """Decides on groups of members that are connected; a closed line is a death."""

    def __init__(self, first: int) -> None:
        self.wanted = set(range(first))
        self.generation = 0
        self.plans: list[GroupPlan] = []
        self.last: list[int] = []  # indexes of the last plan
        self.begun = 0
        self.switch_at: int | None = None
        self.aborted = 0
        self.lines: dict[int, socket.socket] = {}
        self.ready: dict[int, dict[str, Any]] = {}
        self.done: set[int] = set()
        self.lock = threading.RLock()
        self.door = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def address(self) -> tuple[str, int]:
        host, port = self.door.getsockname()
        return host, port

    def resize(self, wanted: set[int]) -> None:
        with self.lock:
            self.wanted = set(wanted)
            self._consider()

    def close(self) -> None:
        self.door.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                line, _ = self.door.accept()
                threading.Thread(target=self._serve, args=(line,), daemon=True).start()

    def _serve(self, line: socket.socket) -> None:
        index = None
        with contextlib.suppress(OSError), line, line.makefile("r") as file:
            for text in file:
                note = json.loads(text)
                with self.lock:
                    index = note["index"]
                    self.lines[index] = line
                    self._heard(index, note, line)
        with self.lock:
            if index is not None and self.lines.get(index) is line:
                del self.lines[index]
                self.ready.pop(index, None)
                if index in self.last and index not in self.done:
                    self._abort()
                self._consider()

    def _heard(self, index: int, note: dict[str, Any], line: socket.socket) -> None:
        match note["do"]:
            case "join":
                self.ready[index] = note
                if index in self.last and self.switch_at is None:
                    self._abort()
            case "begin":
                step = note["step"]
                leave = self.aborted >= self.generation or (
                    self.switch_at is not None and step >= self.switch_at
                )
                if not leave:
                    self.begun = max(step, self.begun)
                _send(line, answer=not leave)
            case "failed":
                if note["generation"] == self.generation:
                    self._abort()
            case "finish":
                self.done.add(index)
                _send(line, answer=True)
        self._consider()

    def _abort(self) -> None:
        if self.aborted < self.generation:
            self.aborted = self.generation
            for index in self.last:
                if index in self.lines:
                    _send(self.lines[index], abort=self.generation)

    def _consider(self) -> None:
        here = [i for i in self.last if i in self.lines and i not in self.done]
        if self.done:
            return
        ready = {i for i in self.ready if i in self.wanted}
        changed = bool((ready - set(self.last)) | (set(here) - self.wanted))
        if self.generation == 0:
            if ready == self.wanted:
                self._make(sorted(ready))
        elif self.aborted < self.generation:
            if changed and self.switch_at is None:
                self.switch_at = self.begun + 1
            if self.switch_at is not None and all(i in self.ready for i in here):
                self._make(sorted(ready))
        elif all(i in self.ready for i in here) and ready:
            self._make(sorted(ready))

    def _make(self, wanted: list[int]) -> None:
        leavers = [i for i in self.ready if i not in self.wanted]
        held = {i: Held(*self.ready[i]["held"]) for i in wanted}
        if not wanted:
            for index in leavers:
                _send(self.lines[index], depart="save")
                del self.ready[index]
            return
        trained = [i for i in wanted if self.ready[i]["trained"]] or wanted
        newest = max(held[i] for i in trained)
        first = next(i for i in trained if held[i] == newest)
        order = [first, *(i for i in wanted if i != first)]
        self.generation += 1
        members = tuple(
            Member(i, 0, 0, "127.0.0.1", self.ready[i]["meeting"], held[i]) for i in order
        )
        cold = not any(self.ready[i]["trained"] for i in wanted)
        behind = tuple(
            r for r, i in enumerate(order) if r and (cold or held[i] != newest or i not in trained)
        )
        plan = GroupPlan(self.generation, 0, members, f"g{self.generation}", 0, behind)
        self.plans.append(plan)
        self.last, self.begun, self.switch_at = order, 0, None
        for index in order:
            _send(self.lines[index], plan=_written(plan))
            del self.ready[index]
        for index in leavers:
            _send(self.lines[index], depart="leave")
            del self.ready[index]


class CoordinatedGroup:
    """The `Group` of one member, which asks the coordinator everything."""

    def __init__(
        self,
        address: tuple[str, int],
        index: int,
        meeting_port: int,
        on_abort: Callable[[int], None],
    ) -> None:
        self.index, self._meeting, self._on_abort = index, meeting_port, on_abort
        self.line = socket.create_connection(address)
        self._news = threading.Condition()
        self._answers: list[dict[str, Any]] = []
        self._aborted = 0
        self.reports: list[TrainingReport] = []
        threading.Thread(target=self._listen, daemon=True).start()

    def join(self, held: Held, *, trained: bool) -> GroupPlan | Departure:
        note = {"held": [held.generation, held.step], "trained": trained}
        answer = self._ask(do="join", meeting=self._meeting, **note)
        return _read(answer["plan"]) if "plan" in answer else Departure(answer["depart"])

    def begin(self, step: int) -> bool:
        return bool(self._ask(do="begin", step=step)["answer"])

    def failed(self, generation: int) -> None:
        _send(self.line, index=self.index, do="failed", generation=generation)

    def is_aborted(self, generation: int) -> bool:
        return self._aborted >= generation

    def finish(self) -> None:
        self._ask(do="finish")

    def publish(self, report: TrainingReport) -> None:
        self.reports.append(report)

    @property
    def is_leaving(self) -> bool:
        return False

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self.line.shutdown(socket.SHUT_RDWR)
        self.line.close()

    def _ask(self, **note: object) -> dict[str, Any]:
        _send(self.line, index=self.index, **note)
        with self._news:
            while not self._answers:
                if not self._news.wait(30.0):
                    raise TimeoutError(f"no answer to {note}")
            return self._answers.pop(0)

    def _listen(self) -> None:
        with contextlib.suppress(OSError, ValueError), self.line.makefile("r") as file:
            for text in file:
                note = json.loads(text)
                if "abort" in note:
                    self._aborted = max(self._aborted, note["abort"])
                    threading.Thread(target=self._on_abort, args=(note["abort"],)).start()
                else:
                    with self._news:
                        self._answers.append(note)
                        self._news.notify()


def _send(line: socket.socket, **note: object) -> None:
    with contextlib.suppress(OSError):
        line.sendall(json.dumps(note).encode() + b"\n")


def _written(plan: GroupPlan) -> dict[str, Any]:
    members = [
        [m.index, m.instance, m.incarnation, m.host, m.meeting, [m.held.generation, m.held.step]]
        for m in plan.members
    ]
    return {
        "generation": plan.generation,
        "members": members,
        "prefix": plan.prefix,
        "behind": plan.behind,
    }


def _read(note: dict[str, Any]) -> GroupPlan:
    members = tuple(
        Member(index, instance, incarnation, host, meeting, Held(*held))
        for index, instance, incarnation, host, meeting, held in note["members"]
    )
    return GroupPlan(note["generation"], 0, members, note["prefix"], 0, tuple(note["behind"]))
