"""Scripts for shells, and what they are told."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from swell.cli.about import CompletionShell, script_for
from swell.cli.completing import candidates
from swell.cli.main import COMMANDS, run

ASK = """
swell() { printf '<%s>' "$@"; }
COMP_WORDS=(swell va); COMP_CWORD=1; _swell; echo "${COMPREPLY[@]}"
COMP_WORDS=(swell logs -f "" later); COMP_CWORD=3; _swell; echo "${COMPREPLY[@]}"
"""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No cluster of the person who runs the tests is ever asked."""
    for name in ("SWELL_HOME", "KUBECONFIG", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_bash_asks_for_the_word_at_the_cursor() -> None:
    """The line up to there is handed on, an empty word included."""
    bash = shutil.which("bash")
    if bash is None:
        pytest.fail("bash is needed to try its script")
    script = script_for(CompletionShell.BASH) + ASK
    answered = subprocess.run([bash, "-c", script], capture_output=True, text=True, check=True)

    assert answered.stdout == "<__complete><va>\n<__complete><logs><-f><>\n"


@pytest.mark.parametrize("shell", list(CompletionShell))
def test_every_script_asks_the_program(shell: CompletionShell) -> None:
    """None of them has a list of its own, which could grow old."""
    assert "swell __complete" in script_for(shell)


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (["va"], ["validate"]),
        (["run", "--wait"], ["--wait-forever"]),
        (["stop", "fit", "--as", ""], ["Failed", "NodeFail", "Preempted"]),
        (["get", "-o", "ya"], ["yaml"]),
        (["explain", "fit", "-o", ""], ["json", "yaml"]),
        (["queue", "cl"], ["close"]),
        (["queue", "create", "--weig"], ["--weight"]),
        (["completion", ""], ["bash", "fish", "zsh"]),
        (["run", "--", "va"], []),
        (["nonsense", ""], []),
        (["logs", ""], []),
        (["apply", "-f", ""], []),
    ],
)
def test_line_is_completed_without_a_cluster(line: list[str], found: list[str]) -> None:
    """Commands, flags and values are known; names are not, and files are left to the shell."""
    assert candidates(line) == found


def test_every_command_is_offered() -> None:
    """An empty line offers all."""
    assert candidates([""]) == sorted(name for name, _, _ in COMMANDS)


def test_contexts_are_offered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all files that KUBECONFIG names."""
    file = tmp_path / "config"
    file.write_text("contexts: [{name: prod}, {name: play}]\n")
    monkeypatch.setenv("KUBECONFIG", f"{file}:{tmp_path / 'missing'}")

    assert candidates(["use", "p"]) == ["play", "prod"]
    assert candidates(["get", "--context", "pr"]) == ["prod"]


@pytest.mark.parametrize("line", [["--quiet", "use", "-"], ["use", "-", "--quiet"]])
def test_quiet_command_says_nothing_but_warnings_and_errors(
    line: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Before or behind the command's name; without it there is a note."""
    assert run(["use", "-"]) == 0
    assert capsys.readouterr().err == "there was no choice\n"
    assert run(line) == 0
    assert capsys.readouterr().err == ""
    assert run([*line, "too", "many"]) == 2
    assert "error: " in capsys.readouterr().err
