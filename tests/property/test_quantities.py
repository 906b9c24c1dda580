"""A smaller number of the samples that `tests.property.quantities` can draw."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.api.quantity import Quantity, QuantityError, QuantityFormat, canonical, parse, served
from tests.property.quantities import check_samples


@pytest.mark.parametrize("seed", range(4))
def test_quantities_agree_with_rational_arithmetic(seed: int) -> None:
    """Reading, rounding, sums, order and writing are those of exact fractions."""
    check_samples(2_000, seed)


@given(st.text(alphabet="0123456789.+-eEinumkKMGTP \n", max_size=12))
def test_any_text_is_a_quantity_or_refused(text: str) -> None:
    """No text raises anything but QuantityError, and what is served reads back the same."""
    try:
        quantity = parse(text)
    except QuantityError:
        return
    assert parse(served(text)) == quantity


@given(st.integers(-(10**40), 10**40), st.sampled_from(QuantityFormat))
def test_canonical_forms_round_trip(nano: int, format_: QuantityFormat) -> None:
    """Every amount in every format is written so that it reads back, unless reading caps it."""
    quantity = Quantity(nano, format_)
    if format_ is QuantityFormat.BINARY_SI and abs(nano) >= 2**63 * 10**9:
        return
    text = canonical(quantity)
    back = parse(text)

    assert back == quantity
    assert canonical(Quantity(back.nano, format_)) == text
