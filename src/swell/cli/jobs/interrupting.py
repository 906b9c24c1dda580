"""Ctrl-C while a job is followed: noted at once, and acted on where no line of output is lost.

On a terminal one question is asked; elsewhere the command detaches, and the job goes on.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from types import FrameType, TracebackType

QUESTION = "Ctrl-C: d detach, s stop the job, c continue? "
_END_OF_INPUT = b"\x04"  # Ctrl-D, where the terminal hands out single keys


class InterruptAnswer(StrEnum):
    """The answers to the question; the values are the keys."""

    DETACH = "d"
    STOP = "s"
    CONTINUE = "c"


class FollowingInterruptedError(Exception):
    """Ctrl-C was pressed while a job was followed."""


class InterruptNote:
    """Notes Ctrl-C instead of letting it break off whatever is being done; a second one does."""

    def __init__(self) -> None:
        self._is_pending = False
        self._before: object = None

    def __enter__(self) -> InterruptNote:
        self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        signal.signal(signal.SIGINT, self._before)  # type: ignore[arg-type]

    def raise_if_noted(self) -> None:
        """Raise FollowingInterruptedError once for every Ctrl-C."""
        if self._is_pending:
            self._is_pending = False
            raise FollowingInterruptedError

    def _note(self, _: int, __: FrameType | None) -> None:
        # A command that waits for a silent server would not look: the second Ctrl-C ends that.
        if self._is_pending:
            raise KeyboardInterrupt
        self._is_pending = True


def ask_after_interrupt() -> InterruptAnswer:
    """Ask what Ctrl-C was meant for. Without a terminal, and without an answer, detach."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return InterruptAnswer.DETACH
    keys = {answer.value: answer for answer in InterruptAnswer}
    while True:
        key = _asked_key()
        sys.stderr.write(f"{key}\n")
        if not key:
            return InterruptAnswer.DETACH
        if key in keys:
            return keys[key]


def _asked_key() -> str:
    """Ask, and return the key in lower case; empty for another Ctrl-C, Return, or no more input."""
    number = sys.stdin.fileno()
    # The mode comes before the question: a key that is pressed at once is not lost, nor shown.
    with _single_keys(number):
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            sys.stderr.write(f"\n{QUESTION}")
            sys.stderr.flush()
            pressed = os.read(number, 1)
        except KeyboardInterrupt:
            return ""
        finally:
            signal.signal(signal.SIGINT, before)
    return "" if pressed == _END_OF_INPUT else pressed.decode(errors="replace").strip().lower()


@contextmanager
def _single_keys(number: int) -> Iterator[None]:
    """Let the terminal hand out keys without waiting for Return; a Return after one is dropped."""
    before = termios.tcgetattr(number)
    tty.setcbreak(number, termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(number, termios.TCSADRAIN, before)
