"""The tutorial and the troubleshooting page, followed word by word."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.e2e.up.machine import Machine

ROOT = Path(__file__).parents[3]
ANYTHING = "…"


@dataclass
class Step:
    """A command, and lines that it prints, in this order; others may be between them."""

    script: str
    lines: list[str] = field(default_factory=list)


def steps(text: str) -> list[Step]:
    found: list[Step] = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        for line in block.splitlines():
            if line.startswith("$ "):
                found.append(Step(line[2:]))
            elif line.startswith("> "):
                found[-1].script += "\n" + line[2:]
            else:
                found[-1].lines.append(line)
    return found


def missing(expected: list[str], printed: str) -> str:
    """The first expected line that does not come after the one before it; empty if all do.

    How wide columns are differs from machine to machine.
    """
    rest = (_narrow(line) for line in printed.splitlines())
    for line in expected:
        pattern = ".*".join(re.escape(part) for part in _narrow(line).split(ANYTHING))
        if not any(re.fullmatch(pattern, one) for one in rest):
            return line
    return ""


def _narrow(line: str) -> str:
    return " ".join(line.split())


@pytest.fixture
def reader(tmp_path: Path) -> Machine:
    """Somebody with a copy of the examples, and `swell` on the PATH."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    programs = tmp_path / "bin"
    programs.mkdir()
    swell = programs / "swell"
    swell.write_text(f'#!/bin/sh\nexec {sys.executable} -m swell.cli.main "$@"\n')
    swell.chmod(0o755)
    path = os.environ.get("PATH", "")
    return Machine(tmp_path, {"PATH": f"{programs}:{path}"})


@pytest.mark.parametrize("page", ["tutorial.md", "troubleshooting.md"])
def test_page_is_true(reader: Machine, page: str) -> None:
    """Every command works, and prints what the page shows."""
    try:
        for step in steps((ROOT / "docs" / page).read_text()):
            ended = subprocess.run(
                ["bash", "-c", step.script],
                env=reader.environment,
                cwd=reader.folder,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=120,
                check=False,
            )

            assert ended.returncode == 0, f"{step.script}\n{ended.stdout}"
            assert not missing(step.lines, ended.stdout), f"{step}\n{ended.stdout}"
    finally:
        reader.swell("down")
    assert reader.processes() == []
