"""Logs of jobs that are gone, kept for a while: so many days, and so many bytes in all.

HOME/kept-logs/NAMESPACE/JOB.UID/                  of an AITrainingJob
HOME/kept-logs/NAMESPACE/_trainingjobs/JOB.UID/    of a TrainingJob

A folder comes here by a rename, as it was: whoever still writes to a log in it goes on doing so.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from swell.api.meta import Uid
from swell.cluster.private import make_private_folder
from swell.cluster.trees import remove_tree, tree_bytes

KEPT_BYTES_MAX = 1 << 30
KEPT_S = 7 * 86400.0


@dataclass(frozen=True, slots=True)
class KeptFolder:
    """The logs of one job, when they came, and their size."""

    path: Path
    since: float
    n_bytes: int


def keep(logs: Path, kept: Path, folder: Path, owner: Uid) -> None:
    """Move the folder of a job's logs, which is below `logs`, to those that are kept."""
    place = kept / folder.relative_to(logs)
    make_private_folder(place.parent)
    target = place.with_name(f"{place.name}.{owner}")
    if target.exists():
        remove_tree(target)  # of the same job: what came since is in the new one
    folder.rename(target)
    os.utime(target)  # its age counts from now


def of_job(kept: Path, relative: Path) -> Path | None:
    """Returns the newest folder of logs kept of a job of this name; None if there is none."""
    place = kept / relative
    if not place.parent.is_dir():
        return None
    found = [
        one
        for one in place.parent.iterdir()
        if one.name.rpartition(".")[0] == place.name and one.is_dir()
    ]
    return max(found, key=lambda one: one.stat().st_mtime, default=None)


def prune(kept: Path, now: float, kept_s: float, bytes_max: int = KEPT_BYTES_MAX) -> list[OSError]:
    """Remove what is too old, and then the oldest until the rest is small enough.

    Returns why some could not be removed.
    """
    failures: list[OSError] = []
    folders = sorted(_folders(kept), key=lambda one: (one.since, str(one.path)))
    n_bytes = sum(one.n_bytes for one in folders)
    for one in folders:
        if now - one.since < kept_s and n_bytes <= bytes_max:
            break
        try:
            remove_tree(one.path)
        except FileNotFoundError:
            pass  # somebody else has removed it
        except OSError as error:
            failures.append(error)
            continue
        n_bytes -= one.n_bytes
    return failures


def _folders(kept: Path) -> list[KeptFolder]:
    paths = [path for pattern in ("*/*.*", "*/_trainingjobs/*.*") for path in kept.glob(pattern)]
    return [
        KeptFolder(path, path.stat().st_mtime, tree_bytes(path)) for path in paths if path.is_dir()
    ]
