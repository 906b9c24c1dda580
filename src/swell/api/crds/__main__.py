"""Writes the CRDs of our kinds to a directory, or to standard output."""

from __future__ import annotations

import sys
from pathlib import Path

from swell.api.crds import DEFINITIONS, crd_file_name, crd_yaml


def main(arguments: list[str]) -> None:
    if not arguments:
        sys.stdout.write("---\n".join(crd_yaml(definition) for definition in DEFINITIONS))
        return
    directory = Path(arguments[0])
    directory.mkdir(parents=True, exist_ok=True)
    for definition in DEFINITIONS:
        (directory / crd_file_name(definition)).write_text(crd_yaml(definition), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
