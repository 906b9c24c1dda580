"""`make docs`: a site from docs/ and the pages beside it, and the list of pages for programs.

    python -m tools.site FOLDER       # the site, by Sphinx; no network is needed
    python -m tools.site --llms       # docs/llms.txt, which a test keeps current

The files stay as they are read in a repository: what Sphinx needs besides is made here, in a
folder of its own. Links to what is no page, such as a folder of manifests, become plain text.
"""

from __future__ import annotations

import argparse
import posixpath
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.markdown import relinked, summary, title

SOURCE = Path(__file__).resolve().parent.parent
LLMS = Path("docs") / "llms.txt"
HOME = "README.md"
# Every page under docs/ stands in one section; decisions are found by their folder.
SECTIONS: dict[str, tuple[str, ...]] = {
    "Reference": (
        "docs/reference/aitrainingjob.md",
        "docs/reference/fields.md",
        "docs/trainingjob.md",
        "docs/reference/phases.md",
        "docs/reference/scheduling-reasons.md",
        "docs/reference/node.md",
        "docs/reference/data.md",
        "docs/commands.md",
        "docs/configuration.md",
        "docs/metrics.md",
    ),
    "On your machine": (
        "docs/tutorial.md",
        "docs/sdk.md",
        "docs/processes.md",
        "docs/embedded-api.md",
        "docs/users.md",
        "docs/page.md",
        "docs/history.md",
        "docs/history-format.md",
        "docs/troubleshooting.md",
        "examples/README.md",
    ),
    "On a cluster": (
        "docs/installation.md",
        "deploy/chart/README.md",
        "docs/scheduling.md",
        "docs/topology.md",
        "docs/native-gangs.md",
        "docs/from-kube-scheduler.md",
        "docs/from-volcano.md",
        "SECURITY.md",
    ),
    "Elastic training": (
        "docs/training.md",
        "docs/launch.md",
        "docs/elasticity.md",
        "docs/training-bus.md",
        "docs/replay.md",
    ),
    "Figures": (
        "docs/scheduler-performance.md",
        "docs/operator-performance.md",
        "docs/training-figures.md",
        "docs/goodput-figures.md",
    ),
    "Development": (
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/architecture.md",
        "docs/simulation.md",
        "docs/conventions.md",
    ),
}
DECISIONS = "docs/adr"
CONFIGURATION = """\
project = "Swell"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "Swell"
html_copy_source = False
html_show_sourcelink = False
myst_heading_anchors = 6
exclude_patterns = []
# Files that people read have code of many languages, some of it with parts left out.
suppress_warnings = ["misc.highlighting_failure", "myst.header"]
"""


def pages() -> list[str]:
    """All pages of the site but the first, as paths in the repository."""
    decisions = sorted((SOURCE / DECISIONS).glob("*.md"))
    return [
        *(page for listed in SECTIONS.values() for page in listed),
        *(str(page.relative_to(SOURCE)) for page in decisions),
    ]


def place(page: str) -> str:
    """Where a page of the repository stands in the site."""
    if page == HOME:
        return "index.md"
    return page.removeprefix("docs/").replace("/README.md", "/index.md").lower()


def page_text(page: str) -> str:
    """A page as the site has it: links lead to the site's pages, or are none."""
    known = {*pages(), HOME}

    def change(target: str) -> str | None:
        path, _, anchor = target.partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            return target
        found = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        if found not in known and f"{found}/README.md" in known:
            found = f"{found}/README.md"
        if found not in known and not found.startswith("docs/pictures/"):
            return None
        own = posixpath.dirname(place(page)) or "."
        return posixpath.relpath(place(found), own) + (f"#{anchor}" if anchor else "")

    return relinked((SOURCE / page).read_text(), change)


def contents() -> str:
    """The tables of contents of the first page, one a section."""
    tables = []
    for name, listed in {**SECTIONS, "Decisions": (f"{DECISIONS}/README.md",)}.items():
        entries = "\n".join(place(page).removesuffix(".md") for page in listed)
        tables.append(f"```{{toctree}}\n:hidden:\n:caption: {name}\n\n{entries}\n```\n")
    return "\n".join(tables)


def write_sources(folder: Path) -> None:
    for page in (HOME, *pages()):
        file = folder / place(page)
        file.parent.mkdir(parents=True, exist_ok=True)
        text = page_text(page)
        if page == HOME:
            text += "\n" + contents()
        if page == f"{DECISIONS}/README.md":
            text += "\n```{toctree}\n:glob:\n\n[0-9]*\n```\n"
        file.write_text(text)
    shutil.copytree(SOURCE / "docs" / "pictures", folder / "pictures")
    (folder / "conf.py").write_text(CONFIGURATION)


def build(folder: Path) -> None:
    """Build the site; a link or a page that is not there fails it."""
    with tempfile.TemporaryDirectory() as scratch:
        sources = Path(scratch, "sources")
        write_sources(sources)
        command = [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", "--keep-going"]
        command += ["--builder", "html", "--doctree-dir", str(Path(scratch, "trees"))]
        subprocess.run([*command, str(sources), str(folder)], check=True)
    shutil.copy(SOURCE / LLMS, folder / "llms.txt")


def llms_text() -> str:
    """The pages with their first sentences, in the form that language models are given."""
    parts = ["# Swell\n", f"> {summary((SOURCE / HOME).read_text())}\n"]
    for name, listed in SECTIONS.items():
        lines = []
        for page in listed:
            text = (SOURCE / page).read_text()
            link = posixpath.relpath(page, "docs")
            says = summary(text)
            lines.append(f"- [{title(text)}]({link}){f': {says}' if says else ''}\n")
        parts.append(f"## {name}\n\n{''.join(lines)}")
    return "\n".join(parts)


def main() -> int:
    parser = argparse.ArgumentParser(prog="make docs", description=__doc__)
    parser.add_argument("folder", nargs="?", type=Path, help="where the site goes")
    parser.add_argument("--llms", action="store_true", help="write docs/llms.txt instead")
    asked = parser.parse_args()
    if asked.llms:
        (SOURCE / LLMS).write_text(llms_text())
    elif asked.folder is None:
        parser.error("name a folder")
    else:
        build(asked.folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
