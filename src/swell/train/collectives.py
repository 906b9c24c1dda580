"""The engine's view of a framework: its collectives, and the model that is trained."""

from __future__ import annotations

from typing import Any, Protocol

from swell.train.bus.plan import GroupPlan
from swell.train.state.tree import Bytes, PackedState

# Somebody may die while a group is formed, and the others would wait for it: this long at most.
FORM_S = 10.0


class Collectives(Protocol):
    """A way to exchange bytes within one generation of the group.

    All methods but `abort` are called by the training thread. They raise GroupBrokenError, or an
    error that `is_failure` recognises, when the group has broken up.
    """

    @property
    def meeting_port(self) -> int:
        """The port of this process at which a group can meet, the same for its whole life."""
        ...

    def form(self, plan: GroupPlan, rank: int) -> None:
        """Connect the members of a plan, within `FORM_S`."""
        ...

    def settle(self) -> None:
        """All is formed and sent: the limits of ordinary collectives hold from here on."""
        ...

    def abort(self, generation: int) -> None:
        """End every collective of this generation. Called on another thread, and returns soon."""
        ...

    def leave(self, *, broken: bool) -> None:
        """Forget the group, whether it is whole or broken."""
        ...

    def is_failure(self, error: BaseException) -> bool:
        """Whether an error means that the group broke up, and not that the program is wrong."""
        ...

    def broadcast(self, buffer: Bytes, source: int) -> None:
        """Fill everybody's buffer with that of one rank."""
        ...

    def gather(self, message: bytes) -> list[bytes]:
        """The messages of all, by rank."""
        ...


class Learner(Protocol):
    """A model and its optimizer: state that follows the group, and takes part in steps."""

    @property
    def is_sharded(self) -> bool:
        """Whether every member holds a part of the state, and saves it."""
        ...

    @property
    def has_updated(self) -> bool:
        """Whether the update of the current step has been applied."""
        ...

    def synchronise(self, plan: GroupPlan, rank: int) -> int:
        """Bring the state of this member to that of the plan's source; bytes that were sent."""
        ...

    def attach(self, rank: int, size: int) -> None:
        """Make the model ready to train in the group that has been formed."""
        ...

    def detach(self, *, broken: bool, leaving: bool) -> None:
        """Free the model of a group that is about to be left."""
        ...

    def before_step(self, n_mine: int, weight: float) -> None:
        """Remember what a broken step would spoil.

        `n_mine` samples of the batch are this member's; `weight` is their part of all.
        """
        ...

    def undo_step(self) -> None: ...

    def after_step(self) -> None: ...

    def check_step(self) -> None:
        """Raise GroupBrokenError if the step's collectives did not really happen."""
        ...

    def capture(self) -> Any:
        """The tree to be saved."""
        ...

    def restore(self, tree: Any) -> None: ...

    def joined_parts(self, parts: list[PackedState]) -> Any:
        """The tree that was saved in these parts."""
        ...
