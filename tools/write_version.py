"""Writes the version of pyproject.toml wherever else it stands: manifests, chart, guide, package.

`python -m tools.write_version` after a change of it; a test fails while one of them differs.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
_OVERLAYS = ("namespaced", "reports", "reports-proxy")
# Files, and the text that a version follows in them.
PLACES = (
    *((f"deploy/{name}kustomization.yaml", "newTag: ") for name in ("", "beside-volcano/")),
    *((f"deploy/{name}/kustomization.yaml", "newTag: ") for name in _OVERLAYS),
    ("deploy/chart/files/page/kustomization.yaml", "newTag: "),
    ("deploy/chart/Chart.yaml", "version: "),
    ("deploy/chart/Chart.yaml", "appVersion: "),
    ("docs/installation.md", "localhost/swell:"),
    ("image/Dockerfile", "localhost/swell:"),
    ("src/swell/__init__.py", '__version__ = "'),
)


def version() -> str:
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def changed(text: str, before: str, wanted: str) -> str:
    """The text with this version wherever one follows `before`, which may not be part of a word."""
    return re.sub(rf"(?<!\w)({re.escape(before)})\d+\.\d+\.\d+\w*", rf"\g<1>{wanted}", text)


def main() -> int:
    for name, before in PLACES:
        file = SOURCE / name
        file.write_text(changed(file.read_text(), before, version()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
