"""A control plane with the deploy files applied, and their programs run on this machine: each as
the ServiceAccount of its Deployment, and no more."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import yaml

from swell.api.meta import Body
from tests.e2e.deploy.rights import Right, Use, granted, used
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kubectl import Kubectl

ROOT = Path(__file__).parents[3]
DEPLOY = ROOT / "deploy"
NAMESPACE = "swell-system"
STOP_S_MAX = 30.0
WITHIN_S = 60.0


@dataclass(frozen=True, slots=True)
class Installed:
    plane: ControlPlane
    home: Path
    audit_log: Path
    namespace: str = NAMESPACE

    @property
    def kubectl(self) -> Kubectl:
        return Kubectl(self.plane.kubeconfig, self.home)

    def kubeconfig_of(self, part: str) -> Path:
        """With a token of the part's ServiceAccount."""
        path = self.home / f"{self.namespace}-{part}.kubeconfig"
        if not path.exists():
            token = self.kubectl.ok(
                "create", "token", f"swell-{part}", "-n", self.namespace
            ).strip()
            config = json.loads(self.plane.kubeconfig.read_text())
            config["users"][0]["user"] = {"token": token}
            path.write_text(json.dumps(config))
        return path

    @contextmanager
    def running(self, part: str, flags: Sequence[str] = ()) -> Iterator[None]:
        """The process of a Deployment."""
        with self.run(deployment(part), part, flags):
            yield

    @contextmanager
    def logging(self, part: str) -> Iterator[Path]:
        """The process of a Deployment, and the file that holds its log."""
        log = self.home / f"{part}.log"
        with log.open("w") as file, self.run(deployment(part), part, said=file):
            yield log

    @contextmanager
    def run(
        self, manifest: Body, part: str, flags: Sequence[str] = (), said: IO[str] | None = None
    ) -> Iterator[None]:
        [container] = manifest["spec"]["template"]["spec"]["containers"]
        given = [flag for flag in container["args"] if "-addr" not in flag]
        own = [_here(flag, part).replace("$(POD_NAMESPACE)", self.namespace) for flag in given]
        command = [sys.executable, "-m", "swell.cli.main", *container["command"][1:], *own, *flags]
        env = {**os.environ, "POD_NAMESPACE": self.namespace}
        kubeconfig = f"--kubeconfig={self.kubeconfig_of(part)}"
        with subprocess.Popen([*command, kubeconfig], env=env, stdout=said, stderr=said) as process:
            try:
                yield
                assert process.poll() is None, f"the {part} ended by itself"
            finally:
                process.terminate()
                process.wait(STOP_S_MAX)

    def uses(self, part: str) -> list[Use]:
        return used(self.audit_log, f"system:serviceaccount:{self.namespace}:swell-{part}")

    async def until_used(self, part: str, right: Right) -> None:
        async with asyncio.timeout(WITHIN_S):
            while right not in {use.right for use in self.uses(part)}:  # noqa: ASYNC110
                await asyncio.sleep(0.5)


def deployment(part: str) -> Body:
    found: Body = yaml.safe_load((DEPLOY / part / "deployment.yaml").read_text())
    return found


def rights_of(part: str) -> set[Right]:
    return granted((DEPLOY / part / "rbac.yaml").read_text())


def _here(flag: str, part: str) -> str:
    """A file that a pod finds in a volume is in the folder of the deploy files."""
    return flag.replace("/etc/swell", str(DEPLOY / part))
