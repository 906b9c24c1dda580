"""The files of the repository, for tests of the house style."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


SOURCES = tracked("src/*.py")
ALL_PYTHON = tracked("*.py")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))
