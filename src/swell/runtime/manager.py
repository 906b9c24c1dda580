"""Owns a program's tasks, and decides what happens when one of them fails in a way nobody foresaw.

The only place that catches any exception: `contain` and `contain_call` turn it into a `Bug` value
for those who must go on with other work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from traceback import format_exception
from typing import TypeVar

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Bug:
    """An exception that no code foresaw: an invariant of ours is broken."""

    error: Exception

    @property
    def trace(self) -> str:
        return "".join(format_exception(self.error))


async def contain(work: Awaitable[R]) -> R | Bug:
    """The work's result, or the bug that kept it from having one."""
    try:
        return await work
    except Exception as error:
        return Bug(error)


def contain_call(call: Callable[[], R]) -> R | Bug:
    """The same for a plain call."""
    try:
        return call()
    except Exception as error:
        return Bug(error)
