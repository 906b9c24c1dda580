"""Report files: what of them the node agent takes, and hands on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swell.node.process.reports import read_report_file


def test_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"step": 1}\n')

    assert read_report_file(path) == '{"step": 1}'


@pytest.mark.parametrize("kind", ["missing", "long", "binary", "link", "pipe", "folder", "closed"])
def test_anything_else_is_nothing(tmp_path: Path, kind: str) -> None:
    """A program must not make its node read another file, or wait."""
    path, other = tmp_path / "report.json", tmp_path / "other"
    other.write_text("secret")
    match kind:
        case "long":
            path.write_text("x" * 1025)
        case "binary":
            path.write_bytes(b"\xff\xfe")
        case "link":
            path.symlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "closed":
            path = tmp_path / "other" / "report.json"

    assert read_report_file(path) == ""
