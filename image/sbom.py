"""The list of everything inside the image, in CycloneDX's format, for scanners and auditors.

It is read off the image itself: Debian's packages from the records that `debian.record` leaves,
Python's from their metadata. Nothing is listed that is not there, and the same image gives the same
bytes: there is no serial number and no time in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from email.parser import HeaderParser
from pathlib import Path

from image.debian import RECORDS

FILE = "usr/share/swell/sbom.cdx.json"
Component = dict[str, object]


def write_sbom(root: Path, library: str) -> None:
    """Write the list into the image's file system; `library` is the folder of Python's packages."""
    python = {str(entry["name"]): entry for entry in _python_packages(root / library)}
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**python.pop("swell"), "type": "application"}},
        "components": [*_debian_packages(root / RECORDS), *python.values()],
    }
    file = root / FILE
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(document, indent=1) + "\n")


def _debian_packages(folder: Path) -> Iterator[Component]:
    for file in sorted(folder.iterdir()):
        fields = HeaderParser().parsestr(file.read_text())
        name, version = fields["Package"], fields["Version"]
        where = f"pkg:deb/debian/{name}@{version}?arch={fields['Architecture']}"
        yield _component(name, version, where, "")


def _python_packages(library: Path) -> Iterator[Component]:
    for file in sorted(library.glob("*.dist-info/METADATA")):
        fields = HeaderParser().parsestr(file.read_text())
        name, version = fields["Name"], fields["Version"]
        licence = fields["License-Expression"] or ""
        yield _component(name, version, f"pkg:pypi/{name.lower()}@{version}", licence)


def _component(name: str, version: str, where: str, licence: str) -> Component:
    entry: Component = {"type": "library", "name": name, "version": version, "purl": where}
    # Older packages describe their licence in prose, which CycloneDX has no expression for.
    if licence:
        entry["licenses"] = [{"expression": licence}]
    return entry
