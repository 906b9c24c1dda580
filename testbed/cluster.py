"""A whole Kubernetes on this machine: control plane, two real nodes, pod network and DNS.

Decides the order of a start and when a cluster is ready. What is started, and how it is removed
again, is said elsewhere. Needs root and nothing but Python's standard library.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from image.oci import write_images
from testbed import control_plane, daemons, images, node, packages, teardown
from testbed.build import COMMANDS, bin_dir, cni_dir
from testbed.site import NODES, PREFIX_BITS, NoSiteError, Site, claim_site, find_site

FOLDER = Path(".cluster")
READY_S_MAX = 180.0
REQUEST_S_MAX = 5.0
POLL_S = 0.1
TOOLS = ("openssl", "nsenter", "unshare", "setsid", "mount")
# What a node has of its own hides these, and with them whatever of the cluster were inside.
HIDDEN = tuple(Path("/") / own for own in node.OWN_FOLDERS)


class ClusterError(Exception):
    """The cluster cannot be had; the text says why and what to do."""


FAILURES = (
    ClusterError,
    NoSiteError,
    OSError,
    daemons.StillRunningError,
    node.NodeError,
    subprocess.CalledProcessError,
    teardown.TeardownError,
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Obey one command; on stdout appears the path of the kubeconfig and nothing else."""
    flags = _parse(arguments)
    folder = Path(flags.folder).absolute()
    try:
        with _interruptible():
            _obey(flags, folder)
    except KeyboardInterrupt:
        _say("interrupted")
        return 130
    except FAILURES as error:
        _say(f"failed: {error}")
        return 1
    return 0


def up(folder: Path) -> Site:
    """Start a cluster; when that fails or is interrupted, nothing of it is left."""
    check(folder)
    begun = time.monotonic()
    site = claim_site(folder)
    try:
        _start(site)
    except BaseException:
        _say("taking away what was started")
        with _uninterrupted():
            teardown.take_down(site)
        raise
    _say(f"ready after {time.monotonic() - begun:.1f} s, in {folder}")
    return site


def down(folder: Path) -> None:
    """Take a cluster away, whatever state it is in; no cluster is fine, too."""
    _check_root()
    site = find_site(folder)
    if site is None:
        _say(f"no cluster in {folder}")
        return
    with _uninterrupted():
        teardown.take_down(site)
    _say(f"{folder} is gone with all it held")


def load(folder: Path, tar: Path) -> None:
    """Give every node the images of a tar file."""
    site = find_site(folder)
    if site is None:
        raise ClusterError(f"no cluster in {folder}")
    load_images(site, tar.absolute())


def check(folder: Path) -> None:
    """Raise unless a cluster can be started in the folder."""
    _check_root()
    names = [command.name for command in COMMANDS] + list(packages.PROGRAMS)
    wanted = [bin_dir() / name for name in names] + [cni_dir() / name for name in packages.PLUGINS]
    missing = [file.name for file in wanted if not os.access(file, os.X_OK)]
    if missing:
        raise ClusterError(f"{', '.join(missing)} not found: run `make testbed` once")
    absent = [tool for tool in TOOLS if not shutil.which(tool)]
    if absent:
        raise ClusterError(f"{', '.join(absent)} not found on this machine")
    if not (daemons.TRACKING / "cgroup.procs").exists():
        raise ClusterError(f"no cgroups of version 1 at {daemons.TRACKING}")
    for path in (folder, bin_dir().resolve()):
        if any(hidden in path.parents for hidden in HIDDEN):
            raise ClusterError(f"{path} must not be below any of {', '.join(map(str, HIDDEN))}")
    if find_site(folder) is not None or folder.exists():
        raise ClusterError(f"{folder} is there already: take it away with `make cluster-down`")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="testbed.cluster", description="A Kubernetes for tests.")
    parser.add_argument("--folder", default=str(FOLDER), help="where it lives (default: .cluster)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("up", help="start it and leave it running")
    commands.add_parser("down", help="take it away")
    commands.add_parser("run", help="start it and take it away when stdin ends")
    loader = commands.add_parser("load", help="give every node the images of a tar file")
    loader.add_argument("tar", type=Path)
    return parser.parse_args(arguments)


def _obey(flags: argparse.Namespace, folder: Path) -> None:
    match flags.command:
        case "up":
            print(up(folder).kubeconfig)
        case "down":
            down(folder)
        case "load":
            load(folder, flags.tar)
        case "run":
            try:
                print(up(folder).kubeconfig, flush=True)
                sys.stdin.read()
            finally:
                down(folder)


def _check_root() -> None:
    if os.geteuid() != 0:
        raise ClusterError("nodes need root: mounts, cgroups and a network bridge are made")


def _start(site: Site) -> None:
    site.folder.mkdir(parents=True)
    for name in NODES:
        node.prepare(site, name)
    _make_bridge(site)
    control_plane.write_certificates(site)
    control_plane.write_identities(site)
    control_plane.start_store(site)
    control_plane.start_server(site)
    tar = site.folder / "images.tar"
    write_images(tar, images.busybox_images(bin_dir() / "busybox"))
    _say("control plane and containerd are starting")
    _on_every_node(lambda name: node.start_containerd(site, name))
    load_images(site, tar)
    wait_for_server(site)
    control_plane.start_controllers(site)
    for name in NODES:
        node.start_kubelet(site, name)
    _say("nodes, controllers and DNS are starting")
    for name in NODES:
        _wait(site, f"{name}-kubelet", _asker(site, f"/api/v1/nodes/{name}", _is_ready_node))
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    _wait(site, "kube-controller-manager", _asker(site, account, _is_there))
    _wait(site, "coredns", lambda: _dns_answer(site))


def wait_for_server(site: Site) -> None:
    _wait(site, control_plane.API_SERVER, _asker(site, "/readyz", _is_ok))


def load_images(site: Site, tar: Path) -> None:
    _on_every_node(lambda name: node.load_images(site, name, tar))


def _on_every_node(act: Callable[[str], None]) -> None:
    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(act, name) for name in NODES]:
            done.result()


