"""Every link of every page leads somewhere: to a file that is there, and to a heading in it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.markdown import anchors, relinked, summary, targets, title
from tools.site import DECISIONS, HOME, LLMS, llms_text, page_text, pages

ROOT = Path(__file__).parents[2]
# Recorded from elsewhere, and kept as they came.
FOREIGN = ("tests/contract/recorded/", "tests/data/")


def tracked() -> list[str]:
    listed = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    done = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True)
    return [name for name in done.stdout.splitlines() if not name.startswith(FOREIGN)]


def broken(page: str) -> Iterator[str]:
    for target in targets((ROOT / page).read_text()):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        file = (ROOT / page).parent / path if path else ROOT / page
        if not file.exists():
            yield target
        elif anchor and anchor not in anchors(file.read_text()):
            yield f"{target} has no such heading"


@pytest.mark.parametrize("page", tracked())
def test_links_lead_somewhere(page: str) -> None:
    """Files, folders, pictures and headings."""
    assert list(broken(page)) == []


def test_every_page_is_in_the_site() -> None:
    """A page that is new has to be put into a section, once."""
    written = {name for name in tracked() if name.startswith("docs/")}

    assert len(pages()) == len(set(pages()))
    assert written - {*pages()} == set()
    assert all((ROOT / page).exists() for page in pages())


def test_pages_for_programs_are_current() -> None:
    """`python -m tools.site --llms` changes nothing."""
    assert (ROOT / LLMS).read_text() == llms_text()


def test_site_links_only_to_itself() -> None:
    """What is no page of the site becomes plain text."""
    decisions = f"{DECISIONS}/README.md"
    text = page_text(HOME)

    assert "](docs/" not in text
    assert "](tutorial.md)" in text
    assert "](../" in page_text("docs/reference/aitrainingjob.md")
    assert page_text(decisions).startswith("# Decisions")


TEXT = """# A `page`

Says [much](b.md#here). And more.

## Two words, `code` [link](x.md)
## Two words, `code` [link](x.md)

```
[not](a-link.md)
```
![picture](p.png)
"""


def test_pages_are_understood() -> None:
    """Titles, first sentences, headings as GitHub names them, links outside of code."""
    assert title(TEXT) == "A page"
    assert summary(TEXT) == "Says much."
    assert anchors(TEXT) == {"a-page", "two-words-code-link", "two-words-code-link-1"}
    assert [*targets(TEXT)] == ["b.md#here", "x.md", "x.md", "p.png"]
    assert relinked("[a](b) ![c](d)", lambda t: None if t == "b" else "e") == "a ![c](e)"
