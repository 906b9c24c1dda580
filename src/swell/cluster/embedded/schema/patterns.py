"""Regular expressions as Kubernetes has them: RE2, whose matching time grows linearly.

Python's own engine would let one pattern and one value of a user stop the server.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import re2

PATTERN_CACHE_SIZE = 4096
_options = re2.Options()
_options.log_errors = False


class PatternError(ValueError):
    """The text is no regular expression."""


@lru_cache(maxsize=PATTERN_CACHE_SIZE)
def compile_pattern(pattern: str) -> re2._Regexp:
    try:
        return re2.compile(pattern, _options)
    except re2.error as error:
        raise PatternError(f"{pattern!r}: {error}") from error


def searcher(pattern: str) -> Callable[[str], bool]:
    """Whether the pattern occurs in a text."""
    search = compile_pattern(pattern).search
    return lambda text: search(text) is not None
