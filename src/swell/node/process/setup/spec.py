"""From a pod's manifest to the order for a supervisor. Pure, but for the names of folders.

Where containers get private mounts, volumes and the hosts file are mounted. Where they do not,
names of pods and paths of volumes are replaced by the real ones in the variables, the command and
the files a container is given.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from swell.node.pods import BoundContainer, BoundPod, BoundVolume
from swell.node.process.setup.environment import (
    INHERITED,
    ContainerConfigError,
    NodeContext,
    ReferencedObjects,
    command_line,
    environment,
)
from swell.node.process.setup.volumes import is_written

HOSTS = "/etc/hosts"
_PYTHONS = frozenset({"python", "python3"})


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The machine, as far as it shows in a container. `namespace` is what a supervisor knows."""

    environ: Mapping[str, str]
    python: str
    namespace: str


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The folders and files of one run."""

    work: Path
    message: Path
    stage: Path
    log: Path
    hosts: Path
    volumes: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class RunInputs:
    """What is known about a container beside its manifest."""

    referred: ReferencedObjects
    around: NodeContext
    extra_env: Mapping[str, str]
    cgroups: tuple[str, ...]
    substitute: Callable[[str], str]


def run_spec(
    pod: BoundPod, container: BoundContainer, host: HostSettings, places: RunPaths, given: RunInputs
) -> dict[str, object]:
    """The order for one run; ConfigError when the container asks for what is not there."""
    own = environment(pod, container, given.referred, given.around) | dict(given.extra_env)
    argv = command_line(container, own)
    if "PATH" not in own and argv[0] in _PYTHONS:
        argv = (host.python, *argv[1:])
    env = base_environment(host) | {"HOSTNAME": pod.spec.hostname or pod.metadata.name} | own
    mounts = _mounts(pod, container, places)
    cwd = container.working_dir or str(places.work)
    if not host.namespace:
        real = {target: source for source, target, _ in mounts}

        def told(text: str) -> str:
            return given.substitute(_with_real_paths(text, real))

        argv = tuple(told(part) for part in argv)
        env = {name: told(value) if name in own else value for name, value in env.items()}
        cwd, mounts = _with_real_paths(cwd, real), []
        message: tuple[str, ...] = ()
    else:
        message = (str(places.message), container.message_path)
        mounts.insert(0, (str(places.hosts), HOSTS, True))
    return {
        "argv": argv,
        "env": env,
        "cwd": cwd,
        "log": str(places.log),
        "namespace": host.namespace,
        "mounts": tuple(mounts),
        "message": message,
        "cgroups": given.cgroups,
        "stage": str(places.stage),
    }


def base_environment(host: HostSettings) -> dict[str, str]:
    """What every container has: a way to find programs, first of all the Python we run on."""
    env = {name: host.environ[name] for name in INHERITED if name in host.environ}
    folder = str(Path(host.python).parent)
    usual = host.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return env | {"PATH": f"{folder}:{usual}"}


def check_volume(volume: BoundVolume) -> None:
    """ConfigError for a kind of volume that cannot be had on a bare machine."""
    kinds = (volume.empty_dir, volume.host_path, volume.projected)
    if all(kind is None for kind in kinds) and not volume.parts():
        raise ContainerConfigError(f"volume {volume.name} is of a kind that is not supported here")


def _mounts(
    pod: BoundPod, container: BoundContainer, places: RunPaths
) -> list[tuple[str, str, bool]]:
    """Source, target, read only; outer targets before those inside them."""
    mounts: list[tuple[str, str, bool]] = []
    written = {volume.name for volume in pod.spec.volumes if is_written(volume)}
    for mount in container.volume_mounts:
        folder = places.volumes.get(mount.name)
        if folder is None:
            raise ContainerConfigError(f"there is no volume {mount.name}")
        if ".." in mount.sub_path.split("/") or mount.sub_path.startswith("/"):
            raise ContainerConfigError(f"{mount.sub_path} is no path within volume {mount.name}")
        source = folder / mount.sub_path if mount.sub_path else folder
        target = "/" + mount.mount_path.strip("/")
        mounts.append((str(source), target, mount.read_only or mount.name in written))
    return sorted(mounts, key=lambda entry: entry[1].count("/"))


def _with_real_paths(text: str, real: Mapping[str, str]) -> str:
    for target in sorted(real, key=len, reverse=True):
        text = text.replace(target, real[target])
    return text
