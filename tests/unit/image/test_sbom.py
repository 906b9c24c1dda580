"""The image says what is in it: every package of Debian and Python, and Swell itself."""

from __future__ import annotations

import json
from pathlib import Path

from image.sbom import FILE, write_sbom

DEBIAN = "Package: libc6\nArchitecture: amd64\nVersion: 2.36-9\nDescription: GNU C Library\n"
PYTHON = "Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{more}\nA library.\n"


def _image(root: Path) -> Path:
    records = root / "var/lib/dpkg/status.d"
    records.mkdir(parents=True)
    (records / "libc6").write_text(DEBIAN)
    for name, version, more in (
        ("swell", "0.1.0", "License-Expression: Apache-2.0\n"),
        ("PyYAML", "6.0.3", "License: a text of its own\n"),
    ):
        folder = root / "opt/swell" / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        (folder / "METADATA").write_text(PYTHON.format(name=name, version=version, more=more))
    return root


def test_everything_is_listed(tmp_path: Path) -> None:
    """Each package has a name, a version and the address that scanners compare."""
    root = _image(tmp_path)

    write_sbom(root, "opt/swell")

    found = json.loads((root / FILE).read_text())
    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert found["metadata"]["component"] == {
        "type": "application",
        "name": "swell",
        "version": "0.1.0",
        "purl": "pkg:pypi/swell@0.1.0",
        "licenses": [{"expression": "Apache-2.0"}],
    }
    assert [entry["purl"] for entry in found["components"]] == [
        "pkg:deb/debian/libc6@2.36-9?arch=amd64",
        "pkg:pypi/pyyaml@6.0.3",
    ]


def test_list_is_the_same_for_the_same_content(tmp_path: Path) -> None:
    """Nothing in it depends on when or where it was written."""
    first, second = _image(tmp_path / "first"), _image(tmp_path / "second")

    write_sbom(first, "opt/swell")
    write_sbom(second, "opt/swell")

    assert (first / FILE).read_bytes() == (second / FILE).read_bytes()
