"""Keys that must not be decided on before their objects have been read consistently.

After a write whose outcome is unknown the cache may lack what that write did, and no version tells
how long to wait for it: the owner and its children are read from the server. After a write that
met another state than expected only its target is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from swell.api.meta import Key
from swell.api.resource import Resource
from swell.runtime.cluster import Malformed, Selection
from swell.runtime.executor import Failure, FailureKind


class AnyInformer(Protocol):
    """The part of an informer that a controller uses, whatever the type of its objects."""

    @property
    def resource(self) -> Resource[object]: ...

    def add_handler(self, handler: Callable[[Key], None], index: str = "") -> None: ...

    def malformed(self, key: Key) -> Malformed | None: ...

    async def wait_synced(self) -> None: ...

    async def refresh(self, key: Key) -> None: ...

    async def refresh_selected(self, selection: Selection, index: str, value: Key) -> None: ...


@dataclass(frozen=True, slots=True)
class Children:
    """A kind whose objects belong to owners.

    `index` names an index that gives owner keys. `selection` finds an owner's children on the
    server, and may find more than those. Where children change in great numbers, their owner is
    looked at `settle_s` after the first change instead of once for each.
    """

    informer: AnyInformer
    index: str
    selection: Callable[[Key], Selection]
    settle_s: float = 0.0


@dataclass(slots=True)
class _Uncertainty:
    is_whole: bool = False
    targets: dict[tuple[str, Key], None] = field(default_factory=dict)


class UncertainKeys:
    """The owners that are uncertain, and what has to be read for each of them."""

    def __init__(
        self,
        owners: AnyInformer | None,
        children: Sequence[Children],
        others: Sequence[AnyInformer] = (),
    ) -> None:
        self._owners = owners
        self._children = tuple(children)
        known = (
            ([owners] if owners is not None else []) + [c.informer for c in children] + [*others]
        )
        self._informers = {str(informer.resource): informer for informer in known}
        self._uncertain: dict[Key, _Uncertainty] = {}

    def __contains__(self, owner: Key) -> bool:
        return owner in self._uncertain

    def record(self, owner: Key, failures: Iterable[Failure]) -> None:
        """Take from a plan's failures what has to be read before the owner's next plan."""
        for failure in failures:
            if failure.kind in {FailureKind.UNKNOWN, FailureKind.STALE}:
                uncertain = self._uncertain.setdefault(owner, _Uncertainty())
                uncertain.is_whole |= failure.kind is FailureKind.UNKNOWN
                uncertain.targets[str(failure.action.resource), failure.action.key] = None

    def mark(self, owner: Key) -> None:
        """Have the owner and all its children read before its next plan."""
        self._uncertain.setdefault(owner, _Uncertainty()).is_whole = True

    async def resolve(self, owner: Key) -> None:
        """Read what is uncertain into the caches. If that raises, the owner stays uncertain."""
        uncertain = self._uncertain.get(owner)
        if uncertain is None:
            return
        if uncertain.is_whole:
            if self._owners is not None:
                await self._owners.refresh(owner)
            for child in self._children:
                selection = child.selection(owner)
                await child.informer.refresh_selected(selection, child.index, owner)
        # A target may be of a kind that no informer of this controller follows: then no cache of
        # its decisions can be stale about it.
        for resource, key in uncertain.targets:
            if resource in self._informers:
                await self._informers[resource].refresh(key)
        del self._uncertain[owner]

    def forget(self, owner: Key) -> None:
        self._uncertain.pop(owner, None)
