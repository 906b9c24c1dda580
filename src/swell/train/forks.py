"""Children that the program forks, such as workers that load data: they share nothing of the group.

A forked child has a copy of every descriptor and handler. With a copy of a line open in a child,
the others would not see that this process has died. A SIGTERM to the child would be taken for a
word to leave, and not end it; worse, it would be written to the wakeup descriptor, and look like
one to this process.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class ForkedPart(Protocol):
    """A part of this process that its forked children must not share."""

    def forget_in_child(self) -> None:
        """Close the child's copies, and touch nothing that is shared. Called in the child."""
        ...


_parts: weakref.WeakSet[ForkedPart] = weakref.WeakSet()


def keep_from_children(part: ForkedPart) -> None:
    """Have a part forgotten in every child that is forked while the part lives."""
    _parts.add(part)


def _forget_all() -> None:
    for part in list(_parts):
        part.forget_in_child()


os.register_at_fork(after_in_child=_forget_all)
