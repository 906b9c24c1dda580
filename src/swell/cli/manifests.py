"""Reads manifests for commands; `swell validate`, `render` and `crds` need nothing else.

Every problem of every file is shown at once, so that a user mends them in one go.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from swell.api.manifest import Finding, ManifestFile, read
from swell.api.wording import count_of
from swell.cli.command_line import CommandError
from swell.cli.options import JsonFormat, JsonOption

STDIN = "-"
# Of a folder the files with these endings are manifests, as for kubectl.
SUFFIXES = (".json", ".yaml", ".yml")
# A larger file is refused, so that a wrong name does not fill the memory.
BYTES_MAX = 64 << 20

FileArguments = Annotated[
    list[str], typer.Argument(metavar="FILE...", help="Manifest; - is stdin.")
]

IgnoreUnknown = Annotated[
    bool, typer.Option("--ignore-unknown", help="Pass over objects of unknown kinds.")
]


def validate(
    files: FileArguments, *, ignore_unknown: IgnoreUnknown = False, output: JsonOption = None
) -> None:
    """Check manifests: every problem at once, with file, line and what to do."""
    readings = read_files(files)
    findings = problems_in(readings, refuses_unknown_kinds=not ignore_unknown)
    if output is JsonFormat.JSON:
        from swell.cli.output import to_json

        errors = [
            {
                "file": finding.file,
                "line": finding.line,
                "path": finding.path,
                "message": finding.message,
                "hint": finding.hint,
            }
            for finding in findings
        ]
        sys.stdout.write(to_json({"valid": not findings, "errors": errors}))
    else:
        print_findings(findings)
    if findings:
        raise typer.Exit(1)


def render(files: FileArguments) -> None:
    """Print the jobs of manifests with their defaults filled in, and nothing else."""
    from swell.api.aitrainingjob import API_GROUP
    from swell.api.manifest.defaulting import body_with_defaults
    from swell.api.trainingjob import API_GROUP as TRAINING_JOB_GROUP
    from swell.cli.output import to_yaml

    jobs = [
        body_with_defaults(document.body)
        for reading in read_valid(files)
        for document in reading.documents
        if str(document.body["apiVersion"]).rpartition("/")[0] in {API_GROUP, TRAINING_JOB_GROUP}
    ]
    if not jobs:
        raise CommandError("there is no job in these manifests")
    sys.stdout.write("---\n".join(to_yaml(job) for job in jobs))


def crds() -> None:
    """Print the CustomResourceDefinitions of our kinds, ready for kubectl apply."""
    from swell.api.crds import crd_yaml
    from swell.api.schemas.definitions import DEFINITIONS

    sys.stdout.write("---\n".join(crd_yaml(definition) for definition in DEFINITIONS))


def read_files(files: Sequence[str]) -> list[ManifestFile]:
    """Read every file, `-` being stdin. One that cannot be opened ends the command."""
    return [read(_bytes_of(file), file) for file in files]


def in_folders(files: Sequence[str], *, recursive: bool = False) -> list[str]:
    """Return the files, each folder replaced by the manifests in it, in the order of names.

    With `recursive` also by those of the folders inside it.
    """
    found: list[str] = []
    for file in files:
        folder = Path(file)
        if file == STDIN or not folder.is_dir():
            found.append(file)
            continue
        inside = sorted(folder.rglob("*") if recursive else folder.iterdir())
        manifests = [str(one) for one in inside if one.suffix in SUFFIXES and one.is_file()]
        if not manifests:
            hint = "" if recursive else "for the folders inside it: -R"
            raise CommandError(f"{file}: no manifest in this folder ({', '.join(SUFFIXES)})", hint)
        found += manifests
    return found


def read_valid(files: Sequence[str]) -> list[ManifestFile]:
    """Read every file as `read_files` does; end the command if any of them breaks a rule."""
    readings = read_files(files)
    refuse_problems(problems_in(readings))
    return readings


def problems_in(
    readings: Sequence[ManifestFile], *, refuses_unknown_kinds: bool = False
) -> list[Finding]:
    """Return everything that is wrong in some manifests, ordered by file and line."""
    # Imported here: it brings the rules of Kubernetes' kinds, which most commands do not need.
    from swell.cli.manifest_checks import all_findings

    return all_findings(readings, refuses_unknown_kinds=refuses_unknown_kinds)


def refuse_problems(findings: Sequence[Finding]) -> None:
    """End the command with all findings, if there are any."""
    if findings:
        counted = count_of(len(findings), "problem")
        raise CommandError(f"{counted} found, nothing was done", details=list(map(str, findings)))


def print_findings(findings: Iterable[Finding]) -> None:
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
        # A relative path is most often wrong because of the folder the user is in.
        hint = "check the path" if Path(file).is_absolute() else f"you are in {Path.cwd()}"
        raise CommandError(f"{file}: no such file", hint) from error
    except PermissionError as error:
        raise CommandError(f"{file}: you may not read it", "check its owner and mode") from error
    except OSError as error:
        raise CommandError(f"{file}: {error.strerror}") from error
    if len(raw) > BYTES_MAX:
        raise CommandError(f"{file}: larger than {BYTES_MAX >> 20} MiB")
    return raw
