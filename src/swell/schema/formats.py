"""The string formats that schemas of custom resources may name.

These are the formats kube-apiserver checks; it accepts every string for a format it does not know.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Callable, Mapping
from datetime import date
from urllib.parse import urlsplit

from swell.api.times import is_date_time
from swell.schema.patterns import late_searcher

UUID = r"(?i)^[0-9a-f]{{8}}-?[0-9a-f]{{4}}-?{version}-?{variant}-?[0-9a-f]{{12}}$"
HEX4, VARIANT = "[0-9a-f]{4}", "[89ab][0-9a-f]{3}"
LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
HOSTNAME = (
    r"^([a-zA-Z0-9\p{S}\p{L}]((-?[a-zA-Z0-9\p{S}\p{L}]{0,62})?)"
    r"|([a-zA-Z0-9\p{S}\p{L}](([a-zA-Z0-9-\p{S}\p{L}]{0,61}[a-zA-Z0-9\p{S}\p{L}])?)(\.)){1,}"
    r"([a-zA-Z\p{L}]){2,63})$"
)
CARD = (
    r"^(?:4[0-9]{12}(?:[0-9]{3})?|5[1-5][0-9]{14}|6(?:011|5[0-9][0-9])[0-9]{12}|3[47][0-9]{13}"
    r"|3(?:0[0-5]|[68][0-9])[0-9]{11}|(?:2131|1800|35\d{3})\d{11})$"
)
MAC = r"^(?i)([0-9a-f]{2}[:-]){5}[0-9a-f]{2}$|^(?i)([0-9a-f]{4}\.){2}[0-9a-f]{4}$"
RGB = r"^rgb\(\s*((25[0-5]|2[0-4]\d|1?\d?\d)\s*(,\s*|\))){3}$"
DURATION_LENGTH_MAX = 200
NUMBER_FORMATS = {"integer": ("int32", "int64"), "number": ("float", "double")}
GO_DURATION = re.compile(r"[-+]?((\d+\.?\d*|\.\d+)(ns|us|\u00b5s|\u03bcs|ms|s|m|h))+|[-+]?0")
SPELLED_DURATION = re.compile(r"([-+]?\d+\s*[A-Za-z\u00b5]+)+")


def format_check(name: str) -> Callable[[str], bool] | None:
    """The test of a format; None for an unknown one, which every string has.

    Names are looked up without dashes first, as kube-apiserver does: `date-time` is `datetime`.
    """
    return FORMATS.get(name.replace("-", "")) or FORMATS.get(name)


def is_known_format(name: str, kind: str) -> bool:
    """Whether a server checks a format in schemas of this type; of others it warns."""
    if kind in NUMBER_FORMATS:
        return name in NUMBER_FORMATS[kind]
    bare = name.replace("-", "")
    known = {format_.replace("-", "") for format_ in FORMATS} | {"password"}
    return kind in {"", "string"} and bare in known


def parses(parse: Callable[[str], object]) -> Callable[[str], bool]:
    """A test of whether a parser accepts a string."""

    def check(text: str) -> bool:
        try:
            parse(text)
        except (ValueError, binascii.Error):
            return False
        return True

    return check


def is_uri(text: str) -> bool:
    try:
        parts = urlsplit(text)
    except ValueError:
        return False
    return text.startswith("/") or bool(parts.scheme)


def is_hostname(text: str) -> bool:
    # DNS allows 63 characters in a label.
    return _hostname(text) and all(len(label) <= 63 for label in text.split("."))


def is_ipv4(text: str) -> bool:
    return "." in text and _ip(text)


def is_ipv6(text: str) -> bool:
    return ":" in text and _ip(text)


def is_cidr(text: str) -> bool:
    return "/" in text and parses(lambda t: ipaddress.ip_network(t, strict=False))(text)


def is_isbn10(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{9}[\dX]", digits):
        return False
    values = [10 if digit == "X" else int(digit) for digit in digits]
    return sum(value * (10 - index) for index, value in enumerate(values)) % 11 == 0


def is_isbn13(text: str) -> bool:
    digits = re.sub(r"[\s-]", "", text)
    if not re.fullmatch(r"\d{13}", digits):
        return False
    return sum(int(digit) * (1, 3)[index % 2] for index, digit in enumerate(digits)) % 10 == 0


def is_duration(text: str) -> bool:
    # The patterns take more than linear time on a long row of digits.
    bounded = len(text) <= DURATION_LENGTH_MAX
    return bounded and bool(GO_DURATION.fullmatch(text) or SPELLED_DURATION.fullmatch(text))


def is_credit_card(text: str) -> bool:
    return _card(re.sub(r"\D+", "", text))


_hostname = late_searcher(HOSTNAME)
_card = late_searcher(CARD)
_base64 = parses(lambda text: base64.b64decode(text, validate=True))
_date = parses(date.fromisoformat)
_ip = parses(ipaddress.ip_address)

FORMATS: Mapping[str, Callable[[str], bool]] = {
    "bsonobjectid": late_searcher("^[0-9a-fA-F]{24}$"),
    "byte": lambda text: bool(text) and _base64(text),  # an empty string is none
    "cidr": is_cidr,
    "creditcard": is_credit_card,
    "date": lambda text: len(text) == 10 and _date(text),  # Python also reads 20260131
    "datetime": is_date_time,
    "duration": is_duration,
    "email": late_searcher(r"^([^<>]*<)?[^@\s<>()\[\],;:\\]+@[^@\s<>()\[\],;:\\]+>?$"),
    "hexcolor": late_searcher("^#?([0-9a-fA-F]{3}|[0-9a-fA-F]{6})$"),
    "hostname": is_hostname,
    "ipv4": is_ipv4,
    "ipv6": is_ipv6,
    "isbn": lambda text: is_isbn10(text) or is_isbn13(text),
    "isbn10": is_isbn10,
    "isbn13": is_isbn13,
    "k8s-long-name": late_searcher(rf"^{LABEL}(\.{LABEL})*$"),
    "k8s-short-name": late_searcher(f"^{LABEL}$"),
    "mac": late_searcher(MAC),
    "rgbcolor": late_searcher(RGB),
    "ssn": late_searcher(r"^\d{3}[- ]?\d{2}[- ]?\d{4}$"),
    "uri": is_uri,
    "uuid": late_searcher(UUID.format(version=HEX4, variant=HEX4)),
    "uuid3": late_searcher(UUID.format(version="3[0-9a-f]{3}", variant=HEX4)),
    "uuid4": late_searcher(UUID.format(version="4[0-9a-f]{3}", variant=VARIANT)),
    "uuid5": late_searcher(UUID.format(version="5[0-9a-f]{3}", variant=VARIANT)),
}
