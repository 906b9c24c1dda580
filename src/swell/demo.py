"""`make demo`: what works today, shown in well under a minute, with nothing but Swell installed.

Runs the same commands a user would type, on an embedded cluster in a folder of its own.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
STOP_S_MAX = 10.0

BROKEN = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: my-job}
spec:
  cleanPodPolicy: Al
  replicaSpecs:
    trainer:
      replica: 2
      minReplicas: 3
      maxReplicas: 2
      template: {spec: {containers: [{name: aitj-trainer}]}}
"""


def main() -> int:
    """Tell the story; the first command that does not do as told ends it."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="swell-demo-") as folder:
        _mistakes_are_explained(Path(folder))
        _plans_need_no_cluster()
        with _server(Path(folder) / "home"):
            _a_cluster_on_this_machine()
    _say(f"Done in {time.monotonic() - started:.1f} s. Nothing is left running.")
    return 0


def _mistakes_are_explained(folder: Path) -> None:
    _say("1. A manifest with mistakes: all of them at once, with line and hint.")
    broken = folder / "my-job.yaml"
    broken.write_text(BROKEN)
    _swell("validate", str(broken), expect=1)


def _plans_need_no_cluster() -> None:
    _say("2. What the gang scheduler would do with a cluster, from a file of its objects.")
    _swell("plan", "schedule", "-f", str(EXAMPLES / "busy-cluster.yaml"), "-o", "table")


def _a_cluster_on_this_machine() -> None:
    _say("3. An embedded Kubernetes API on this machine; kubectl would work as well.")
    _swell("apply", "-f", str(EXAMPLES / "elastic.yaml"))
    _swell("get")
    _swell("get", "crds")
    _swell("delete", "elastic")


@contextmanager
def _server(home: Path) -> Iterator[None]:
    os.environ["SWELL_HOME"] = str(home)
    with subprocess.Popen(
        [sys.executable, "-m", "swell.cli.main", "server"], stdout=subprocess.PIPE, text=True
    ) as server:
        if server.stdout is None or not server.stdout.readline():
            raise SystemExit("the embedded server did not start")
        try:
            yield
        finally:
            server.terminate()
            server.wait(STOP_S_MAX)


def _swell(*words: str, expect: int = 0) -> None:
    sys.stdout.write(f"\n$ swell {' '.join(_short(word) for word in words)}\n")
    sys.stdout.flush()
    ended = subprocess.run([sys.executable, "-m", "swell.cli.main", *words], check=False)
    if ended.returncode != expect:
        raise SystemExit(f"swell {words[0]} ended with {ended.returncode}, not {expect}")


def _short(word: str) -> str:
    path = Path(word)
    return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else word


def _say(text: str) -> None:
    sys.stdout.write(f"\n{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
