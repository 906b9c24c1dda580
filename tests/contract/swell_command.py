"""Runs `swell` commands and captures their output."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pytest

from swell.cli.main import run


@dataclass(frozen=True)
class CommandResult:
    """The exit code and output of a command."""

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

    def __call__(self, *arguments: str) -> CommandResult:
        self.capture.readouterr()
        code = run(arguments)
        seen = self.capture.readouterr()
        return CommandResult(code, seen.out, seen.err)

    def here(self, *arguments: str) -> CommandResult:
        return self(*arguments, "-n", self.namespace)

    def file(self, text: str, name: str = "manifest.yaml") -> str:
        path = self.folder / name
        path.write_text(text)
        return str(path)

    def apply(self, text: str) -> CommandResult:
        return self.here("apply", "-f", self.file(text))
