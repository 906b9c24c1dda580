"""Durations as people write them."""

from __future__ import annotations

import pytest

from swell.cli.options import seconds_of


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15s", 15.0), ("10m", 600.0), ("1h30m", 5400.0), ("500ms", 0.5), ("2.5s", 2.5), ("30", 30.0)],
)
def test_duration_is_read(text: str, seconds: float) -> None:
    """Units from milliseconds to hours, put together as one likes; a bare number is seconds."""
    assert seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "s", "10x", "1h 30m", "-5s", "ten"])
def test_nonsense_is_refused(text: str) -> None:
    """With words on how to write it."""
    with pytest.raises(ValueError, match="write it like"):
        seconds_of(text)
