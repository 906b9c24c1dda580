"""Runs the built kubectl against one cluster. Decides nothing about what its output means."""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import binaries

TIMEOUT_S = 60.0


class KubectlError(Exception):
    """kubectl ended with another code than 0; carries all it said."""

    def __init__(self, result: KubectlResult) -> None:
        super().__init__(
            f"kubectl {' '.join(result.arguments)} ended with {result.exit_code}: {result.stderr}"
        )
        self.result = result


@dataclass(frozen=True, slots=True)
class KubectlResult:
    """One finished call."""

    arguments: tuple[str, ...]
    exit_code: int
    stdout: str
    stderr: str


@dataclass(frozen=True, slots=True)
class Kubectl:
    """kubectl with one kubeconfig and a cache folder of its own: nothing of the user's is read."""

    kubeconfig: Path
    cache_dir: Path

    def run(
        self, *arguments: str, stdin: str = "", editor: str = "", timeout_s: float = TIMEOUT_S
    ) -> KubectlResult:
        """Run to the end and tell all, whatever the exit code."""
        command = [
            str(binaries.binary("kubectl")),
            f"--kubeconfig={self.kubeconfig}",
            f"--cache-dir={self.cache_dir}",
            *arguments,
        ]
        kept = ("PATH", "TMPDIR", "EDITOR", "KUBE_EDITOR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        if editor:
            environment["KUBE_EDITOR"] = editor
        done = subprocess.run(
            command,
            env=environment | {"HOME": str(self.cache_dir)},
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        return KubectlResult(arguments, done.returncode, done.stdout, done.stderr)

    def ok(self, *arguments: str, stdin: str = "", timeout_s: float = TIMEOUT_S) -> str:
        """Run, insist on success, and return stdout."""
        result = self.run(*arguments, stdin=stdin, timeout_s=timeout_s)
        if result.exit_code != 0:
            raise KubectlError(result)
        return result.stdout
