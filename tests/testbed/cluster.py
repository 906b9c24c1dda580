"""A whole Kubernetes with two real nodes for a test run, and what tests do to its nodes.

The cluster is held by a program of its own that takes it away when the run is over, also when the
run was killed. Nothing here knows what Swell is.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed import control_plane, node
from testbed.cluster import load_images, wait_for_server
from testbed.images import BUSYBOX
from testbed.site import NODES, Site, find_site

ROOT = Path(__file__).parents[2]
END_S_MAX = 120.0

__all__ = ["BUSYBOX", "NODES", "ClusterNotStartedError", "RealCluster", "running_cluster"]


class ClusterNotStartedError(Exception):
    """The cluster did not come up; the text is what the start said."""


@dataclass(frozen=True, slots=True)
class RealCluster:
    """A running cluster: its kubeconfig is the administrator's."""

    site: Site

    @property
    def kubeconfig(self) -> Path:
        return self.site.kubeconfig

    def load_images(self, tar: Path) -> None:
        """Give every node the images of a tar file."""
        load_images(self.site, tar)

    def kill_node(self, name: str) -> None:
        """Kill kubelet and containerd; the node's containers run on, unseen."""
        node.kill_programs(self.site, name)

    def kill_containers(self, name: str) -> None:
        """Kill what still runs on a killed node, as a loss of power would have."""
        node.kill_containers(self.site, name)

    def start_node(self, name: str) -> None:
        """Start kubelet and containerd again on what they had."""
        node.start_containerd(self.site, name)
        node.start_kubelet(self.site, name)

    def publish_devices(self, name: str, orders: Mapping[str, object]) -> None:
        """Have a node's driver publish devices, and fail as ordered."""
        node.publish_devices(self.site, name, orders)

    def restart_api_server(self) -> None:
        """Kill the API server and start it again on what it had."""
        control_plane.kill_server(self.site)
        control_plane.start_server(self.site)
        wait_for_server(self.site)


@contextlib.contextmanager
def running_cluster(folder: Path) -> Iterator[RealCluster]:
    """Run a cluster in a folder that does not exist yet."""
    log = folder.with_suffix(".log")
    command = [sys.executable, "-m", "testbed.cluster", "--folder", str(folder), "run"]
    with (
        log.open("wb") as said,
        subprocess.Popen(
            command,
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=said,
            start_new_session=True,  # an interrupted run ends the cluster by closing stdin
        ) as holder,
    ):
        assert holder.stdin is not None
        assert holder.stdout is not None
        started = holder.stdout.readline()
        site = find_site(folder)
        if not started or site is None:
            holder.wait()
            raise ClusterNotStartedError(log.read_text(encoding="utf-8"))
        try:
            yield RealCluster(site)
        finally:
            holder.stdin.close()
            holder.wait(END_S_MAX)
    if holder.returncode != 0:
        raise ClusterNotStartedError(log.read_text(encoding="utf-8"))
