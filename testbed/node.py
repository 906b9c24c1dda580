"""One node of a test cluster: containerd and kubelet in a file-system view of their own.

A node sees the machine's files, but /run, /var/lib and /var/log are its own: both nodes use the
paths that the programs use anywhere, and what they mount is gone with their last process. /var/lib,
with all images and containers, is in memory: nobody waits for a disk to write and to remove it.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from testbed import daemons, images
from testbed.build import bin_dir, cni_dir
from testbed.site import Site

OWN_FOLDERS = ("run", "var/lib", "var/log")
ANCHOR_S_MAX = 10.0
SOCKET_S_MAX = 30.0
POLL_S = 0.05
DRA_DRIVER = "dra-driver"
SOCKET = "/run/containerd/containerd.sock"
# Keeps the view alive while the node's programs are killed and started again.
ANCHOR = """for own in run var/log; do mount --bind "$1/$own" "/$own" || exit 1; done
mount -t tmpfs -o mode=755 node /var/lib &&
mount --make-rshared / && exec sleep 2147483647"""
# Layers are stacked where the file system takes it, and copied where it does not.
STACK = """mount -t tmpfs layers "$1" && mkdir "$1/low" "$1/high" "$1/work" "$1/all" &&
mount -t overlay none -o "lowerdir=$1/low,upperdir=$1/high,workdir=$1/work" "$1/all" """


class NodeError(Exception):
    """A program of a node does not do its part; the text ends with its last lines."""


def prepare(site: Site, node: str) -> None:
    """Write the node's files and make the cgroups that its pods will be in."""
    folder = site.node_folder(node)
    for own in (*OWN_FOLDERS, "cni", "cdi"):
        (folder / own).mkdir(parents=True, exist_ok=True)
    (folder / "containerd.toml").write_text(_containerd_config(site, folder), encoding="utf-8")
    (folder / "cni" / "10-pods.conflist").write_text(_network(site, node), encoding="utf-8")
    (folder / "resolv.conf").write_text(f"nameserver {site.dns_address}\n", encoding="utf-8")
    (folder / "kubelet.json").write_text(_kubelet_config(site, node), encoding="utf-8")
    for hierarchy in daemons.hierarchies():
        for cgroup in (hierarchy / site.cgroup, hierarchy / site.cgroup / node):
            cgroup.mkdir(exist_ok=True)
            for setting in ("cpuset.cpus", "cpuset.mems"):
                if (cgroup / setting).exists():
                    (cgroup / setting).write_text((cgroup.parent / setting).read_text())


def start_containerd(site: Site, node: str) -> None:
    """Start containerd in the node's view and wait until it answers."""
    config = site.node_folder(node) / "containerd.toml"
    command = [str(bin_dir() / "containerd"), "--config", str(config)]
    _start(site, node, "containerd", command)
    deadline = time.monotonic() + SOCKET_S_MAX
    while ctr(site, node, "version").returncode != 0:
        # Whatever it is called: for a moment it is still the program that starts it.
        if time.monotonic() > deadline or not daemons.pids(_home(site, node, "containerd")):
            last = daemons.log_tail(site, f"{node}-containerd")
            raise NodeError(f"containerd of {node} does not answer; its last lines:\n{last}")
        time.sleep(POLL_S)


def start_kubelet(site: Site, node: str) -> None:
    """Start the kubelet; it gives up at once without a containerd."""
    folder = site.node_folder(node)
    command = [
        str(bin_dir() / "kubelet"),
        f"--config={folder / 'kubelet.json'}",
        f"--kubeconfig={folder / 'kubeconfig'}",
        f"--hostname-override={node}",
        f"--node-ip={site.node_address(node)}",
    ]
    _start(site, node, "kubelet", command)


def publish_devices(site: Site, node: str, orders: Mapping[str, object]) -> None:
    """Have the driver of a node publish devices and obey what is ordered; it is started once."""
    folder = site.node_folder(node)
    file = folder / "devices.json"
    draft = file.with_suffix(".tmp")
    draft.write_text(json.dumps(orders), encoding="utf-8")
    draft.replace(file)
    if _pid(site, node, DRA_DRIVER) is not None:
        return
    command = [
        str(bin_dir() / DRA_DRIVER),
        f"--kubeconfig={site.kubeconfig}",
        f"--node={node}",
        f"--devices={file}",
        f"--cdi={folder / 'cdi'}",
    ]
    _start(site, node, DRA_DRIVER, command)


def load_images(site: Site, node: str, tar: Path) -> None:
    """Give a node every image of a tar file."""
    importing = ("images", "import", "--local", "--snapshotter", snapshotter(site))
    done = ctr(site, node, *importing, str(tar))
    if done.returncode != 0:
        raise NodeError(f"{node} does not take {tar}: {done.stderr.strip()}")


