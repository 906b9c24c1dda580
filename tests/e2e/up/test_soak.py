"""A soak of a cluster with a planted leak fails, and one without it passes."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.long
@pytest.mark.parametrize("leak", [False, True])
def test_planted_leak_is_noticed(leak: bool) -> None:
    """A cluster that forgets no commit fails a soak that one without it passes."""
    command = [sys.executable, "-m", "tests.e2e.up.soak", "--seconds", "90"]
    ended = subprocess.run(
        [*command, *(["--leak"] if leak else [])],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    wrong = json.loads(ended.stdout.splitlines()[-1])["wrong"]

    assert any(text.startswith("memory grew") for text in wrong) == leak, wrong
    assert ended.returncode == int(bool(wrong))
