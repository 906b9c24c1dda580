"""The facts that processes print, one JSON object a line, each read and decoded once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

Fact = dict[str, Any]


class Outputs:
    """The files of a folder into which processes print, named `index-number`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True)
        self._read: dict[str, int] = {}  # bytes, by file
        self._facts: list[Fact] = []

    def facts(self, since: float = 0.0) -> list[Fact]:
        """All that was printed since then, by time, with `process` and `index` of its process."""
        is_new = False
        for path in self.folder.iterdir():
            if not path.suffix and path.stat().st_size > self._read.get(path.name, 0):
                is_new |= self._read_on(path)
        if is_new:
            self._facts.sort(key=lambda fact: float(fact["at"]))
        return [fact for fact in self._facts if fact["at"] >= since]

    def _read_on(self, path: Path) -> bool:
        with path.open("rb") as file:
            file.seek(self._read.get(path.name, 0))
            whole, is_any, _ = file.read().rpartition(b"\n")
        if not is_any:
            return False
        self._read[path.name] = self._read.get(path.name, 0) + len(whole) + 1
        names = {"process": path.name, "index": int(path.name.split("-")[0])}
        self._facts += [{**json.loads(line), **names} for line in whole.split(b"\n")]
        return True

    def errors(self) -> str:
        return "".join(path.read_text() for path in sorted(self.folder.glob("*.err")))
