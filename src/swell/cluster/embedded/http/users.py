"""The users of a state folder: names, groups, and digests of tokens that expire.

Tokens are shown once, when they are made; the file has their SHA-256 digests. It is written in one
step under a lock, by commands, and read by the server. Rights are no part of it: those are
role bindings in the cluster.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from swell.api.codec import encode
from swell.cluster.embedded.access.attributes import ADMIN
from swell.cluster.embedded.access.defaultroles import SERVER
from swell.cluster.private import open_private, write_private

FORMAT = 1
# How often a server looks at the file. Not every request has to pay for it; commands that take a
# token away wait a little longer than this.
LOOK_S = 0.05
# As names of Kubernetes' objects, because bindings are named after users.
_NAME = re.compile(r"[a-z0-9]([-a-z0-9.]{0,61}[a-z0-9])?")
_TOKEN_BYTES = 32
# The owner of the folder, and the server itself where it is a client of node agents.
_RESERVED = frozenset({ADMIN.name, SERVER})


class UsersFileError(Exception):
    """The users file cannot be read, or was written by a later release; the message says which."""


class UserError(Exception):
    """A user cannot be added or removed; the message says why."""


class UserToken(msgspec.Struct, frozen=True, rename="camel"):
    """One user, with the digest of its token and the time at which that expires."""

    name: str
    uid: str
    groups: tuple[str, ...]
    sha256: str
    created_at: float
    expires_at: float


class _UsersFile(msgspec.Struct, frozen=True):
    """The content of the file."""

    format: int = FORMAT
    users: tuple[UserToken, ...] = ()


def read_users(path: Path) -> list[UserToken]:
    """All users, by name; UsersFileError when the file is not understood."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsersFileError(f"{path}: {error.strerror}") from error
    try:
        read = msgspec.json.decode(raw, type=_UsersFile)
    except msgspec.DecodeError as error:
        raise UsersFileError(f"{path} is no file of users: {error}") from error
    if read.format != FORMAT:
        raise UsersFileError(f"{path} has format {read.format}, and {FORMAT} is known here")
    return sorted(read.users, key=lambda user: user.name)


def add_user(
    path: Path, name: str, groups: Sequence[str], now: float, ttl_s: float
) -> tuple[UserToken, str]:
    """Add a user; returns it with its token, which is kept nowhere. UserError if there is one."""
    check_name(name)
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    user = UserToken(name, secrets.token_hex(8), tuple(groups), _digest(token), now, now + ttl_s)
    with _locked(path):
        users = read_users(path)
        if any(other.name == name for other in users):
            raise UserError(
                f"there is a user {name} already; `swell user renew {name}` makes a"
                " new token for it"
            )
        _write(path, [*users, user])
    return user, token


def renew_user(path: Path, name: str, now: float, ttl_s: float) -> tuple[UserToken, str]:
    """Replace the token of a user; the old one is refused from then on. UserError if unknown."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    with _locked(path):
        users = read_users(path)
        old = next((user for user in users if user.name == name), None)
        if old is None:
            raise UserError(f"there is no user {name}")
        digest, until = _digest(token), now + ttl_s
        new = msgspec.structs.replace(old, sha256=digest, created_at=now, expires_at=until)
        _write(path, [new if user is old else user for user in users])
    return new, token


def remove_user(path: Path, name: str) -> bool:
    """Remove a user with its token; False when there was none."""
    with _locked(path):
        users = read_users(path)
        kept = [user for user in users if user.name != name]
        if len(kept) == len(users):
            return False
        _write(path, kept)
    return True


def check_name(name: str) -> None:
    """UserError when a name is none of a user: it must be fit to name a binding after."""
    if not _NAME.fullmatch(name):
        raise UserError(
            f"{name!r} is no name of a user; write up to 63 lower-case letters, digits, '-' and"
            " '.', with a letter or digit at both ends"
        )
    if name in _RESERVED:
        raise UserError(f"the name {name} is that of a part of Swell; choose another")


def _write(path: Path, users: Sequence[UserToken]) -> None:
    write_private(path, encode(_UsersFile(users=tuple(users))).decode() + "\n")


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of the file, so that two commands do not undo each other's change."""
    descriptor = open_private(path.with_name(f".{path.name}.lock"), os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
