"""Commands that last: what a person at a terminal sees meanwhile, and that a pipe gets none of it.

The work is small here; the first state of a bar is drawn at once all the same.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Body
from tests.contract.swell_command import Swell
from tests.contract.terminal import SWELL, on_terminal
from tests.unit.cluster.embedded.test_durable import Opened, on_disk

N_OBJECTS = 40
# A new store has four namespaces.
N_BUILT_IN = 4
# Files are copied in parts of 1 MiB: a store of more has a state between nothing and all.
LARGE = "x" * 60_000
TRACE = """\
name,time,work_s,min,max,serial
a,0,600,1,8,0.02
b,30,300,1,4,0.5
c,70,900,1,16,0.01
"""
# The last column is the processor time of a round, which no two runs share.
_MEASURED = re.compile(r" +\d+\.\d$", re.MULTILINE)
BAR = re.compile(r"\[[#.]{24}\] \d+/\d+")
JOB = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit-%d}
spec:
  suspend: true
  replicaSpecs:
    trainer:
      replicas: 1
      template: {spec: {containers: [{name: aitj-trainer, image: python}]}}
"""


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    """The environment of a stopped cluster with a store of more than one part."""
    home = tmp_path / "home"
    home.mkdir(mode=0o700)

    async def fill(opened: Opened) -> None:
        for n in range(N_OBJECTS):
            body: Body = {"metadata": {"name": f"c{n}", "namespace": "default"}}
            await opened.cluster.create(CONFIG_MAPS.untyped(), {**body, "data": {"v": LARGE}})

    on_disk(home / "store.db", fill)
    kept = {name: text for name, text in os.environ.items() if name != "NO_COLOR"}
    return {**kept, "SWELL_HOME": str(home), "TERM": "xterm", "COLUMNS": "100"}


def shown(*arguments: str, environ: dict[str, str]) -> str:
    """Everything that a command writes to a terminal; it must succeed."""
    with on_terminal(*arguments, environ=environ) as terminal:
        assert terminal.ends() == 0, terminal.seen
    return terminal.seen


def piped(*arguments: str, environ: dict[str, str]) -> str:
    done = subprocess.run(
        [*SWELL, *arguments], env=environ, capture_output=True, text=True, check=True
    )
    return done.stdout + done.stderr


@pytest.fixture
def file(environ: dict[str, str], tmp_path: Path) -> str:
    file = str(tmp_path / "backup.db")
    piped("backup", file, environ=environ)
    return file


def test_backup_check_and_restore_show_how_far_they_are(environ: dict[str, str], file: str) -> None:
    """Each part of the work has a bar, and only the outcome is left on the terminal."""
    last = f"[{'#' * 24}] {N_OBJECTS + N_BUILT_IN}/{N_OBJECTS + N_BUILT_IN}"

    seen = shown("backup", "--force", file, environ=environ)
    assert "copying pages [" in seen
    assert f"checking objects {last}" in seen
    seen = shown("check", environ=environ)
    assert "checking pages [" in seen
    assert f"checking objects {last}" in seen
    seen = shown("restore", "--force", file, environ=environ)
    assert "copying KiB [##########" in seen
    assert "checking pages [" in seen
    assert f"checking objects {last}" in seen
    erased, _, outcome = seen.rpartition("\r\x1b[K")
    assert BAR.search(erased)
    assert outcome.startswith(f"{N_OBJECTS + N_BUILT_IN} objects (")


@pytest.mark.parametrize("mode", [(), ("--policy-only",)])
def test_replay_shows_how_many_jobs_have_ended(
    mode: tuple[str, ...], environ: dict[str, str], tmp_path: Path
) -> None:
    """With the live programs and without; each policy has a bar of its own."""
    (tmp_path / "trace.csv").write_text(TRACE)
    line = ("replay", str(tmp_path / "trace.csv"), "--nodes", "2x4", *mode, "--policy")
    seen = shown(*line, "goodput", "--policy", "fulfillment", environ=environ)

    for policy in ("goodput", "fulfillment"):
        assert f"\r\x1b[Kreplaying {policy}: jobs [{'.' * 24}] 0/3" in seen
    _, _, table = seen.rpartition("\r\x1b[K")
    assert not BAR.search(table)
    again = piped(*line, "goodput", "--policy", "fulfillment", environ=environ)
    assert _MEASURED.sub("", table) == _MEASURED.sub("", again)


def test_pipes_and_those_who_want_quiet_get_no_bar(
    environ: dict[str, str], file: str, tmp_path: Path
) -> None:
    """In a pipe and with --quiet nothing is drawn; with NO_COLOR without escape sequences."""
    (tmp_path / "trace.csv").write_text(TRACE)
    lines = [
        ("restore", "--force", file),
        ("check",),
        ("replay", str(tmp_path / "trace.csv"), "--nodes", "2x4", "--policy-only"),
    ]
    for line in lines:
        for text in (piped(*line, environ=environ), shown(*line, "--quiet", environ=environ)):
            assert not BAR.search(text), line
            assert "\r" not in text, line
        plain = shown(*line, environ={**environ, "NO_COLOR": "1"})
        assert BAR.search(plain), line
        assert "\x1b" not in plain, line


def test_many_jobs_are_counted_as_they_are_created(swell: Swell) -> None:
    """`apply` shows a bar while it sends, and what was done when all is sent."""
    manifest = swell.file("---\n".join(JOB % n for n in range(150)))
    seen = shown("apply", "-f", manifest, "-n", swell.namespace, environ={**os.environ})

    assert "creating objects [" in seen
    _, _, told = seen.rpartition("\r\x1b[K")
    assert told.count(" created") == 150
    assert "fit-149 created" in told


def test_sweep_counts_its_jobs_as_they_are_created(swell: Swell) -> None:
    """The bar of the submission is gone when the sweep is followed, or left."""
    line = ("sweep", "--detach", "--name", "s", "--array", "0-149", "-n", swell.namespace)
    seen = shown(*line, "--", "true", environ={**os.environ})

    assert "\r\x1b[Ksweep/s: submitting [" in seen
    _, _, told = seen.rpartition("\r\x1b[K")
    assert "sweep/s: 150 jobs submitted" in told


def test_wait_shows_what_it_waits_for(swell: Swell) -> None:
    """A person who waits sees the state of the objects; the line goes when the wait ends."""
    assert swell.apply(JOB % 1).code == 0
    line = ("wait", "fit-1", "--for", "phase=Succeed", "--timeout", "1s", "-n", swell.namespace)
    with on_terminal(*line) as terminal:
        terminal.until("\r\x1b[Kwaiting for phase=Succeed: fit-1 is ")
        assert terminal.ends() == 1

    assert "\r\x1b[Kerror: phase=Succeed did not hold within 1 s\n" in terminal.seen
