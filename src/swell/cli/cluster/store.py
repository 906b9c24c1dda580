"""The commands `swell backup`, `restore` and `check`: the data of the embedded cluster."""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.choice import state_folder
from swell.cli.command_line import USAGE, CommandError
from swell.cli.progress import ProgressLine
from swell.cluster.home import (
    DATABASE,
    NODE_LOCK,
    AlreadyRunningError,
    hold_lock,
    lock_holder,
)

if TYPE_CHECKING:
    from swell.cluster.embedded.checking import StoreReport

# Problems that are printed; the others are counted. A store has seldom more than one.
_SHOWN_MAX = 50

BackupFile = Annotated[Path, typer.Argument(metavar="FILE", help="The backup.")]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite the file if it exists.")]
OlderFormat = Annotated[
    int, typer.Option("--format", metavar="NUMBER", help="For an older version of Swell: 1.")
]
Replace = Annotated[
    bool,
    typer.Option("--force", help="Replace the store that is there; it is kept under another name."),
]
CheckedFile = Annotated[
    Path | None, typer.Argument(metavar="[FILE]", help="A backup; the store without one.")
]
Quarantine = Annotated[
    bool,
    typer.Option("--quarantine", help="Put bad rows aside, so that the cluster can start."),
]


def backup(file: BackupFile, *, force: Overwrite = False, older_format: OlderFormat = 0) -> None:
    """Copy everything that the embedded cluster has stored, Secrets too, into one file.

    The cluster may run or not. The file is complete or not there at all.
    """
    from swell.cluster.embedded.copies import write_copy, write_lines
    from swell.cluster.embedded.database import FORMAT

    home = _home()
    store = home / DATABASE
    if not 0 <= older_format <= FORMAT:
        raise CommandError(f"format {older_format} is unknown", f"known are 1 to {FORMAT}", USAGE)
    if file.is_dir():
        raise CommandError(f"{file} is a folder", "name a file in it", USAGE)
    if file.exists() and store.exists() and file.samefile(store):
        raise CommandError(f"{file} is the store itself", "name another file", USAGE)
    if file.exists() and not force:
        raise CommandError(f"{file} exists", "choose another name, or overwrite it with --force")
    wanted = older_format or FORMAT
    with _copy_errors(store), ProgressLine() as line:
        if lock_holder(home) is not None:
            report = write_lines(_lines_of_server(home), file, wanted, line.count)
        elif not store.exists():
            raise CommandError(f"there is no store in {home}", "nothing is to be backed up")
        else:
            with _stopped(home, "swell backup"):
                report = write_copy(store, file, wanted, line.count)
    sys.stdout.write(f"{_content(report)} written to {file}\n")


def restore(file: BackupFile, *, force: Replace = False) -> None:
    """Put a backup into the state folder of the embedded cluster, which must not run."""
    from swell.cluster.embedded.copies import restore_copy

    home = _home()
    store = home / DATABASE
    if not file.is_file():
        raise CommandError(f"there is no file {file}", "name a file that swell backup wrote")
    with _copy_errors(file), _stopped(home, "swell restore"):
        # An empty file is what a full disk or a copy that was cut short leaves.
        has_store = store.exists() and store.stat().st_size > 0
        if has_store and not force:
            hint = "replace it with --force: it is kept under another name"
            raise CommandError(f"{home} has a store already", hint)
        aside = store.with_name(f"{store.name}.before-restore-{_stamp()}")
        with ProgressLine() as line:
            report = restore_copy(file, store, aside, line.count)
    sys.stdout.write(f"{_content(report)} restored from {file} into {home}\n")
    if aside.exists():
        sys.stdout.write(f"the former store is {aside}\n")


def check(file: CheckedFile = None, *, quarantine: Quarantine = False) -> None:
    """Read the whole store, or a backup, and tell what is wrong. Exits with 0 when it is sound.

    Exits with 1 when it is not, and with 2 when it cannot be read because the cluster runs.
    """
    from swell.cluster.embedded.checking import check_file

    if file is not None:
        if quarantine:
            raise CommandError("--quarantine is for the store, not for a file", exit_code=USAGE)
        with ProgressLine() as line:
            report = check_file(file, progress=line.count)
        _conclude(report)
        return
    home = _home()
    store = home / DATABASE
    if not store.exists():
        raise CommandError(f"there is no store in {home}", "put one there: swell restore FILE")
    with _stopped(home, "swell check"):
        with ProgressLine() as line:
            report = check_file(store, in_use_by_us=True, progress=line.count)
        if quarantine and not report.is_sound:
            _quarantine(report)
            return
    _conclude(report)


