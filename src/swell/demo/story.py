"""The story of the demo: an embedded cluster, and a training that survives all that is done to it.

It runs the commands that a user would type, in a folder of its own, and needs no input. The folder
is kept for its logs; every process is ended.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import yaml

from swell.api.injection import CHECKPOINTS_VARIABLE
from swell.demo.chart import draw
from swell.demo.training import (
    TrainedStep,
    changes_of,
    length_of_weights,
    longest_gap,
    steps_of,
)

ROOT = Path(__file__).parents[3]
JOB_FILE = ROOT / "examples" / "train-numpy.yaml"
JOB, ROLE = "train-numpy", "trainer"
# Far more than any part of the story takes, on a machine that is busy with something else.
WAIT_S_MAX = 90.0
POLL_S = 0.1
# The steps at which something is done. There are 600, so that the last change comes in time also
# on a machine that is busy.
GROW_AT, KILL_AT, SHRINK_AT = 60, 160, 290
Steps = list[TrainedStep]
# How long the more important job runs.
URGENT_S = 1.0
URGENT = f"""\
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {{name: urgent}}
value: 1000
---
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {{name: urgent}}
spec:
  priority: urgent
  cleanPodPolicy: All
  replicaSpecs:
    main:
      template:
        spec:
          containers:
            - name: aitj-main
              image: local
              command: [sh, -c, "echo it is my turn; sleep {URGENT_S:.0f}"]
              resources: {{requests: {{cpu: 4, memory: 64Mi}}}}
