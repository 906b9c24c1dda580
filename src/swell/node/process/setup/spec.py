"""Turns a pod's manifest into the spec of a supervised run. Pure.

Where containers have private mounts, volumes and the hosts file are mounted. Where they do not,
names of pods and paths of volumes are replaced by the real ones in the variables, the command and
the files of a container.
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
from swell.node.process.setup.users import RunUser
from swell.node.process.setup.volumes import is_written

HOSTS = "/etc/hosts"
# Where a container of another user finds its working folder: the way to the real one is closed.
WORK = "/run/swell/work"
# Variables of the agent's user, which are wrong for another one.
_OF_USER = ("HOME", "LOGNAME", "TMPDIR", "USER")
_PYTHONS = frozenset({"python", "python3"})


@dataclass(frozen=True, slots=True)
class HostSettings:
    """The agent's environment, as far as it shows in a container.

    `namespace` is the kind of private mounts, as in a supervisor's spec.
    """

    environ: Mapping[str, str]
    python: str
    namespace: str
    # For containers of other users: what is mounted so that they can run Python, and the folders
    # that are closed to them and in the way of it.
    python_mounts: tuple[tuple[str, str, bool], ...] = ()
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RunPaths:
    """The folders and files of one run on the host."""

    work: Path
    message: Path
    stage: Path
    log: Path
    hosts: Path
    volumes: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class RunInputs:
    """The values that a run takes from elsewhere than its manifest."""

    referenced: ReferencedObjects
    context: NodeContext
    extra_env: Mapping[str, str]
    cgroups: tuple[str, ...]
    substitute: Callable[[str], str]
    user: RunUser | None = None  # None: the agent's
    hidden: tuple[str, ...] = ()  # folders that the container must not see, if it has no own user


def run_spec(
    pod: BoundPod, container: BoundContainer, host: HostSettings, paths: RunPaths, inputs: RunInputs
) -> dict[str, object]:
    """Returns the spec of one run.

    Raises ContainerConfigError when the container asks for something that is not there.
    """
    own = environment(pod, container, inputs.referenced, inputs.context) | dict(inputs.extra_env)
    argv = command_line(container, own)
    # Without an image, `python` is the one that runs Swell, unless the pod chooses by PATH.
    if "PATH" not in own and argv[0] in _PYTHONS:
        argv = (host.python, *argv[1:])
    env = base_environment(host) | {"HOSTNAME": pod.spec.hostname or pod.metadata.name} | own
    mounts = _mounts(pod, container, paths)
    cwd = container.working_dir or str(paths.work)
    if inputs.user is not None or inputs.hidden:
        cwd = container.working_dir or WORK
        mounts = [*host.python_mounts, *mounts, (str(paths.work), WORK, False)]
        env = {n: v for n, v in env.items() if n in own or n not in _OF_USER} | {"HOME": WORK} | own
    if not host.namespace:
        real = {target: source for source, target, _ in mounts}

        def localized(text: str) -> str:
            return inputs.substitute(_with_real_paths(text, real))

        argv = tuple(localized(part) for part in argv)
        env = {name: localized(value) if name in own else value for name, value in env.items()}
        cwd, mounts = _with_real_paths(cwd, real), []
        message: tuple[str, ...] = ()
    else:
        message = (str(paths.message), container.message_path)
        mounts.insert(0, (str(paths.hosts), HOSTS, True))
    spec: dict[str, object] = {
        "argv": argv,
        "env": env,
        "cwd": cwd,
        "log": str(paths.log),
        "namespace": host.namespace,
        "mounts": tuple(mounts),
        "message": message,
        "cgroups": inputs.cgroups,
        "stage": str(paths.stage),
    }
    # Only where they are used: an agent of an earlier release reads the other specs as well.
    if host.namespace and (roots := _roots(container, paths)):
        spec["roots"] = roots
    if inputs.user is not None:
        spec |= {"user": inputs.user.numbers, "hidden": host.closed}
    elif inputs.hidden:
        spec |= {"hidden": inputs.hidden, "read_only": True}
    return spec


def base_environment(host: HostSettings) -> dict[str, str]:
    """Returns the variables that every container has.

    PATH starts with the folder of the Python that runs Swell.
    """
    env = {name: host.environ[name] for name in INHERITED if name in host.environ}
    folder = str(Path(host.python).parent)
    usual = host.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin")
    return env | {"PATH": f"{folder}:{usual}"}


def check_volume(volume: BoundVolume) -> None:
    """Raise ContainerConfigError for a kind of volume that needs more than this machine."""
    claim = volume.persistent_volume_claim
    kinds = (volume.empty_dir, volume.host_path, volume.projected, claim)
    if all(kind is None for kind in kinds) and not volume.parts():
        raise ContainerConfigError(f"volume {volume.name} is of a kind that is not supported here")


def _mounts(
    pod: BoundPod, container: BoundContainer, paths: RunPaths
) -> list[tuple[str, str, bool]]:
    """Returns source, target and whether it is read only, outer targets before inner ones."""
    mounts: list[tuple[str, str, bool]] = []
    written = {volume.name for volume in pod.spec.volumes if is_written(volume)}
    written |= {
        volume.name
        for volume in pod.spec.volumes
        if volume.persistent_volume_claim is not None and volume.persistent_volume_claim.read_only
    }
    for mount in container.volume_mounts:
        folder = paths.volumes.get(mount.name)
        if folder is None:
            raise ContainerConfigError(f"there is no volume {mount.name}")
        source = part_of(folder, mount.sub_path, mount.name) if mount.sub_path else folder
        target = "/" + mount.mount_path.strip("/")
        mounts.append((str(source), target, mount.read_only or mount.name in written))
    return sorted(mounts, key=lambda entry: entry[1].count("/"))


def part_of(folder: Path, sub_path: str, volume: str) -> Path:
    """The place of a part of a volume, without links; ContainerConfigError when it is outside."""
    if ".." in sub_path.split("/") or sub_path.startswith("/"):
        raise ContainerConfigError(f"{sub_path} is no path within volume {volume}")
    # A container may have made links in the volume, which lead anywhere.
    place = (folder / sub_path).resolve()
    if not place.is_relative_to(folder.resolve()):
        raise ContainerConfigError(f"subPath {sub_path} leads out of {volume}")
    return place


def _roots(container: BoundContainer, paths: RunPaths) -> tuple[str, ...]:
    """The volumes of which the container mounts parts."""
    names = {mount.name for mount in container.volume_mounts if mount.sub_path}
    return tuple(sorted(str(paths.volumes[name].resolve()) for name in names))


def _with_real_paths(text: str, real: Mapping[str, str]) -> str:
    # The longest first: one target may be the beginning of another.
    for target in sorted(real, key=len, reverse=True):
        text = text.replace(target, real[target])
    return text
