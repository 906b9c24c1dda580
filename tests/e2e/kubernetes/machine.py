"""What a test does on the cluster's machine: in containers, to nodes, with kubectl."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from swell.api.meta import Key
from tests.testbed.cluster import RealCluster
from tests.testbed.kubectl import Kubectl, KubectlError

SLOW_S = 120.0
KILLED = 137


@dataclass(frozen=True, slots=True)
class RealMachine:
    """Real nodes by name, and kubectl as the administrator."""

    cluster: RealCluster
    kubectl: Kubectl

    async def tell(self, pod: Key, script: str) -> None:
        """Run a script in a pod's first container, which may be the end of that container."""
        command = ("exec", "-n", pod.namespace, pod.name, "--", "sh", "-c", script)
        done = await asyncio.to_thread(self.kubectl.run, *command, timeout_s=SLOW_S)
        if done.exit_code not in {0, KILLED}:
            raise KubectlError(done)

    async def log(self, pod: Key, *, is_followed: bool = False) -> str:
        """What a pod has said; followed, until its container ends."""
        follow = ("--follow",) if is_followed else ()
        return await self.ok("logs", "-n", pod.namespace, pod.name, *follow)

    async def ok(self, *arguments: str) -> str:
        """Run kubectl without holding up who else is playing."""
        return await asyncio.to_thread(self.kubectl.ok, *arguments, timeout_s=SLOW_S)
