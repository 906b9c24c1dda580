"""Quantities: what is read, written and computed, against answers recorded from apimachinery."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path

import pytest

from swell.api.quantity import (
    MAX_INT64,
    ZERO,
    Quantity,
    QuantityError,
    QuantityFormat,
    canonical,
    milli,
    parse,
    served,
    total,
    units,
)

# Text; then, unless refused: the text served back, the canonical text, the format, the number.
RECORDED: list[list[str]] = json.loads(
    (Path(__file__).parents[2] / "data" / "quantities.json").read_text()
)
ACCEPTED = [row for row in RECORDED if len(row) > 1]
REFUSED = [row[0] for row in RECORDED if len(row) == 1]


def test_recorded_answers_are_plenty() -> None:
    """The recording covers both what Kubernetes takes and what it refuses."""
    assert len(ACCEPTED) >= 500
    assert len(REFUSED) >= 200


def test_reading_and_writing_agrees_with_kubernetes() -> None:
    """A text means the same number, in the same format, written the same way."""
    for text, back, shortest, format_, number in ACCEPTED:
        quantity = parse(text)

        assert Fraction(quantity.nano, 10**9) == Fraction(number), text
        assert quantity.format.value == format_, text
        assert canonical(quantity) == shortest, text
        assert served(text) == back, text


def test_texts_refused_by_kubernetes_are_refused() -> None:
    """What is no quantity for Kubernetes is none for us."""
    for text in REFUSED:
        with pytest.raises(QuantityError):
            parse(text)


@pytest.mark.parametrize(
    ("raw", "nano"),
    [(2, 2 * 10**9), (0, 0), (-3, -3 * 10**9), (1.5, 1_500_000_000), (1e22, 10**31), (0.1, 10**8)],
)
def test_numbers_in_json_are_quantities(raw: float, nano: int) -> None:
    """A number stands for itself, a float for its shortest decimal text."""
    assert parse(raw).nano == nano


@pytest.mark.parametrize(
    "raw",
    [
        True,
        float("nan"),
        float("inf"),
        None,
        pytest.param(10**5000, id="huge"),
        "1e1200",
        "1e9999999999",
    ],
)
def test_what_is_no_finite_number_is_refused(raw: object) -> None:
    """Booleans, infinities and numbers beyond all reason are refused, at once."""
    with pytest.raises(QuantityError):
        parse(raw)


def test_texts_without_end_are_refused() -> None:
    """A text of thousands of characters is not even looked at."""
    with pytest.raises(QuantityError, match="more than 1000 characters"):
        parse("1" * 2000)


def test_tiny_exponents_round_up_without_work() -> None:
    """However small an amount, it is at least a nano."""
    assert parse("1e-2000000000").nano == 1
    assert parse("-1e-2000000000").nano == -1
    assert parse("0e-2000000000").nano == 0


@pytest.mark.parametrize(
    ("text", "value", "milli_value"),
    [
        ("1", 1, 1000),
        ("1500m", 2, 1500),
        ("1n", 1, 1),
        ("1.0001", 2, 1001),
        ("-1500m", -2, -1500),
        ("1Ki", 1024, 1024000),
        ("9Ei", MAX_INT64, MAX_INT64 * 1000),
    ],
)
def test_integers_are_rounded_away_from_zero(text: str, value: int, milli_value: int) -> None:
    """Whoever asks for a little gets a unit; binary amounts are capped at 2^63-1."""
    assert units(text) == parse(text).value() == value
    assert milli(text) == parse(text).milli_value() == milli_value


def test_sums_are_exact_and_keep_the_first_format() -> None:
    """The first amount that is not zero decides how a sum is written."""
    assert str(parse("1Gi") + parse("1k")) == "1073742824"
    assert str(parse("0") + parse("1Gi")) == "1Gi"
    assert str(parse("1Gi") - parse("1Mi")) == "1023Mi"
    assert str(parse("0.1") + parse("0.2")) == "300m"
    assert str(total(map(parse, ["100m", "900m"]))) == "1"
    assert total([]) == ZERO
    assert str(parse("1.5Gi") * 2) == "3Gi"
    assert str(-parse("5e3")) == "-5e3"


def test_comparison_ignores_the_format() -> None:
    """Equal amounts are equal, hash alike and order by size."""
    assert parse("1024") == parse("1Ki")
    assert hash(parse("1000m")) == hash(parse("1"))
    assert parse("999m") < parse("1") <= parse("1e0") < parse("1001m")
    assert parse("1") > parse("-1") >= parse("-1")
    assert not parse("0m")
    assert max(parse("1Gi"), parse("1G")) == parse("1Gi")


def test_amounts_beyond_the_largest_suffix_keep_their_value() -> None:
    """A sum greater than any suffix is still written in a way that reads back."""
    assert str(parse("999E") + parse("1E")) == "1000E"
    huge = Quantity(2**80 * 10**9, QuantityFormat.BINARY_SI)
    assert str(huge) == "1048576Ei"


def test_errors_are_short_and_say_what_is_wrong() -> None:
    """An error names the value, cut to size, and the reason."""
    with pytest.raises(QuantityError, match="unknown suffix 'i'"):
        parse("1i")
    with pytest.raises(QuantityError) as caught:
        parse("x" * 500)
    assert len(str(caught.value)) < 200