"""


def main() -> int:
    """Run the demo; the first command that fails ends it."""
    started = time.monotonic()
    home = Path(tempfile.mkdtemp(prefix="swell-demo-"))
    os.environ["SWELL_HOME"] = str(home)
    os.environ.pop("KUBECONFIG", None)
    try:
        steps = _train(home)
        log = _log_of_first(home)
    finally:
        _swell("down")
    _print("The loss, as member 0 has seen it:", gap="\n")
    for line in draw(steps, is_coloured=_is_coloured(), is_unicode=_is_unicode()):
        _print(line)
    _compare(log, home)
    _print(f"Logs: {home / 'logs' / 'default' / JOB}", gap="\n")
    _print(f"Done in {time.monotonic() - started:.0f} s. Nothing is left running.")
    return 0


def _train(home: Path) -> Steps:
    _print("A cluster on this machine: API server, operator, scheduler, autoscaler, node.")
    _swell("up", "--detach", "--cpu", "4", "--memory", "4Gi")

    _print("A small network learns, in two processes that average their gradients.", gap="\n")
    _swell("run", "--detach", str(_with_checkpoints(home)))
    n_shown = _watch(home, "two members train", lambda steps: _is_at(steps, 2, GROW_AT))

    _print("It grows: two more join when they are ready, and get the state from the others.", "\n")
    _swell("scale", JOB, f"{ROLE}=4")
    n_shown = _watch(home, "four members train", lambda steps: _is_at(steps, 4, KILL_AT), n_shown)

    _print("One is killed. The others redo the step it broke, and train on.", gap="\n")
    n_before = n_shown
    _swell("chaos", "kill-pod", f"{JOB}-{ROLE}-3")
    n_shown = _watch(
        home,
        "its successor trains with them",
        lambda steps: len(changes_of(steps)) >= n_before + 2 and _is_at(steps, 4, SHRINK_AT),
        n_shown,
    )

    _print("It shrinks.", gap="\n")
    _swell("scale", JOB, f"{ROLE}=2")
    n_shown = _watch(home, "two members train", lambda steps: steps[-1].size == 2, n_shown)
    _swell("get")
    n_shown = _preempt(home, n_shown)

    def is_trained(_: Steps) -> bool:
        return length_of_weights(_log_of_first(home)) is not None

    _watch(home, "all is trained", is_trained, n_shown)
    return _steps_of_first(home)


def _preempt(home: Path, n_shown: int) -> int:
    """Take the whole machine away for a moment; returns how many changes are printed by then."""
    _print("A job comes that is more important, and needs the whole machine.", gap="\n")
    urgent = home / "urgent.yaml"
    urgent.write_text(URGENT)
    n_before = len(_steps_of_first(home))
    _swell("run", str(urgent))

    def is_back(steps: Steps) -> bool:
        return (gap := longest_gap(steps[n_before:])) is not None and gap.seconds > URGENT_S

    _print("The training was asked to save, and gave way. It goes on by itself.", gap="\n")
    n_shown = _watch(home, "it trains again", is_back, n_shown)
    gap = longest_gap(_steps_of_first(home)[n_before:])
    if gap is not None:
        lost = "no step is lost" if gap.n_lost <= 0 else f"{gap.n_lost} steps are done again"
        _print(f"  ... after step {gap.before} comes step {gap.after}: {lost}")
    return n_shown


def _with_checkpoints(home: Path) -> Path:
    """Write the example once more, with a folder for its checkpoints."""
    path, manifests = home / JOB_FILE.name, list(yaml.safe_load_all(JOB_FILE.read_text()))
    pod = manifests[1]["spec"]["replicaSpecs"][ROLE]["template"]["spec"]
    folder = {"name": CHECKPOINTS_VARIABLE, "value": str(home / "checkpoints")}
    pod["containers"][0]["env"].append(folder)
    path.write_text(yaml.safe_dump_all(manifests))
    return path


def _is_at(steps: Steps, size: int, number: int) -> bool:
    return steps[-1].size == size and steps[-1].number >= number


def _watch(home: Path, what: str, holds: Callable[[Steps], bool], n_shown: int = 0) -> int:
    """Follow the steps of member 0 until something holds, and tell of the changes meanwhile.

    `n_shown` of them were printed before; the number of all that are printed now is returned.
    """
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        steps = _steps_of_first(home)
        for change in changes_of(steps)[n_shown:]:
            n_shown += 1
            text = f"from {change.old} to {change.new} members"
            _print(f"  ... {text}: the others paused for {change.pause_s:.2f} s", erase=True)
        if steps and holds(steps):
            _print(f"  ... {what}: step {steps[-1].number}, loss {steps[-1].loss:.2f}", erase=True)
            return n_shown
        _show_progress(steps)
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {WAIT_S_MAX:.0f} s: {what}; see the logs below {home}")
        time.sleep(POLL_S)


def _logs_of_first(home: Path) -> list[str]:
    """All that each process of member 0 has printed, in their order."""
    paths = (home / "logs" / "default" / JOB).glob(f"{ROLE}-0*/*.log")
    return [path.read_text() for path in sorted(paths, key=lambda path: path.stat().st_mtime)]


def _log_of_first(home: Path) -> str:
    return "".join(_logs_of_first(home))


def _steps_of_first(home: Path) -> Steps:
    return steps_of(_log_of_first(home))


def _compare(log: str, home: Path) -> None:
    """Train the same alone, undisturbed and without pauses between steps, and compare."""
    script = home / "train.py"
    manifests = list(yaml.safe_load_all(JOB_FILE.read_text()))
    script.write_text(manifests[0]["data"]["train.py"])
    given = manifests[1]["spec"]["replicaSpecs"][ROLE]["template"]["spec"]["containers"][0]["env"]
    environ = {**os.environ, **{one["name"]: one["value"] for one in given}, "PAUSE_S": "0"}
    alone = subprocess.run(
        [sys.executable, str(script)], env=environ, capture_output=True, text=True, check=True
    )
    ours, other = length_of_weights(log), length_of_weights(alone.stdout)
    if ours is None or other is None:
        raise SystemExit(f"a training has not printed its end; see the logs below {home}")
    _print("One process alone, undisturbed, ends with the same weights:", gap="\n")
    _print(f"  their length is {other:.9f} there, and {ours:.9f} here.")


# ---- the terminal


def _swell(*arguments: str) -> None:
    _print(f"$ swell {' '.join(_short(argument) for argument in arguments)}", gap="\n")
    ended = subprocess.run([sys.executable, "-m", "swell.cli.main", *arguments], check=False)
    if ended.returncode:
        raise SystemExit(f"swell {arguments[0]} ended with {ended.returncode}")


def _short(argument: str) -> str:
    path = Path(argument)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else argument


def _show_progress(steps: Steps) -> None:
    """One line that is written over again and again; a pipe gets none."""
    if not sys.stdout.isatty():
        return
    last = steps[-1] if steps else None
    text = f"step {last.number}, loss {last.loss:.2f}, {last.size} members" if last else "loading"
    sys.stdout.write(f"\r\x1b[K  {text}")
    sys.stdout.flush()


def _print(text: str, gap: str = "", *, erase: bool = False) -> None:
    if erase and sys.stdout.isatty():
        gap = f"\r\x1b[K{gap}"
    sys.stdout.write(f"{gap}{text}\n")
    sys.stdout.flush()


def _is_coloured() -> bool:
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def _is_unicode() -> bool:
    return (sys.stdout.encoding or "").lower().replace("-", "") == "utf8"
