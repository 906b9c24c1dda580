"""Timestamps, to and from the texts of the API."""

from __future__ import annotations

import pytest

from swell.api.times import format_micro_time, format_time, is_date_time, parse_time


def test_times_are_written_in_utc() -> None:
    """Whole seconds for most, six digits for leases."""
    assert format_time(1.9) == "1970-01-01T00:00:01Z"
    assert format_micro_time(1.5) == "1970-01-01T00:00:01.500000Z"


def test_times_are_read_with_their_zone() -> None:
    """A time zone is needed, and counts."""
    assert parse_time("1970-01-01T00:00:01Z") == 1
    assert parse_time("1970-01-01T01:00:00.5+01:00") == 0.5
    with pytest.raises(ValueError, match="time zone"):
        parse_time("1970-01-01T00:00:01")


def test_times_of_small_letters_are_read_as_servers_do() -> None:
    """A server takes them where a schema asks for a time."""
    assert is_date_time("1970-01-01t00:00:01z")
    assert parse_time("1970-01-01t00:00:01z") == 1
    assert not is_date_time("1970-01-01 00:00:01Z")
    assert not is_date_time("1970-01-01T00:00:01")
    assert not is_date_time("1970-02-30T00:00:01Z")
