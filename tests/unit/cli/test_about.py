"""Scripts for shells."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from swell.cli.about import JOB_COMMANDS, CompletionShell, script_for
from swell.cli.main import COMMANDS

ASK = """
COMP_WORDS=(swell va); COMP_CWORD=1; _swell; echo "${COMPREPLY[@]}"
swell() { printf 'aitrainingjob/fit\\naitrainingjob/other\\n'; }
COMP_WORDS=(swell logs f); COMP_CWORD=2; _swell; echo "${COMPREPLY[@]}"
"""


def test_bash_finishes_commands_and_jobs() -> None:
    """The first word is a command, the next of some commands a job."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.fail("bash is needed to try its script")
    script = script_for(CompletionShell.BASH) + ASK
    answered = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)

    assert answered.stdout == "validate\nfit\n"


@pytest.mark.parametrize("shell", list(CompletionShell))
def test_scripts_are_complete(shell: CompletionShell) -> None:
    """Every command is known to every shell, and no gap is left in its script."""
    script = script_for(shell)

    assert all(name in script for name, _, _ in COMMANDS)
    assert "{commands}" not in script
    assert "{jobs}" not in script
    assert "{words}" not in script


def test_commands_of_jobs_exist() -> None:
    """No command is named that is none."""
    assert set(JOB_COMMANDS) <= {name for name, _, _ in COMMANDS}
