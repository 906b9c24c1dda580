"""Quantities against exact rational arithmetic, as many samples as one likes.

`python -m tests.property.quantities --samples 100000` draws them from a seed and checks each.
"""

from __future__ import annotations

import argparse
import math
import random
from fractions import Fraction

from swell.api.quantity import MAX_INT64, Quantity, QuantityFormat, canonical, parse

FACTORS = {
    "": Fraction(1),
    **{
        suffix: Fraction(10) ** exponent
        for suffix, exponent in zip("num", (-9, -6, -3), strict=True)
    },
    **{suffix: Fraction(1000) ** power for power, suffix in enumerate("kMGTPE", start=1)},
    **{f"{suffix}i": Fraction(1024) ** power for power, suffix in enumerate("KMGTPE", start=1)},
}
NANO = Fraction(1, 10**9)


def draw_text(chance: random.Random) -> tuple[str, Fraction, QuantityFormat]:
    """A quantity's text, the number it stands for before rounding, and its format."""
    whole = str(chance.randrange(10 ** chance.randrange(1, 20)))
    digits = chance.randrange(0, 13)
    fraction = str(chance.randrange(10**digits)).zfill(digits) if digits else ""
    sign = chance.choice(["", "", "+", "-"])
    number = Fraction(int(whole + fraction), 10**digits) * (-1 if sign == "-" else 1)
    text = f"{sign}{whole}.{fraction}" if fraction else f"{sign}{whole}"
    if chance.random() < 0.25:
        exponent = chance.randrange(-12, 19)
        letter = chance.choice("eE")
        return (
            f"{text}{letter}{exponent}",
            number * Fraction(10) ** exponent,
            QuantityFormat.DECIMAL_EXPONENT,
        )
    suffix = chance.choice(list(FACTORS))
    format_ = QuantityFormat.BINARY_SI if suffix.endswith("i") else QuantityFormat.DECIMAL_SI
    return text + suffix, number * FACTORS[suffix], format_


def rounded(number: Fraction, unit: Fraction) -> int:
    """Whole units, away from zero."""
    return int(math.copysign(1, number)) * math.ceil(abs(number) / unit)


def expected_nano(number: Fraction, format_: QuantityFormat) -> int:
    nano = rounded(number, NANO)
    cap = MAX_INT64 * 10**9
    return max(-cap, min(cap, nano)) if format_ is QuantityFormat.BINARY_SI else nano


def check_sample(chance: random.Random) -> None:
    """Two quantities: reading, writing, rounding, sums and order are exact."""
    first_text, first, first_format = draw_text(chance)
    second_text, second, second_format = draw_text(chance)
    one, other = parse(first_text), parse(second_text)
    exact = Fraction(expected_nano(first, first_format), 10**9)
    beside = Fraction(expected_nano(second, second_format), 10**9)

    assert Fraction(one.nano, 10**9) == exact, first_text
    assert Fraction(other.nano, 10**9) == beside, second_text
    assert one.value() == rounded(exact, Fraction(1)), first_text
    assert one.milli_value() == rounded(exact, Fraction(1, 1000)), first_text
    factor = chance.randrange(-1000, 1000)
    for result, number in (
        (one, exact),
        (one + other, exact + beside),
        (one - other, exact - beside),
        (one * factor, exact * factor),
        (-one, -exact),
    ):
        check_written(result, number)
    assert (one < other) == (exact < beside)
    assert (one <= other) == (exact <= beside)
    assert (one == other) == (exact == beside)


def check_written(quantity: Quantity, number: Fraction) -> None:
    """A canonical text reads back as the same amount, which is written the same again."""
    assert Fraction(quantity.nano, 10**9) == number
    text = canonical(quantity)
    if quantity.format is QuantityFormat.BINARY_SI and abs(number) > MAX_INT64:
        return  # reading caps what only a sum can reach
    back = parse(text)
    assert back == quantity, text
    # A binary amount that no suffix shortens is written without one, so its format is not read.
    assert canonical(Quantity(back.nano, quantity.format)) == text
    assert "." not in text


def check_samples(n_samples: int, seed: int) -> None:
    chance = random.Random(seed)
    for _ in range(n_samples):
        check_sample(chance)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--samples", type=int, default=100_000)
    arguments.add_argument("--seed", type=int, default=1)
    chosen = arguments.parse_args()
    check_samples(chosen.samples, chosen.seed)
    print(f"{chosen.samples} samples of seed {chosen.seed}: all exact")  # noqa: T201


if __name__ == "__main__":
    main()
