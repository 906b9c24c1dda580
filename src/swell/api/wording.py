"""Numbers in sentences for people."""

from __future__ import annotations


def count_of(n: int, one: str, many: str = "") -> str:
    """Returns a number with its noun, as in "1 pod" and "3 pods".

    `many` is the plural where it is not `one` with an s, as in "1 pod leaves" and "2 pods leave".
    """
    return f"{n} {one}" if n == 1 else f"{n} {many or one + 's'}"
