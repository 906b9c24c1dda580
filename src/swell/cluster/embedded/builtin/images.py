"""The names of images, and how images are pulled."""

from __future__ import annotations

from functools import lru_cache

from swell.schema.patterns import compile_pattern

_HOST_PART = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_PATH_PART = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*"
IMAGE = compile_pattern(
    rf"^(?:{_HOST_PART}(?:\.{_HOST_PART})*(?::[0-9]+)?/)?{_PATH_PART}(?:/{_PATH_PART})*"
    r"(?::([A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?"
    r"(?:@([A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}))?$"
)


@lru_cache(maxsize=1024)  # the pods of a job all name the same image
def pull_policy(image: str) -> str:
    """Always for an image of tag `latest`, IfNotPresent for one with another tag or a digest."""
    return "Always" if _tag(image) == "latest" else "IfNotPresent"


def _tag(image: str) -> str:
    """The tag an image is pulled by; empty for a digest, and for a text that names no image."""
    match = IMAGE.search(image)
    if match is None:
        return ""
    tag, digest = match.group(1), match.group(2)
    return tag or ("" if digest else "latest")
