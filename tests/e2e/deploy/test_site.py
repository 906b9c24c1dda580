"""The site of `make docs`: built without warnings, and of files of its own alone."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from tools.site import pages, place

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]
PYTHON = ROOT / ".venv" / "docs" / "bin" / "python"  # `make e2e` installs it
# What a browser would fetch by itself.
_FETCHED = re.compile(r"<(?:script|img|link)[^>]*(?:src|href)=\"(https?:)?//")


def test_site_is_built_without_a_network(tmp_path: Path) -> None:
    """A broken link fails it; the pages load no script, style or font from elsewhere."""
    command = ["unshare", "--map-root-user", "--net", str(PYTHON), "-m", "tools.site"]
    site = tmp_path / "site"
    subprocess.run([*command, str(site)], cwd=ROOT, env={"PATH": "/usr/bin:/bin"}, check=True)
    written = {page: site / place(page).replace(".md", ".html") for page in pages()}

    assert [page for page, file in written.items() if not file.exists()] == []
    assert [page for page, file in written.items() if _FETCHED.search(file.read_text())] == []
    assert (site / "llms.txt").exists()
