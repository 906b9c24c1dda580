"""Gives a container its own view of the file system, where only the mounts of its spec differ."""

from __future__ import annotations

import os

from .kernel import mount, open_beneath, set_writable, unshare
from .protocol import RunSpec

# From linux/sched.h and linux/mount.h.
CLONE_NEWNS, CLONE_NEWUSER = 0x20000, 0x10000000
MS_RDONLY, MS_REMOUNT, MS_BIND, MS_MOVE, MS_REC, MS_PRIVATE = 1, 32, 4096, 8192, 16384, 1 << 18
MS_KEPT = 2 | 4 | 8 | 1024 | 2048  # nosuid, nodev, noexec, noatime, nodiratime
MS_RELATIME, ST_RELATIME = 1 << 21, 4096
_FOR_ALL = ("/tmp", "/dev/shm")  # noqa: S108 - folders that every user may write to


def enter_namespace(spec: RunSpec) -> None:
    """Enter a new mount namespace with the mounts of the spec, and otherwise the host's."""
    uid, gid = os.getuid(), os.getgid()
    is_user = spec.namespace == "user"
    unshare(CLONE_NEWNS | (CLONE_NEWUSER if is_user else 0))
    if is_user:
        # The process keeps its user and group. The kernel wants setgroups denied first.
        for name, text in (
            ("setgroups", "deny"),
            ("uid_map", f"{uid} {uid} 1"),
            ("gid_map", f"{gid} {gid} 1"),
        ):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    mount("none", "/", MS_REC | MS_PRIVATE)
    for source, target, read_only in spec.mounts:
        _bind(source, target, spec)
        if read_only:
            # A bind mount ignores the read-only flag; only remounting it sets the flag.
            mount("none", target, MS_BIND | MS_REMOUNT | MS_RDONLY | _kept_flags(target))
    if spec.message:
        source, target = spec.message
        _mount_if_possible(source, target, spec.stage)
    if spec.hidden:
        _hide(spec)


def _bind(source: str, target: str, spec: RunSpec) -> None:
    """Mount a source at its target; of a part of a volume what is there, whatever comes later."""
    root = next((root for root in spec.roots if source.startswith(f"{root}/")), "")
    held = open_beneath(root, source[len(root) + 1 :]) if root else -1
    try:
        shown = f"/proc/self/fd/{held}" if root else source
        _make_place(shown, target, spec.stage)
        mount(shown, target, MS_BIND | MS_REC)
    finally:
        if root:
            os.close(held)


def _hide(spec: RunSpec) -> None:
    """Cover folders by empty ones, and let only the container's own mounts be written to if asked.

    It comes last: the sources of mounts may be below the folders. A process without a capability
    cannot uncover them, also in a namespace of its own: mounts that it inherits are locked there.
    """
    if spec.read_only:
        set_writable("/", writable=False, recursive=True)
    covered = [folder for folder in spec.hidden if os.path.isdir(folder)]
    own = [(target, read_only) for _, target, read_only in spec.mounts]
    if spec.message and os.path.exists(spec.message[1]):
        own.append((spec.message[1], False))
    # A mount of the container's own below such a folder must stay: it is held open meanwhile.
    held = [
        (target, os.open(target, os.O_PATH | os.O_CLOEXEC))
        for target, _ in own
        if any(target.startswith(f"{folder}/") for folder in covered)
    ]
    for folder in covered:
        mount("tmpfs", folder, 0, "tmpfs")
        os.chmod(folder, 0o1777 if folder in _FOR_ALL else 0o755)
    for target, descriptor in held:
        source = f"/proc/self/fd/{descriptor}"
        _make_plain_place(source, target)
        mount(source, target, MS_BIND | MS_REC)
        os.close(descriptor)
    for target, read_only in own:
        if spec.read_only and not read_only:
            set_writable(target, writable=True)


def _mount_if_possible(source: str, target: str, stage: str) -> None:
    try:
        _make_place(source, target, stage)
        mount(source, target, MS_BIND)
    except OSError:
        return


def _kept_flags(target: str) -> int:
    """Returns the flags of a mount that a user namespace is not allowed to clear."""
    held = os.statvfs(target).f_flag
    return (held & MS_KEPT) | (MS_RELATIME if held & ST_RELATIME else 0)


def _make_place(source: str, target: str, stage: str) -> None:
    """Make sure that the target exists, without changing the host's folders.

    The nearest existing folder is covered by a tmpfs that shows the same content by bind mounts,
    and the missing path is made in there.
    """
    if os.path.exists(target):
        return
    missing = target
    while not os.path.isdir(parent := os.path.dirname(missing)):
        missing = parent
    if not _is_ours(parent, stage):
        _cover(parent, stage)
    _make_plain_place(source, target)


def _make_plain_place(source: str, target: str) -> None:
    """Make an empty folder or file to mount the source at."""
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
        return
    os.makedirs(os.path.dirname(target), exist_ok=True)
    os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))


_covered: set[str] = set()


def _is_ours(folder: str, stage: str) -> bool:
    """Whether a folder is on a tmpfs of ours, and not in something of the host mounted there."""
    return folder in _covered or folder.startswith(stage)


def _cover(folder: str, stage: str) -> None:
    mount("tmpfs", stage, 0, "tmpfs")
    for entry in sorted(os.listdir(folder)):
        real, shown = os.path.join(folder, entry), os.path.join(stage, entry)
        if os.path.islink(real):
            os.symlink(os.readlink(real), shown)
            continue
        if os.path.isdir(real):
            os.mkdir(shown)
        else:
            os.close(os.open(shown, os.O_CREAT | os.O_WRONLY, 0o644))
        try:
            mount(real, shown, MS_BIND | MS_REC)
        except FileNotFoundError:
            continue  # it was removed since the folder was listed
    _covered.add(folder)
    if folder != "/":
        mount(stage, folder, MS_MOVE)
        return
    # The root cannot be moved over like another folder: the process has to change into it.
    os.chdir(stage)
    mount(".", "/", MS_MOVE)
    os.chroot(".")
    os.chdir("/")
