"""`swell validate`, `render` and `crds`: what can be said about manifests without a cluster."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from swell.api.aitrainingjob import API_GROUP
from swell.api.crds import crd_yaml
from swell.api.manifest import findings_of
from swell.api.manifest.defaulting import body_with_defaults
from swell.api.schemas.definitions import DEFINITIONS
from swell.api.trainingjob import API_GROUP as TRAINING_JOB_GROUP
from swell.cli.failure import CommandError
from swell.cli.objects.printing import to_json, to_yaml
from swell.cli.sources import read_files, read_valid, show

_JOB_GROUPS = (API_GROUP, TRAINING_JOB_GROUP)

FileWords = Annotated[list[str], typer.Argument(metavar="FILE...", help="Manifest; - is stdin.")]


class ReportOutput(StrEnum):
    JSON = "json"


def validate(
    files: FileWords,
    *,
    output: Annotated[ReportOutput | None, typer.Option("-o", "--output")] = None,
) -> None:
    """Check manifests: every problem at once, with file, line and what to do."""
    findings = findings_of(read_files(files))
    if output is ReportOutput.JSON:
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
        show(findings)
    if findings:
        raise typer.Exit(1)


def render(files: FileWords) -> None:
    """Print the jobs of manifests with their defaults filled in, and nothing else."""
    jobs = [
        body_with_defaults(document.body)
        for reading in read_valid(files)
        for document in reading.documents
        if str(document.body["apiVersion"]).rpartition("/")[0] in _JOB_GROUPS
    ]
    if not jobs:
        raise CommandError("there is no job in these manifests")
    sys.stdout.write("---\n".join(to_yaml(job) for job in jobs))


def crds() -> None:
    """Print the CustomResourceDefinitions of our kinds, ready for kubectl apply."""
    sys.stdout.write("---\n".join(crd_yaml(definition) for definition in DEFINITIONS))
