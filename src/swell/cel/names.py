"""How property names that are no identifiers are written in expressions."""

from __future__ import annotations

import re

from swell.cel.syntax import CONSTANTS, RESERVED

_ACCESSIBLE = re.compile(r"[A-Za-z_.\-/][A-Za-z0-9_.\-/]*")
_TO_WORD = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_FROM_WORD = {word: sign for sign, word in _TO_WORD.items()}
_SIGN = re.compile(r"__|[.\-/]")
_WORD = re.compile("|".join(_FROM_WORD))
_KEYWORDS = RESERVED | set(CONSTANTS) | {"in"}


def escape(name: str) -> str | None:
    """The identifier of a property; None when expressions cannot name it."""
    if not _ACCESSIBLE.fullmatch(name):
        return None
    if name in _KEYWORDS:
        return f"__{name}__"
    return _SIGN.sub(lambda match: _TO_WORD[match.group()], name)


def unescape(identifier: str) -> str:
    """The property an identifier names."""
    if identifier[2:-2] in _KEYWORDS and identifier == f"__{identifier[2:-2]}__":
        return identifier[2:-2]
    return _WORD.sub(lambda match: _FROM_WORD[match.group()], identifier)
