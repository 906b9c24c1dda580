"""Turns failures of the embedded cluster's store into a sentence and a hint what to do about it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from swell.cli.command_line import CommandError
from swell.cluster.embedded.database import (
    DamagedStoreError,
    StoreExistsError,
    StoreMissingError,
    WrongFormatError,
)
from swell.cluster.home import DATABASE
from swell.runtime.errors import ServerError

CHECK_IT = "see what is wrong: swell check; go on without it: swell check --quarantine"
MAKE_ROOM = "make room on its disk, then start again: nothing acknowledged is lost"


@contextmanager
def store_errors(home: Path) -> Iterator[None]:
    """Raise failures of the store in a state folder as CommandError."""
    path = home / DATABASE
    try:
        yield
    except StoreMissingError as error:
        message = f"{home} had a cluster, but its store {error.path.name} {error.why}"
        hint = "put a backup back: swell restore FILE; or begin with nothing in it: --new"
        raise CommandError(message, hint) from error
    except StoreExistsError as error:
        hint = "start without --new to use it, or move it away"
        raise CommandError(f"{error}: --new would not use it", hint) from error
    except (sqlite3.Error, WrongFormatError, DamagedStoreError, ServerError) as error:
        raise from_store_error(path, error) from error


def from_store_error(path: Path, error: Exception) -> CommandError:
    """Return the error of a command that cannot use the store of the embedded cluster.

    A full disk damages nothing in it, so the hint must not suggest to begin anew.
    """
    message = str(error).removeprefix(f"{path}: ")
    # The words of SQLite's messages for a disk without room.
    if "full" in message or "disk I/O" in message:
        hint = MAKE_ROOM
    elif isinstance(error, WrongFormatError):
        hint = "use the version of Swell that wrote it; the file has not been changed"
    elif "locked" in message:
        hint = "another program has it open"
    else:
        hint = f"{CHECK_IT}; or put a backup back: swell restore --force FILE"
    return CommandError(f"{path} cannot be used: {message}", hint)
