"""Regular expressions as Kubernetes has them: RE2, whose matching time grows linearly.

Python's own engine would let one pattern and one value of a user stop the server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

CACHED_PATTERNS_MAX = 1024
CACHED_LENGTH_MAX = 1000  # longer ones are compiled again, so that the cache stays small
_options = re2.Options()
_options.log_errors = False
_options.max_mem = 4 << 20


class PatternError(ValueError):
    """The text is no regular expression."""


def compile_pattern(pattern: str) -> re2._Regexp:
    return _cached(pattern) if len(pattern) <= CACHED_LENGTH_MAX else _compiled(pattern)


def _compiled(pattern: str) -> re2._Regexp:
    try:
        return re2.compile(pattern, _options)
    except re2.error as error:
        raise PatternError(f"{pattern[:80]!r}: {error}") from error


_cached = lru_cache(maxsize=CACHED_PATTERNS_MAX)(_compiled)


def searcher(pattern: str) -> Callable[[str], bool]:
    """Whether the pattern occurs in a text."""
    search = compile_pattern(pattern).search
    return lambda text: search(text) is not None
