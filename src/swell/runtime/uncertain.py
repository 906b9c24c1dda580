"""Remembers which keys must not be decided on before the world has been read consistently.

After a write whose outcome is unknown the cache may lack what that write did, and no version tells
how long to wait for it: the owner and its children are read from the server itself. After a write
that met another state than expected, only its target is.
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
    """What a controller needs of an informer, whatever its type of object."""

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

    `index` names an index that gives owner keys; `selection` finds an owner's children on the
    server, and may find more than those. Where children change in swarms, their owner is looked
    at `settle_s` after the first change instead of once for each.
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
    """See the module's docstring."""

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
        self._doubts: dict[Key, _Uncertainty] = {}

    def __contains__(self, owner: Key) -> bool:
        return owner in self._doubts

    def note(self, owner: Key, failures: Iterable[Failure]) -> None:
        """Take from a plan's failures what has to be read before the owner's next plan."""
        for failure in failures:
            if failure.kind in {FailureKind.UNKNOWN, FailureKind.STALE}:
                doubt = self._doubts.setdefault(owner, _Uncertainty())
                doubt.is_whole |= failure.kind is FailureKind.UNKNOWN
                doubt.targets[str(failure.action.resource), failure.action.key] = None

    def suspect(self, owner: Key) -> None:
        """Have the owner and all its children read before its next plan."""
        self._doubts.setdefault(owner, _Uncertainty()).is_whole = True

    async def resolve(self, owner: Key) -> None:
        """Read what is in doubt into the caches; raises, and stays in doubt, if that fails."""
        doubt = self._doubts.get(owner)
        if doubt is None:
            return
        if doubt.is_whole:
            if self._owners is not None:
                await self._owners.refresh(owner)
            for child in self._children:
                selection = child.selection(owner)
                await child.informer.refresh_selected(selection, child.index, owner)
        for resource, key in doubt.targets:
            if resource in self._informers:
                await self._informers[resource].refresh(key)
        del self._doubts[owner]

    def forget(self, owner: Key) -> None:
        self._doubts.pop(owner, None)
