"""Without the packages of an extra: one sentence and the command that installs it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from swell.cli.command_line import CommandError
from swell.cli.extras import missing_extra

# numpy cannot be imported here, though it is installed.
WITHOUT_NUMPY = """
import sys
from importlib.abc import MetaPathFinder
class Hidden(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "numpy":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
sys.meta_path.insert(0, Hidden())
from swell.cli import extras
extras.can_schedule = lambda: False
from swell.cli.main import run
sys.exit(run(sys.argv[1:]))
"""
SENTENCE = "error: deciding where pods go needs numpy, which is not installed\n"
HINT = "  install it: pip install 'swell[up]'\n"


def swell(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_NUMPY, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", ["operator --help", "scheduler", "plan schedule --help"])
def test_programs_that_decide_name_the_extra(command: str) -> None:
    """Instead of a traceback."""
    done = swell(*command.split())

    assert (done.returncode, done.stderr) == (1, SENTENCE + HINT)


@pytest.mark.parametrize("command", ["get --help", "scheduler --help", "crds", "validate --help"])
def test_commands_for_clusters_do_without(command: str) -> None:
    """They load nothing of the scheduler that computes."""
    done = swell(*command.split())

    assert (done.returncode, done.stderr) == (0, "")


def test_other_missing_modules_are_no_extras() -> None:
    """A mistake of ours is not blamed on the installation."""
    ours = ModuleNotFoundError("No module named 'swell.gone'", name="swell.gone")

    with pytest.raises(ModuleNotFoundError):
        missing_extra(ours)
    assert isinstance(missing_extra(ModuleNotFoundError(name="numpy.linalg")), CommandError)
