"""Sentences have the singular for one, and the plural for any other number."""

from __future__ import annotations

import pytest

from swell.api.wording import count_of


@pytest.mark.parametrize(
    ("n", "words", "text"),
    [
        (0, ("pod",), "0 pods"),
        (1, ("pod",), "1 pod"),
        (2, ("pod",), "2 pods"),
        (1, ("pod leaves", "pods leave"), "1 pod leaves"),
        (2, ("pod leaves", "pods leave"), "2 pods leave"),
    ],
)
def test_number_goes_with_its_noun(n: int, words: tuple[str, ...], text: str) -> None:
    assert count_of(n, *words) == text
