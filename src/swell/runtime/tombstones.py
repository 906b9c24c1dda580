"""What consistent reads found missing, for as long as the watch lags behind them.

A read at a version proves absent whatever it covers and did not contain: an event of that version
or an older one must not bring it back. Once the watch has passed the version everything has been
told, and the read is forgotten. No I/O; asks nobody.
"""

from __future__ import annotations

import re
from collections import deque
from typing import NamedTuple

from swell.api.meta import ObjectMeta
from swell.runtime.cluster import Selection

# Presence or a value of labels, or a name, is what reads of a part ask for; of others it is not
# known here what they cover.
_LABEL = re.compile(r"[\w./-]+(=[\w.-]*)?")
_NAME = re.compile(r"metadata\.name=([^,=]+)")


class _Part(NamedTuple):
    """What a read covers: everything in a namespace (or in all) to which all terms apply."""

    namespace: str
    terms: frozenset[str]


class Tombstones:
    """See the module's docstring."""

    def __init__(self) -> None:
        # By namespace and one of its terms, so that an object is compared with few of them.
        self._reads: dict[tuple[str, str], dict[_Part, int]] = {}
        self._order: deque[tuple[int, _Part]] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def note(self, selection: Selection, version: int) -> None:
        """A read found nothing but what is known of by now."""
        part = _part(selection)
        if part is not None:
            reads = self._reads.setdefault(_place(part), {})
            reads[part] = max(version, reads.get(part, 0))
            self._order.append((version, part))

    def cover(self, metadata: ObjectMeta, version: int) -> bool:
        """Whether an object that is not known, seen at `version`, was missing then or later."""
        if not self._reads:
            return False
        labels = metadata.labels
        terms = {"", f"/{metadata.name}", *labels, *(f"{k}={v}" for k, v in labels.items())}
        return any(
            at >= version and part.terms <= terms
            for namespace in ("", metadata.namespace)
            for term in terms
            for part, at in self._reads.get((namespace, term), {}).items()
        )

    def reach(self, version: int) -> None:
        """The watch has passed this version."""
        while self._order and self._order[0][0] <= version:
            at, part = self._order.popleft()
            reads = self._reads.get(_place(part), {})
            if reads.get(part) == at:
                del reads[part]
                if not reads:
                    del self._reads[_place(part)]


def _part(selection: Selection) -> _Part | None:
    terms = [term for term in selection.labels.split(",") if term]
    name = _NAME.fullmatch(selection.fields)
    if (selection.fields and name is None) or not all(map(_LABEL.fullmatch, terms)):
        return None
    if name is not None:
        terms.append(f"/{name[1]}")  # no label begins like this
    return _Part(selection.namespace, frozenset(terms))


def _place(part: _Part) -> tuple[str, str]:
    """Under its rarest term: a name or a value rather than a label's presence."""
    rarest = max(part.terms, key=lambda term: (term[0] == "/", "=" in term, term), default="")
    return part.namespace, rarest
