"""Finds the identity of a bearer token: that of the folder's owner, or of a user of the folder.

The files are looked at again every few milliseconds, and before a token is refused: one that was
replaced, deleted or has expired is soon refused, and one that has just been made is known.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import time
from collections.abc import Callable
from pathlib import Path

from swell.cluster.embedded.access.attributes import ADMIN, AUTHENTICATED, Identity
from swell.cluster.embedded.http.credentials import Files, token_of
from swell.cluster.embedded.http.users import LOOK_S, UsersFileError, UserToken, read_users

_log = logging.getLogger(__name__)
_BEARER = "bearer "
# The state of a file that a new one does not have: written in one step, it is another inode.
_FileState = tuple[int, int, int]


class Tokens:
    """Knows the tokens of one state folder."""

    def __init__(
        self,
        files: Files,
        now: Callable[[], float],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        token_of(files)  # made on first use
        self._owner_path, self._users_path = str(files.token_file), str(files.users_file)
        self._now, self._monotonic = now, monotonic
        self._looked_at = float("-inf")
        self._owner_token = b""
        self._owner_state: _FileState | None = None
        self._users: dict[str, UserToken] = {}
        self._users_state: _FileState | None = None

    def identity_of(self, header: str) -> Identity | None:
        """The identity in an Authorization header; None when nobody is known by it."""
        if header[: len(_BEARER)].lower() != _BEARER:
            return None
        return self.identity_of_token(header[len(_BEARER) :])

    def identity_of_token(self, token: str) -> Identity | None:
        given = token.encode("utf-8", "surrogateescape")
        now = self._monotonic()
        is_due = now - self._looked_at >= LOOK_S
        if is_due:
            self._look(now)
        found = self._find(given)
        if found is None and not is_due:
            self._look(now)
            found = self._find(given)
        return found

    def _find(self, given: bytes) -> Identity | None:
        # Compared in constant time, so that the token cannot be guessed byte by byte.
        if hmac.compare_digest(given, self._owner_token):
            return ADMIN
        if not self._users:
            return None
        user = self._users.get(hashlib.sha256(given).hexdigest())
        if user is None or user.expires_at <= self._now():
            return None
        return Identity(user.name, (*user.groups, AUTHENTICATED), user.uid)

    def _look(self, now: float) -> None:
        self._looked_at = now
        self._look_at_owner()
        self._look_at_users()

    def _look_at_owner(self) -> None:
        state = _state(self._owner_path)
        if state == self._owner_state and self._owner_token:
            return
        text = Path(self._owner_path).read_text().strip() if state else ""
        # A token that is not there is one that nobody has.
        self._owner_token = (text or secrets.token_urlsafe(32)).encode()
        self._owner_state = state

    def _look_at_users(self) -> None:
        state = _state(self._users_path)
        if state == self._users_state:
            return
        try:
            found = read_users(Path(self._users_path))
        except UsersFileError as error:
            # Nobody is let in by a file that is not understood.
            _log.error("%s: no user of it is known", error)
            found = []
        self._users = {user.sha256: user for user in found}
        self._users_state = state


def _state(path: str) -> _FileState | None:
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