def snapshotter(site: Site) -> str:
    """How containerd makes a container's file system of an image's layers."""
    with tempfile.TemporaryDirectory(dir=site.folder, prefix="layers-") as scratch:
        tried = ["unshare", "--mount", "sh", "-c", STACK, "sh", scratch]
        done = subprocess.run(tried, capture_output=True, check=False)
    return "overlayfs" if done.returncode == 0 else "native"


def kill_programs(site: Site, node: str) -> None:
    """Kill kubelet and containerd as a crash would; the containers run on."""
    for program in ("kubelet", "containerd"):
        daemons.kill([_home(site, node, program)], program)


def kill_containers(site: Site, node: str) -> None:
    """Kill what runs in pods, and whoever watches it, as a loss of power would."""
    places = [hierarchy / site.cgroup / node for hierarchy in daemons.hierarchies()]
    daemons.kill([*places, _home(site, node, "containerd")])


def is_running(site: Site, node: str) -> bool:
    return all(_pid(site, node, program) for program in ("containerd", "kubelet"))


def ctr(site: Site, node: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run containerd's own client in a node's view."""
    inside = ["nsenter", f"--mount=/proc/{_anchor(site, node)}/ns/mnt"]
    command = [str(bin_dir() / "ctr"), "--address", SOCKET, "--namespace", "k8s.io", *arguments]
    return subprocess.run([*inside, *command], capture_output=True, text=True, check=False)


def _start(site: Site, node: str, name: str, command: list[str]) -> None:
    anchor = _anchor(site, node)
    daemons.start(site, f"{node}-{name}", command, mounts_of_pid=anchor)


def _anchor(site: Site, node: str) -> int:
    """The process that holds the node's view of the file system; made when there is none."""
    name = f"{node}-anchor"
    pid = daemons.daemon_pid(site, name, "sleep")
    if pid is not None:
        return pid
    folder = site.node_folder(node)
    alone = ["unshare", "--mount", "--propagation", "private"]
    daemons.start(site, name, [*alone, "sh", "-c", ANCHOR, "sh", str(folder)])
    deadline = time.monotonic() + ANCHOR_S_MAX
    while (pid := daemons.daemon_pid(site, name, "sleep")) is None:
        if time.monotonic() > deadline:
            raise NodeError(f"{node} gets no mounts: {daemons.log_tail(site, name)}")
        time.sleep(POLL_S)
    return pid


def _home(site: Site, node: str, name: str) -> Path:
    return daemons.tracking_cgroup(site) / daemons.DAEMONS / f"{node}-{name}"


def _pid(site: Site, node: str, program: str) -> int | None:
    return daemons.daemon_pid(site, f"{node}-{program}", program)


def _containerd_config(site: Site, folder: Path) -> str:
    """Lowering a process's score for the out-of-memory killer is not allowed everywhere."""
    return f"""version = 3

[plugins.'io.containerd.cri.v1.images']
  snapshotter = '{snapshotter(site)}'
[plugins.'io.containerd.cri.v1.images'.pinned_images]
  sandbox = '{images.PAUSE}'

[plugins.'io.containerd.cri.v1.runtime']
  restrict_oom_score_adj = true
  cdi_spec_dirs = ['{folder / "cdi"}']
[plugins.'io.containerd.cri.v1.runtime'.cni]
  bin_dirs = ['{cni_dir()}']
  conf_dir = '{folder / "cni"}'
"""


def _network(site: Site, node: str) -> str:
    first, last = site.pod_range(node)
    addresses = {
        "subnet": site.network,
        "rangeStart": first,
        "rangeEnd": last,
        "gateway": site.api_address,
    }
    plugin = {
        "type": "bridge",
        "bridge": site.bridge,
        "ipam": {"type": "host-local", "ranges": [[addresses]], "routes": [{"dst": "0.0.0.0/0"}]},
    }
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [plugin]}, indent=2)


def _kubelet_config(site: Site, node: str) -> str:
    config = {
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "address": site.node_address(node),
        "healthzBindAddress": site.node_address(node),
        "authentication": {
            "anonymous": {"enabled": False},
            "webhook": {"enabled": True},
            "x509": {"clientCAFile": str(site.folder / "ca.crt")},
        },
        "authorization": {"mode": "Webhook"},
        "containerRuntimeEndpoint": f"unix://{SOCKET}",
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": f"/{site.cgroup}/{node}",
        "failCgroupV1": False,
        "failSwapOn": False,
        "enforceNodeAllocatable": [],
        "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%"},
        "clusterDNS": [site.dns_address],
        "clusterDomain": "cluster.local",
        "resolvConf": str(site.node_folder(node) / "resolv.conf"),
        "registerNode": True,
        # A node is missed after ten seconds here, so it must speak up more often than usual.
        "nodeStatusUpdateFrequency": "2s",
        "nodeStatusReportFrequency": "5s",
        "nodeLeaseDurationSeconds": 8,
        # Changed configuration reaches running containers while a test waits for it.
        "syncFrequency": "5s",
        "serializeImagePulls": False,
        "maxPods": 110,
    }
    return json.dumps(config, indent=2)
