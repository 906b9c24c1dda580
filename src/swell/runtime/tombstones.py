"""Deletions proved by consistent reads, kept for as long as the watch lags behind those reads.

A consistent list at version 20 that lacks an object proves that the object did not exist then. A
watch that has reached version 15 may still report it as added at 17. The tombstone makes the cache
ignore such an event. Once the watch has passed version 20 the tombstone is dropped. No I/O.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from swell.api.meta import ObjectMeta
from swell.runtime.cluster import Selection

# Our own reads select by the presence or value of labels, or by name. A read with any other
# selector leaves no tombstone, because which objects it covers is not known here.
_LABEL = re.compile(r"[\w./-]+(=[\w.-]*)?")
_NAME = re.compile(r"metadata\.name=([^,=]+)")


class _Scope(NamedTuple):
    """The objects a read covers: those in a namespace (all, if empty) that match every term."""

    namespace: str
    terms: frozenset[str]


class Tombstones:
    """The scopes that were read, each with the version up to which unknown objects are absent."""

    def __init__(self) -> None:
        # By namespace and one term of the scope: an object is compared with few scopes only.
        self._reads: dict[tuple[str, str], dict[_Scope, int]] = {}
        self._order: deque[tuple[int, _Scope]] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def record(self, selection: Selection, version: int) -> None:
        """Note that a read at `version` found no object that the cache does not hold by now."""
        scope = _scope(selection)
        if scope is not None:
            reads = self._reads.setdefault(_place(scope), {})
            reads[scope] = max(version, reads.get(scope, 0))
            self._order.append((version, scope))

    def covers(self, metadata: ObjectMeta, version: int) -> bool:
        """Whether an object that the cache lacks, seen at `version`, was absent then or later."""
        if not self._reads:
            return False
        labels = metadata.labels
        terms = {"", f"/{metadata.name}", *labels, *(f"{k}={v}" for k, v in labels.items())}
        return any(
            at >= version and scope.terms <= terms
            for namespace in ("", metadata.namespace)
            for term in terms
            for scope, at in self._reads.get((namespace, term), {}).items()
        )

    def advance(self, version: int) -> None:
        """Drop what the watch has passed: from now on its own events are the newer ones."""
        while self._order and self._order[0][0] <= version:
            at, scope = self._order.popleft()
            reads = self._reads.get(_place(scope), {})
            # A later read of the same scope keeps its own, higher version.
            if reads.get(scope) == at:
                del reads[scope]
                if not reads:
                    del self._reads[_place(scope)]


def _scope(selection: Selection) -> _Scope | None:
    terms = [term for term in selection.labels.split(",") if term]
    name = _NAME.fullmatch(selection.fields)
    if (selection.fields and name is None) or not all(map(_LABEL.fullmatch, terms)):
        return None
    if name is not None:
        terms.append(f"/{name[1]}")  # no label begins with a slash
    return _Scope(selection.namespace, frozenset(terms))


def _place(scope: _Scope) -> tuple[str, str]:
    """Where a scope is kept: under its rarest term, a name or a value before a bare label."""
    rarest = max(scope.terms, key=lambda term: (term[0] == "/", "=" in term, term), default="")
    return scope.namespace, rarest
