"""Kubernetes quantities ("500m", "1.5Gi", "2e3"), exactly: parsing, arithmetic, canonical text.

An amount is a whole number of nano units, so no float is involved. Parsing follows the API server:
digits finer than a nano are rounded away from zero, and an amount with a binary suffix is capped at
2^63-1. Sums are not capped.

It differs from the server in two cases where the server is wrong: an amount beyond the largest
suffix is written with that suffix ("1000E", where the server drops the suffix and writes "1"), and
numbers of more than a thousand digits are refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

# A quantity as it stands in a manifest: "500m", 2, 1.5.
QuantityText = str | int | float

MAX_INT64 = 2**63 - 1
NANO_DIGITS = 9
NANO = 1_000_000_000

_DIGITS_MAX = 1000  # bounds the work that a hostile manifest can cause
_EXPONENT_MAX = 2**31 - 1  # the server keeps an exponent as int32

_DECIMAL_EXPONENTS = {
    "n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18,
}  # fmt: skip
_DECIMAL_SUFFIXES = {exponent: suffix for suffix, exponent in _DECIMAL_EXPONENTS.items()}
_BINARY_EXPONENTS = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
_BINARY_SUFFIXES = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")

# As on the server every part may be empty: ".", "-" and "Mi" are all zero.
_SHAPE = re.compile(r"([+-]?)([0-9]*)(?:\.([0-9]*))?([eEinumkKMGTP]*[-+]?[0-9]*)")
_EXPONENT = re.compile(r"[eE]([-+]?[0-9]+)")
# The server trims Unicode's white space from a quantity in JSON.
_WHITE_SPACE = (
    "\t\n\v\f\r \x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000"
)


class QuantityFormat(Enum):
    """The family of suffixes of a quantity; it is kept when the quantity is written again."""

    DECIMAL_SI = "DecimalSI"
    BINARY_SI = "BinarySI"
    DECIMAL_EXPONENT = "DecimalExponent"


class QuantityError(ValueError):
    """A value that is no quantity, with the problem."""

    def __init__(self, raw: object, problem: str) -> None:
        shown = repr(raw)
        super().__init__(f"{shown if len(shown) <= 80 else shown[:77] + '...'}: {problem}")
        self.raw = raw
        self.problem = problem


@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount. Two equal amounts are equal whatever their format."""

    nano: int = 0
    format: QuantityFormat = field(default=QuantityFormat.DECIMAL_SI, compare=False)

    def value(self) -> int:
        """Returns whole units, rounded away from zero."""
        return divide_away(self.nano, NANO)

    def milli_value(self) -> int:
        """Returns thousandths, rounded away from zero."""
        return divide_away(self.nano, 1_000_000)

    def __add__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano + other.nano, self._format_beside(other))

    def __sub__(self, other: Quantity) -> Quantity:
        return Quantity(self.nano - other.nano, self._format_beside(other))

    def __mul__(self, factor: int) -> Quantity:
        return Quantity(self.nano * factor, self.format)

    def __neg__(self) -> Quantity:
        return Quantity(-self.nano, self.format)

    def __lt__(self, other: Quantity) -> bool:
        return self.nano < other.nano

    def __le__(self, other: Quantity) -> bool:
        return self.nano <= other.nano

    def __gt__(self, other: Quantity) -> bool:
        return self.nano > other.nano

    def __ge__(self, other: Quantity) -> bool:
        return self.nano >= other.nano

    def __bool__(self) -> bool:
        return self.nano != 0

    def __str__(self) -> str:
        return canonical(self)

    def _format_beside(self, other: Quantity) -> QuantityFormat:
        return self.format if self.nano else other.format


ZERO = Quantity()


