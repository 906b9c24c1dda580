"""Pages of Markdown: their titles, headings and links, as far as the tools need them. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

_FENCE = re.compile(r"^(```|~~~).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
# The text of a link may contain one in brackets, such as code; an image is one with `!` before it.
_LINK = re.compile(r"(?P<image>!?)\[(?P<text>(?:[^\[\]]|\[[^\]]*\])*)\]\((?P<target>[^)\s]+)\)")
_SOURCE = re.compile(r"(?:src|srcset|href)=\"([^\"]+)\"")
_CODE = re.compile(r"`[^`\n]*`")


def title(text: str) -> str:
    found = _HEADING.search(text)
    return found[1].replace("`", "") if found else ""


def summary(text: str) -> str:
    """The first sentence of a page below its title, without links; empty if it begins otherwise."""
    body = _FENCE.sub("", text).split("\n\n")
    parts = [part for part in body[1:] if part[:1].isalnum() or part[:1] in "`*["]
    # Pages that a program writes say so first.
    first = next((part for part in parts if not part.startswith("Written by ")), "")
    plain = " ".join(_LINK.sub(lambda found: found["text"], first).split())
    return re.split(r"(?<=[.!?])\s", plain, maxsplit=1)[0].rstrip(":")


def anchors(text: str) -> set[str]:
    """The names of a page's headings in links, as GitHub makes them."""
    seen: dict[str, int] = {}
    found = set()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        plain = _LINK.sub(lambda link: link["text"], heading).lower()
        slug = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        n_before = seen.get(slug, 0)
        seen[slug] = n_before + 1
        found.add(f"{slug}-{n_before}" if n_before else slug)
    return found


def targets(text: str) -> Iterator[str]:
    """What a page links to and shows, code left out."""
    plain = _FENCE.sub("", text)
    yield from (found["target"] for found in _LINK.finditer(plain))
    yield from _SOURCE.findall(_CODE.sub("", plain))


def relinked(text: str, change: Callable[[str], str | None]) -> str:
    """The page with other targets of its links; one whose target becomes None is plain text."""

    def link(found: re.Match[str]) -> str:
        target = change(found["target"])
        if target is None:
            return found["text"]
        return f"{found['image']}[{found['text']}]({target})"

    return _LINK.sub(link, text)
