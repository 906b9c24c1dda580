"""The command line as it was written, for commands whose parser does not keep what they need."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

END_OF_OPTIONS = "--"


@dataclass(frozen=True, slots=True)
class Invocation:
    """`words` up to a lone `--`, the command's name first; `command` what follows it, if there."""

    words: tuple[str, ...]
    command: tuple[str, ...] | None = None


def split(arguments: Sequence[str]) -> Invocation:
    words = tuple(arguments)
    if END_OF_OPTIONS not in words:
        return Invocation(words)
    at = words.index(END_OF_OPTIONS)
    return Invocation(words[:at], words[at + 1 :])
