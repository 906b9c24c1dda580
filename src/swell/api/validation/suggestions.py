"""Did you mean …? Finds the known word that a misspelt one probably stands for."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import SequenceMatcher

_LIKENESS_MIN = 0.6
_WORD_SIZE_MAX = 64  # no word of ours is longer, and comparing takes time
_LISTED_MAX = 24


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known word most like this one, whatever the case and the separators; None if none is."""
    if len(word) > _WORD_SIZE_MAX:
        return None
    plain = _plain(word)
    best, best_likeness = None, _LIKENESS_MIN
    for candidate in sorted(known):
        likeness = SequenceMatcher(None, plain, _plain(candidate), autojunk=False).ratio()
        if likeness > best_likeness or (best is None and likeness >= best_likeness):
            best, best_likeness = candidate, likeness
    return best


def choices_hint(word: object, known: Iterable[str]) -> str:
    """Which values there are, and the nearest of them."""
    values = [value or '""' for value in known]
    likely = nearest(word, values) if isinstance(word, str) else None
    return _hint(values, likely)


def fields_hint(name: str, known: Iterable[str]) -> str:
    """Which fields there are, and the nearest of them."""
    names = sorted(known)
    likely = nearest(name, names)
    return f"did you mean {likely}?" if likely else _hint(names, None)


def _hint(values: list[str], likely: str | None) -> str:
    shown = values[:_LISTED_MAX]
    more = ["…"] if len(values) > _LISTED_MAX else []
    listed = f"one of {', '.join([*shown, *more])}"
    return f"{listed}; did you mean {likely}?" if likely else listed


def _plain(word: str) -> str:
    return "".join(character for character in word.lower() if character.isalnum())
