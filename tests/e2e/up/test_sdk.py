"""The SDK and sweeps on a whole embedded cluster: every example of the docstrings, and 200 jobs."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from swell.api.meta import Body
from tests.e2e.up.machine import Machine

MODULES = ("swell.sdk.cluster", "swell.sdk.job", "swell.sdk.shortcuts", "swell.aio")
RUN_EXAMPLES = """
import doctest, importlib, sys
found = doctest.testmod(importlib.import_module(sys.argv[1]), optionflags=doctest.ELLIPSIS)
print(found.attempted)
sys.exit(found.failed > 0 or not found.attempted)
"""


@pytest.mark.parametrize("module", MODULES)
def test_examples_of_docstrings_are_true(running: Machine, module: str) -> None:
    """They are run as they stand, by a program of a user."""
    ended = subprocess.run(
        [sys.executable, "-c", RUN_EXAMPLES, module],
        env=running.environment,
        cwd=running.folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_function_of_a_script_is_run_with_all_it_needs(running: Machine) -> None:
    """A function of the user's own module, which the job cannot import, and what it calls."""
    (running.folder / "mine.py").write_text("def twice(x):\n    return 2 * x\n")
    (running.folder / "program.py").write_text(
        "import swell\n"
        "from mine import twice\n"
        "def work(x, end):\n"
        "    print(twice(x), end=end)\n"
        "job = swell.submit(work, args=[21], kwargs={'end': '!'}, name='fn', workdir='/')\n"
        "print(job.wait(check=True).phase, *job.logs())\n"
    )
    ended = subprocess.run(
        [sys.executable, "program.py"],
        env={**running.environment, "PYTHONPATH": ""},
        cwd=running.folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )

    assert "Succeed" in ended.stdout, ended.stdout + ended.stderr
    assert ended.stdout == "Succeed [trainer-0] 42!\n"


def test_two_hundred_jobs_are_swept_and_reported(running: Machine) -> None:
    """Submitted, followed to the end, and shown row by row; a few fail, and are run again."""
    gate = running.folder / "gate"
    script = f"test {{seed}} -lt 195 || test -e {gate} || exit 1; echo row {{lr}} {{seed}}"
    command = ("sweep", "--name", "many", "--cpu", "10m", "lr=0.1", "seed=0..199")
    with running.begin(*command, "--", "sh", "-c", script) as sweep:
        out, said = sweep.communicate(timeout=600)
        assert sweep.returncode == 1

    assert "sweep/many: 200 jobs submitted" in said
    assert out.startswith("sweep/many: 200 jobs: 195 Succeed, 5 Failed\n")
    report: Body = json.loads(running.swell("get", "sweep", "many", "-o", "json").stdout)
    assert [row["index"] for row in report["rows"]] == list(range(200))
    assert report["rows"][7]["parameters"] == {"lr": "0.1", "seed": "7"}
    lines = running.swell("logs", "sweep/many").stdout.splitlines()
    assert "[many-194-trainer-0] row 0.1 194" in lines
    last = running.swell("logs", "sweep/many", "--tail", "1").stdout.splitlines()
    assert len(last) == 195
    gate.touch()
    assert running.swell("retry", "sweep/many", "--failed").stdout == (
        "sweep/many: 5 jobs created again\n"
    )
    assert running.swell("attach", "sweep/many").stdout.startswith(
        "sweep/many: 200 jobs: 200 Succeed\n"
    )