def _make_bridge(site: Site) -> None:
    own = [site.api_address, site.dns_address, *(site.node_address(name) for name in NODES)]
    _ip("link", "add", site.bridge, "type", "bridge")
    for address in own:
        _ip("addr", "add", f"{address}/{PREFIX_BITS}", "dev", site.bridge)
    _ip("link", "set", site.bridge, "up")


def _ip(*arguments: str) -> None:
    subprocess.run([bin_dir() / "busybox", "ip", *arguments], check=True)


def _wait(site: Site, name: str, ask: Callable[[], str]) -> None:
    """Ask until the answer is empty; one that does not come ends with the program's own words."""
    begun = time.monotonic()
    while answer := ask():
        ended = not daemons.pids(daemons.tracking_cgroup(site) / daemons.DAEMONS / name)
        if ended or time.monotonic() - begun > READY_S_MAX:
            what = "has ended" if ended else f"is not ready after {READY_S_MAX:.0f} s"
            last = daemons.log_tail(site, name)
            raise ClusterError(f"{name} {what} ({answer}); its last lines:\n{last}")
        time.sleep(POLL_S)


def _asker(site: Site, path: str, judge: Callable[[int, bytes], str]) -> Callable[[], str]:
    """A question to the API server; empty is the answer that is waited for."""
    trust = ssl.create_default_context(cafile=str(site.folder / "ca.crt"))
    headers = {"Authorization": f"Bearer {control_plane.admin_token(site)}"}

    def ask() -> str:
        connection = http.client.HTTPSConnection(
            site.api_address, timeout=REQUEST_S_MAX, context=trust
        )
        with contextlib.closing(connection):
            try:
                connection.request("GET", path, headers=headers)
                response = connection.getresponse()
                return judge(response.status, response.read())
            except (OSError, http.client.HTTPException) as error:
                return f"{type(error).__name__}: {error}"

    return ask


def _is_ok(status: int, body: bytes) -> str:
    return "" if status == http.HTTPStatus.OK else f"{status} {body.decode(errors='replace')}"


def _is_there(status: int, _body: bytes) -> str:
    return "" if status == http.HTTPStatus.OK else f"the API server says {status}"


def _is_ready_node(status: int, body: bytes) -> str:
    if status != http.HTTPStatus.OK:
        return "the node is not registered"
    conditions = json.loads(body)["status"].get("conditions", [])
    ready = next((one for one in conditions if one["type"] == "Ready"), None)
    if ready is None:
        return "the node says nothing of itself"
    return "" if ready["status"] == "True" else str(ready["message"])


def _dns_answer(site: Site) -> str:
    connection = http.client.HTTPConnection(
        site.loopback, control_plane.DNS_READY_PORT, timeout=REQUEST_S_MAX
    )
    with contextlib.closing(connection):
        try:
            connection.request("GET", "/ready")
            return _is_ok(connection.getresponse().status, b"")
        except (OSError, http.client.HTTPException) as error:
            return f"{type(error).__name__}: {error}"


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let a polite end come as an interruption, so that what was begun is taken away."""
    before = {number: signal.signal(number, _interrupt) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def _uninterrupted() -> Iterator[None]:
    """Let nothing but force stop what must be done to its end."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in ENDS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


ENDS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _say(line: str) -> None:
    print(f"cluster: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
