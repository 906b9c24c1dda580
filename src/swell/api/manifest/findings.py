"""Validates what was read: every problem of every document, with its file and line."""

from __future__ import annotations

from collections.abc import Iterable

from swell.api.manifest.documents import Finding, Reading
from swell.api.validation import validate


def findings_of(readings: Iterable[Reading]) -> list[Finding]:
    """All that is wrong in some files, in the order of files and lines."""
    findings: list[Finding] = []
    for reading in readings:
        found = list(reading.findings)
        for document in reading.documents:
            found += [document.finding(problem) for problem in validate(document.body)]
        findings += sorted(found, key=lambda finding: finding.line)
    return findings
