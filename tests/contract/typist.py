"""Somebody who types `swell` commands."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from swell.cli.main import run


@dataclass(frozen=True)
class Answer:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, object]:
        found = json.loads(self.out)
        assert isinstance(found, dict)
        return found


@dataclass
class Swell:
    """Runs commands in a namespace of its own."""

    namespace: str
    folder: Path
    capture: pytest.CaptureFixture[str]

    def __call__(self, *words: str) -> Answer:
        self.capture.readouterr()
        code = run(words)
        seen = self.capture.readouterr()
        return Answer(code, seen.out, seen.err)

    def here(self, *words: str) -> Answer:
        return self(*words, "-n", self.namespace)

    def file(self, text: str, name: str = "manifest.yaml") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def apply(self, text: str) -> Answer:
        return self.here("apply", "-f", self.file(text))
