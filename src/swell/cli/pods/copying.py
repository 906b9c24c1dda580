"""Copies files to and from a container, as an archive that `tar` there packs or unpacks."""

from __future__ import annotations

import os
import posixpath
import tarfile
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import IO

from swell.api.meta import Key
from swell.cli.command_line import USAGE, CommandError
from swell.cli.pods.execution import PIECE_BYTES, RemoteCommand, run_remote
from swell.cli.progress import ProgressLine
from swell.cluster.kube.access import Access

_HINT = "one side is POD:PATH, or NAMESPACE/POD:PATH; the other a path of this machine"


def parse_place(text: str, namespace: str) -> tuple[Key | None, str]:
    """Parse `POD:PATH`, `NAMESPACE/POD:PATH` or a path of this machine, which has no pod."""
    before, colon, path = text.partition(":")
    # A path such as ./a:b is one of this machine.
    if not colon or before.startswith((".", "/")) or not before:
        return None, text
    scope, slash, name = before.rpartition("/")
    if not path or (slash and not scope) or not name:
        raise CommandError(f"{text!r} names no file of a pod", _HINT, USAGE)
    return Key(scope or namespace, name), path


async def upload(access: Access, pod: RemoteCommand, source: Path, target: str) -> None:
    """Copy a file or folder of this machine into a container."""
    name_here = _checked_name(source)
    into = replace(pod, argv=("test", "-d", target))
    is_folder = await run_remote(access, into, stdout=_ignore, stderr=_ignore) == 0
    if is_folder or target.endswith("/"):
        target = posixpath.join(target, name_here)
    folder, name = posixpath.split(target.rstrip("/"))
    with tempfile.TemporaryFile() as archive:
        with tarfile.open(fileobj=archive, mode="w") as packed:
            packed.add(source, arcname=name)
        unpack = replace(pod, argv=("tar", "xmf", "-", "-C", folder or "."), stdin=True)
        with ProgressLine() as progress:
            pieces = _pieces(archive, progress)
            await _checked(access, unpack, pieces=pieces)


async def download(access: Access, pod: RemoteCommand, source: str, target: Path) -> None:
    """Copy a file or folder of a container to this machine."""
    folder, name = posixpath.split(source.rstrip("/"))
    pack = replace(pod, argv=("tar", "cf", "-", "-C", folder or ".", name))
    with tempfile.TemporaryFile() as archive, ProgressLine() as progress:

        def take(piece: bytes) -> None:
            archive.write(piece)
            progress.say(f"copied {archive.tell() >> 10} KiB")

        await _checked(access, pack, take=take)
        archive.seek(0)
        _unpack(archive, name, target)


def _checked_name(source: Path) -> str:
    """Return the name of a file or folder of this machine; CommandError if there is none."""
    if not source.exists():
        raise CommandError(f"{source}: no such file or folder")
    return source.resolve().name


def _unpack(archive: IO[bytes], name: str, target: Path) -> None:
    """Unpack an archive of one file or folder under another name, and nothing beside it."""
    if target.is_dir():
        target = target / name
    with tarfile.open(fileobj=archive) as packed:
        for member in packed:
            inside = posixpath.relpath(posixpath.normpath(member.name), name)
            if inside.startswith(".."):
                raise CommandError(f"the archive holds {member.name!r}, which was not asked for")
            place = target if inside == "." else target / inside
            member.name = place.name
            place.parent.mkdir(parents=True, exist_ok=True)
            packed.extract(member, place.parent, filter="data")


async def _checked(
    access: Access,
    command: RemoteCommand,
    *,
    pieces: AsyncIterator[bytes] | None = None,
    take: object = None,
) -> None:
    """Run a command that has to succeed; CommandError with what it wrote to stderr."""
    problems = bytearray()
    stdout = take if callable(take) else _ignore
    code = await run_remote(access, command, pieces=pieces, stdout=stdout, stderr=problems.extend)
    if code:
        text = problems.decode(errors="replace").strip() or f"{command.argv[0]} ended with {code}"
        raise CommandError(f"{command.pod.name}: {text}")


async def _pieces(archive: IO[bytes], progress: ProgressLine) -> AsyncIterator[bytes]:
    size = archive.seek(0, os.SEEK_END)
    archive.seek(0)
    while piece := archive.read(PIECE_BYTES):
        yield piece
        progress.count("copying KiB", archive.tell() >> 10, size >> 10)


def _ignore(_: bytes) -> None:
    """Do nothing with output that nobody asked for."""
