"""Reads manifests for commands, and shows what is wrong with them, all at once."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from swell.api.manifest import Finding, ManifestFile, findings_of, read
from swell.cli.failure import CommandError

STDIN = "-"
BYTES_MAX = 64 << 20


def read_files(files: Sequence[str]) -> list[ManifestFile]:
    """Every file, `-` being stdin; one that cannot be opened ends the command."""
    return [read(_bytes_of(file), file) for file in files]


def read_valid(files: Sequence[str]) -> list[ManifestFile]:
    """As `read_files`, but nothing that breaks a rule gets through."""
    readings = read_files(files)
    findings = findings_of(readings)
    if findings:
        show(findings)
        raise CommandError(f"{_counted(len(findings), 'problem')} found, nothing was done")
    return readings


def show(findings: Iterable[Finding]) -> None:
    for finding in findings:
        sys.stderr.write(f"{finding}\n")


def _bytes_of(file: str) -> bytes:
    try:
        if file == STDIN:
            raw = sys.stdin.buffer.read(BYTES_MAX + 1)
        else:
            with Path(file).open("rb") as opened:
                raw = opened.read(BYTES_MAX + 1)
    except IsADirectoryError as error:
        raise CommandError(f"{file}: is a folder", "name the files in it") from error
    except FileNotFoundError as error:
        hint = "check the path" if Path(file).is_absolute() else f"you are in {Path.cwd()}"
        raise CommandError(f"{file}: no such file", hint) from error
    except PermissionError as error:
        raise CommandError(f"{file}: you may not read it", "check its owner and mode") from error
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from error
    if len(raw) > BYTES_MAX:
        raise CommandError(f"{file}: larger than {BYTES_MAX >> 20} MiB")
    return raw


def _counted(n: int, noun: str) -> str:
    return f"1 {noun}" if n == 1 else f"{n} {noun}s"