@lru_cache(maxsize=16384, typed=True)
def parse(raw: QuantityText) -> Quantity:
    """Returns the amount that a text or number of a manifest means; raises QuantityError."""
    sign, whole, fraction, suffix = _split(raw)
    digits = whole + fraction
    if not digits and not _may_lack_digits(raw, suffix):
        raise QuantityError(raw, "has no digits")
    magnitude = int(digits or "0")
    if suffix in _BINARY_EXPONENTS:
        scaled = magnitude * NANO << _BINARY_EXPONENTS[suffix]
        nano = min(-(-scaled // _power_of_ten(len(fraction))), MAX_INT64 * NANO)
        format_ = (
            QuantityFormat.BINARY_SI if nano >= NANO or not nano else QuantityFormat.DECIMAL_SI
        )
    else:
        exponent, format_ = _decimal_exponent(raw, suffix)
        nano = _shift(raw, magnitude, exponent - len(fraction) + NANO_DIGITS)
    return Quantity(-nano if sign == "-" else nano, format_)


@lru_cache(maxsize=16384, typed=True)
def milli(raw: QuantityText) -> int:
    """Returns thousandths, rounded up: cpu and extended resources are scheduled in them."""
    return parse(raw).milli_value()


@lru_cache(maxsize=16384, typed=True)
def units(raw: QuantityText) -> int:
    """Returns whole units, rounded up: bytes of memory, pods, devices."""
    return parse(raw).value()


def total(quantities: Iterable[Quantity]) -> Quantity:
    """Returns the sum, in the format of the first amount that is not zero."""
    result = ZERO
    for quantity in quantities:
        result += quantity
    return result


def canonical(quantity: Quantity) -> str:
    """Returns the one text of an amount in its format: no fraction, the largest exact suffix."""
    if not quantity.nano:
        return "0"
    if quantity.format is QuantityFormat.BINARY_SI and _is_binary_exact(quantity.nano):
        return _binary_text(quantity.nano // NANO)
    mantissa, exponent = _engineering(quantity.nano)
    if quantity.format is QuantityFormat.DECIMAL_EXPONENT:
        return f"{mantissa}e{exponent}" if exponent else str(mantissa)
    excess = max(exponent - 18, 0)
    return f"{mantissa * _power_of_ten(excess)}{_DECIMAL_SUFFIXES[exponent - excess]}"


@lru_cache(maxsize=16384, typed=True)
def served(raw: QuantityText) -> str:
    """Returns the text with which an API server answers for a quantity it was sent.

    That is the canonical one, except that the server returns a text as it came when its fast path
    finds nothing to shorten ("1.500", "+1", "0012"). The conditions below are those of that path.
    """
    quantity = parse(raw)
    _, whole, fraction, suffix = _split(raw)
    whole = whole.lstrip("0") or "0"
    shown = _as_text(raw)
    if suffix in _BINARY_EXPONENTS:
        roomy = len(whole) + _BINARY_EXPONENTS[suffix] * 3 // 10 <= 14
        kept = not fraction and roomy and int(whole) % 8 != 0
    else:
        exponent = _decimal_exponent(raw, suffix)[0] - len(fraction)
        digits = whole + fraction
        roomy = len(digits) <= 18 and exponent >= -NANO_DIGITS
        kept = roomy and exponent % 3 == 0 and digits[0] != "0" and not digits.endswith("000")
    return shown if kept else canonical(quantity)


def divide_away(dividend: int, divisor: int) -> int:
    """Returns the quotient rounded away from zero; the divisor must be positive."""
    return -(-dividend // divisor) if dividend >= 0 else dividend // divisor


def _as_text(raw: QuantityText) -> str:
    if isinstance(raw, str):
        return raw.strip(_WHITE_SPACE)
    if isinstance(raw, bool) or not isinstance(raw, int | float):
        raise QuantityError(raw, "must be a number or a text such as 500m or 1Gi")
    if isinstance(raw, float):
        if not math.isfinite(raw):
            raise QuantityError(raw, "must be finite")
        return repr(raw)
    if raw.bit_length() > 3 * _DIGITS_MAX:
        raise QuantityError("a huge number", f"has more than {_DIGITS_MAX} digits")
    return str(raw)


def _split(raw: QuantityText) -> tuple[str, str, str, str]:
    """Returns the sign, the digits before and after the point, and the suffix."""
    text = _as_text(raw)
    if len(text) > _DIGITS_MAX:
        raise QuantityError(raw, f"has more than {_DIGITS_MAX} characters")
    match = _SHAPE.fullmatch(text)
    if match is None or not text:
        raise QuantityError(raw, "must be a number with an optional suffix, such as 500m or 1Gi")
    sign, whole, fraction, suffix = match.groups(default="")
    return sign, whole, fraction, suffix


def _decimal_exponent(raw: object, suffix: str) -> tuple[int, QuantityFormat]:
    if suffix in _DECIMAL_EXPONENTS:
        return _DECIMAL_EXPONENTS[suffix], QuantityFormat.DECIMAL_SI
    match = _EXPONENT.fullmatch(suffix)
    if match is None:
        allowed = " ".join([*filter(None, _DECIMAL_EXPONENTS), *_BINARY_EXPONENTS])
        raise QuantityError(raw, f"unknown suffix {suffix!r}, must be one of {allowed}")
    exponent = int(match[1])
    if abs(exponent) > _EXPONENT_MAX:
        raise QuantityError(raw, "exponent out of range")
    return exponent, QuantityFormat.DECIMAL_EXPONENT


def _may_lack_digits(raw: object, suffix: str) -> bool:
    """Whether the server parses this on its fast path, which takes no digits for zero."""
    if suffix in _BINARY_EXPONENTS:
        return suffix not in {"Pi", "Ei"}
    return _decimal_exponent(raw, suffix)[0] >= -NANO_DIGITS


def _shift(raw: object, magnitude: int, exponent: int) -> int:
    """Returns magnitude * 10^exponent, rounded up, without ever computing a huge power."""
    if not magnitude:
        return 0
    if exponent >= 0:
        if exponent > _DIGITS_MAX:
            raise QuantityError(raw, f"has more than {_DIGITS_MAX} digits")
        return magnitude * _power_of_ten(exponent)
    if -exponent > _DIGITS_MAX:  # more places than a text has digits: less than one nano
        return 1
    return -(-magnitude // _power_of_ten(-exponent))


def _power_of_ten(exponent: int) -> int:
    power: int = 10**exponent
    return power


def _is_binary_exact(nano: int) -> bool:
    """Whether a binary suffix writes the amount exactly; below 1024 the server uses none."""
    return abs(nano) >= 1024 * NANO and nano % NANO == 0


def _binary_text(amount: int) -> str:
    power = 0
    while power < 6 and amount % 1024 == 0:
        amount //= 1024
        power += 1
    return f"{amount}{_BINARY_SUFFIXES[power]}"


def _engineering(nano: int) -> tuple[int, int]:
    """Returns mantissa and exponent, the exponent being the largest possible multiple of three."""
    mantissa, exponent = nano, -NANO_DIGITS
    while mantissa % 1000 == 0:
        mantissa //= 1000
        exponent += 3
    return mantissa, exponent