def _quarantine(report: StoreReport) -> None:
    """Save the sound rows of a damaged store."""
    from swell.cluster.embedded.checking import save_sound_rows

    _print_problems(report)
    if not report.rows:
        hint = "put a backup back: swell restore --force FILE"
        raise CommandError(f"{report.path}: nothing in it can be saved", hint)
    aside = report.path.with_name(f"{report.path.name}.damaged-{_stamp()}")
    save_sound_rows(report, aside)
    sys.stdout.write(
        f"{_content(report)} kept, {_count(len(report.problems), 'row')} put aside "
        f"in the table quarantine\nthe damaged store is {aside}\n"
    )


def _conclude(report: StoreReport) -> None:
    """Print what was found; CommandError when it is not sound."""
    _print_problems(report)
    if report.is_sound:
        sys.stdout.write(f"{report.path} is sound: {_content(report)}, format {report.format}\n")
        return
    n_wrong = len(report.faults) + len(report.problems)
    hint = "swell check --quarantine puts bad rows aside; swell restore --force puts a backup back"
    raise CommandError(f"{report.path} is not sound: {_count(n_wrong, 'problem')}", hint)


def _print_problems(report: StoreReport) -> None:
    lines = [*(f"file: {fault}" for fault in report.faults), *map(str, report.problems)]
    for line in lines[:_SHOWN_MAX]:
        # A damaged key may hold bytes that no terminal can show.
        sys.stdout.write(line.encode(errors="backslashreplace").decode() + "\n")
    if lines[_SHOWN_MAX:]:
        sys.stdout.write(f"… and {len(lines) - _SHOWN_MAX} more\n")
    sys.stdout.flush()


def _content(report: StoreReport) -> str:
    """The number of objects and their kinds, such as `3 objects (2 pods, 1 namespaces)`."""
    kinds = ", ".join(f"{n} {name.partition('.')[0]}" for name, n in report.by_collection.items())
    found = _count(len(report.rows), "object")
    return f"{found} ({kinds}) at version {report.version}" if kinds else found


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def _lines_of_server(home: Path) -> Iterator[bytes]:
    """The lines of a backup, from the server that runs in a state folder."""
    from swell.cli.connection import connected
    from swell.cli.options import ClusterOptions
    from swell.cluster.kube.calls import KubeCall

    with connected(ClusterOptions(kubeconfig=str(home / "kubeconfig"))) as connection:
        yield from connection.client.lines(KubeCall("GET", "/swell/backup", bytes))


@contextmanager
def _stopped(home: Path, what: str) -> Iterator[None]:
    """Hold the locks of a state folder, so that no cluster starts meanwhile."""
    try:
        with hold_lock(home, what=what), hold_lock(home, NODE_LOCK, what):
            yield
    except AlreadyRunningError as error:
        running = lock_holder(home) or lock_holder(home, NODE_LOCK)
        which = f"{running.what} (pid {running.pid})" if running else "a cluster"
        raise CommandError(f"{which} runs in {home}", "stop it first: swell down", USAGE) from error


@contextmanager
def _copy_errors(source: Path) -> Iterator[None]:
    """Raise failures of a copy as CommandError."""
    from swell.cluster.embedded.copies import IncompleteCopyError, UnsoundCopyError

    try:
        yield
    except UnsoundCopyError as error:
        raise CommandError(f"{source} is not sound: {error}", "see: swell check") from error
    except IncompleteCopyError as error:
        raise CommandError(f"no backup was made: {error}", "try again") from error
    except sqlite3.Error as error:
        raise CommandError(f"{source} could not be copied: {error}") from error


def _stamp() -> str:
    return time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())


def _home() -> Path:
    return state_folder(os.environ, Path.home())
