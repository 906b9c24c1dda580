"""The choice of a cluster that outlasts a command: a small file in the user's configuration folder.

`swell use` writes it on the user's word. `swell up` writes that the embedded cluster was used last,
unless the user has chosen: when that cluster is stopped, commands must not go elsewhere silently.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import msgspec


class SavedChoice(msgspec.Struct, frozen=True, omit_defaults=True):
    """A cluster: a context of kubeconfig files, or without one the embedded cluster."""

    context: str = ""
    kubeconfigs: tuple[str, ...] = ()
    is_by_user: bool = True


LAST_USED = SavedChoice(is_by_user=False)


class SavedChoiceError(Exception):
    """The file of the saved choice cannot be read."""


def saved_choice_file(environ: Mapping[str, str], user_home: Path) -> Path:
    """Return the file of the saved choice, in the folder for configuration that XDG names."""
    chosen = environ.get("XDG_CONFIG_HOME")
    folder = Path(chosen) if chosen else user_home / ".config"
    return folder / "swell" / "cluster.json"


def read_saved_choice(path: Path) -> SavedChoice | None:
    """Return the saved choice, None without one; SavedChoiceError if the file is damaged."""
    try:
        raw = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        return msgspec.json.decode(raw, type=SavedChoice)
    except msgspec.DecodeError as error:
        raise SavedChoiceError(f"{path}: {error}") from error


def write_saved_choice(path: Path, choice: SavedChoice) -> None:
    """Replace the file as a whole: a reader sees the old choice or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.new")
    beside.write_bytes(msgspec.json.encode(choice) + b"\n")
    beside.replace(path)


def forget_saved_choice(path: Path) -> bool:
    """Remove the saved choice; False when there was none."""
    try:
        path.unlink()
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True
