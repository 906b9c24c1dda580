"""Lets the training thread begin a step, or not. It costs a lock for each step."""

from __future__ import annotations

import threading
from collections.abc import Callable


class StepGate:
    """The steps that may begin, and the last one that has begun."""

    def __init__(self, on_first: Callable[[int], None]) -> None:
        self._on_first = on_first
        self._condition = threading.Condition()
        self._generation = 0
        self._aborted = 0
        self._begun = -1
        self._first = True
        self._is_held = False
        self._last: int | None = None

    def reset(self, generation: int) -> None:
        """Begin a generation: its steps may begin."""
        with self._condition:
            self._generation, self._first = generation, True
            self._is_held, self._last = False, None
            self._condition.notify_all()

    def abort(self, generation: int) -> None:
        with self._condition:
            self._aborted = max(self._aborted, generation)
            self._condition.notify_all()

    def is_aborted(self, generation: int) -> bool:
        return generation <= self._aborted

    def begin(self, step: int) -> bool:
        with self._condition:
            while self._is_held and self._generation > self._aborted:
                self._condition.wait()
            if self._generation <= self._aborted:
                return False
            if self._last is not None and step > self._last:
                return False
            self._begun = step
            is_first, self._first = self._first, False
            generation = self._generation
        if is_first:
            self._on_first(generation)
        return True

    def hold(self) -> int:
        """Let no further step begin; returns the last one that has."""
        with self._condition:
            self._is_held = True
            return self._begun

    def allow(self, last: int) -> None:
        with self._condition:
            self._is_held, self._last = False, last
            self._condition.notify_all()
