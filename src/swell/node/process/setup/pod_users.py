"""A user of its own for every pod, on machines where pods are kept apart."""

from __future__ import annotations

import zlib
from collections.abc import Iterable

from swell.api.meta import Uid
from swell.cluster.private import write_private
from swell.node.process.folders import Folders
from swell.node.process.setup.users import UserRange

USER_FILE = "user"


class PodUsers:
    """Gives every pod a user of its own, which is noted in the pod's folder.

    A number is free again when the folder is gone, and with it all that the user has left there.
    """

    def __init__(self, folders: Folders, users: UserRange) -> None:
        self._folders = folders
        self._users = users
        self._given: dict[int, Uid] = {}
        self._is_read = False

    def of(self, uid: Uid) -> int:
        """The number of a pod's user; OSError when it cannot be noted."""
        note = self._folders.pod(uid) / USER_FILE
        if note.exists():
            return int(note.read_text())
        if not self._is_read:
            self._given = dict(self._noted())
            self._is_read = True
        first, n_users = self._users
        start = zlib.crc32(uid.encode())
        number = next(
            first + (start + step) % n_users
            for step in range(n_users)
            if not self._is_taken(first + (start + step) % n_users)
        )
        write_private(note, str(number))
        self._given[number] = uid
        return number

    def _is_taken(self, number: int) -> bool:
        holder = self._given.get(number)
        return holder is not None and self._folders.pod(holder).exists()

    def _noted(self) -> Iterable[tuple[int, Uid]]:
        for note in sorted(self._folders.pods.glob(f"*/{USER_FILE}")):
            yield int(note.read_text()), Uid(note.parent.name)
