"""Regular expressions in the syntax Kubernetes uses: RE2, whose matching time grows linearly.

With Python's own engine a user's pattern and value could stop the server (ADR 8).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

# Only short patterns are kept, so that a full cache stays small; longer ones are compiled again.
CACHED_PATTERNS_MAX = 1024
CACHED_LENGTH_MAX = 1000
_options = re2.Options()
_options.log_errors = False
_options.max_mem = 4 << 20


# Characters of a text times instructions of a pattern, about a tenth of a second. Only patterns
# with thousands of instructions, such as (a{1000}){9}, meet it.
WORK_MAX = 1_000_000_000


class PatternError(ValueError):
    """A text is no regular expression, or one that would need too much memory."""


def compile_pattern(pattern: str) -> re2._Regexp:
    """The compiled pattern; raises PatternError when the text is none."""
    return _cached(pattern) if len(pattern) <= CACHED_LENGTH_MAX else _compiled(pattern)


def _compiled(pattern: str) -> re2._Regexp:
    try:
        return re2.compile(pattern, _options)
    except re2.error as error:
        raise PatternError(f"{pattern[:80]!r}: {error}") from error


_cached = lru_cache(maxsize=CACHED_PATTERNS_MAX)(_compiled)


def text_length_max(compiled: re2._Regexp) -> int:
    """The longest text that is matched with a pattern; a longer one counts as no match."""
    return WORK_MAX // max(int(compiled.programsize), 1)


def late_searcher(pattern: str) -> Callable[[str], bool]:
    """A test as `searcher` makes it, of a pattern of ours that is compiled when first used.

    Patterns with classes of Unicode take tens of milliseconds, which a command has no time for.
    """
    found: Callable[[str], bool] | None = None

    def check(text: str) -> bool:
        nonlocal found
        if found is None:
            found = searcher(pattern)
        return found(text)

    return check


def searcher(pattern: str) -> Callable[[str], bool]:
    """A test of whether the pattern occurs anywhere in a text."""
    compiled = compile_pattern(pattern)
    search, length_max = compiled.search, text_length_max(compiled)
    return lambda text: len(text) <= length_max and search(text) is not None
