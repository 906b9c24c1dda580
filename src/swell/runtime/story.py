"""What happened to each key of late: told when something goes wrong. Bounded in every direction."""

from __future__ import annotations

from collections import OrderedDict, deque

from swell.api.meta import Key


class Stories:
    """The last few lines about each of the last few keys."""

    def __init__(self, *, keys_max: int = 1000, lines_max: int = 20) -> None:
        self._keys_max = keys_max
        self._lines_max = lines_max
        self._lines: OrderedDict[Key, deque[str]] = OrderedDict()

    def add(self, key: Key, line: str) -> None:
        lines = self._lines.setdefault(key, deque(maxlen=self._lines_max))
        lines.append(line)
        self._lines.move_to_end(key)
        if len(self._lines) > self._keys_max:
            self._lines.popitem(last=False)

    def tell(self, key: Key) -> list[str]:
        return list(self._lines.get(key, ()))
