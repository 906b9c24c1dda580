"""Functions that Kubernetes adds: quantities, URLs, IP addresses, CIDRs, versions, formats."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import total_ordering
from typing import ClassVar
from urllib.parse import SplitResult, parse_qs, urlsplit

from swell.api import quantity
from swell.cel.functions import (
    TRAVERSAL,
    Estimate,
    define,
    method,
    spent,
    traversal,
)
from swell.cel.types import (
    BOOL,
    DOUBLE,
    INT,
    NOTHING,
    STRING,
    CelType,
    EvaluationError,
    Optional,
    list_of,
    map_of,
    optional_of,
)
from swell.schema.formats import format_check
from swell.schema.patterns import searcher

QUANTITY = CelType("quantity")
URL = CelType("url")
IP = CelType("ip")
CIDR = CelType("cidr")
SEMVER = CelType("semver")
FORMAT = CelType("format")
WALK = traversal()


def _succeeds(convert: Callable[[str], object]) -> Callable[[str], bool]:
    """The `isX` function of a conversion `x`."""

    def check(text: str) -> bool:
        try:
            convert(text)
        except EvaluationError:
            return False
        return True

    return check


# --- quantities --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class QuantityValue:
    """A resource quantity, such as `quantity("40Gi")`."""

    cel_kind: ClassVar[str] = "quantity"
    value: quantity.Quantity


def parse_quantity(text: str) -> QuantityValue:
    """The quantity a text says; EvaluationError when it says none."""
    try:
        return QuantityValue(quantity.parse(text))
    except quantity.QuantityError as error:
        raise EvaluationError(str(error)) from error


def _as_integer(amount: QuantityValue) -> int:
    if amount.value.nano % quantity.NANO:
        raise EvaluationError("cannot convert value to integer")
    return amount.value.nano // quantity.NANO


def _compare(left: QuantityValue, right: QuantityValue) -> int:
    return (left.value.nano > right.value.nano) - (left.value.nano < right.value.nano)


def _plus(left: QuantityValue, right: QuantityValue | int, sign: int = 1) -> QuantityValue:
    other = right.value.nano if isinstance(right, QuantityValue) else right * quantity.NANO
    return QuantityValue(quantity.Quantity(left.value.nano + sign * other, left.value.format))


define("quantity", (STRING,), QUANTITY, parse_quantity, cost=WALK)
define("isQuantity", (STRING,), BOOL, _succeeds(parse_quantity), cost=WALK)
method("isInteger", (QUANTITY,), BOOL, lambda one: one.value.nano % quantity.NANO == 0)
method("asInteger", (QUANTITY,), INT, _as_integer)
method("asApproximateFloat", (QUANTITY,), DOUBLE, lambda one: one.value.nano / quantity.NANO)
method("compareTo", (QUANTITY, QUANTITY), INT, _compare)
method("isGreaterThan", (QUANTITY, QUANTITY), BOOL, lambda one, two: _compare(one, two) > 0)
method("isLessThan", (QUANTITY, QUANTITY), BOOL, lambda one, two: _compare(one, two) < 0)
for _type in (QUANTITY, INT):
    method("add", (QUANTITY, _type), QUANTITY, _plus)
    method("sub", (QUANTITY, _type), QUANTITY, lambda left, right: _plus(left, right, -1))


# --- URLs --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Url:
    """A URL in its parts."""

    cel_kind: ClassVar[str] = "url"
    parts: SplitResult


def _url(text: str) -> Url:
    try:
        parts = urlsplit(text)
        _ = parts.port  # raises ValueError for a port that is no number
    except ValueError as error:
        raise EvaluationError(f"URL parse error: {text!r}") from error
    # As Go's url.ParseRequestURI: an absolute URL, or an absolute path.
    if not parts.scheme and not text.startswith("/"):
        raise EvaluationError(f"URL parse error: {text!r}")
    return Url(parts)


def _host(url: Url) -> str:
    """Host and port, without user and password."""
    return url.parts.netloc.rpartition("@")[2]


def _hostname(url: Url) -> str:
    host = _host(url)
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _port(url: Url) -> str:
    return "" if url.parts.port is None else str(url.parts.port)


define("url", (STRING,), URL, _url, cost=WALK)
define("isURL", (STRING,), BOOL, _succeeds(_url), cost=WALK)
method("getScheme", (URL,), STRING, lambda url: url.parts.scheme)
method("getHost", (URL,), STRING, _host)
method("getHostname", (URL,), STRING, _hostname)
method("getPort", (URL,), STRING, _port)
method("getEscapedPath", (URL,), STRING, lambda url: url.parts.path)
method(
    "getQuery",
    (URL,),
    map_of(STRING, list_of(STRING)),
    lambda url: parse_qs(url.parts.query, keep_blank_values=True),
)


# --- addresses and networks --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class IPAddress:
    """An IPv4 or IPv6 address."""

    cel_kind: ClassVar[str] = "ip"
    value: ipaddress.IPv4Address | ipaddress.IPv6Address

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Cidr:
    """A network with the address it was written with: `192.168.1.7/24` keeps its host bits."""

    cel_kind: ClassVar[str] = "cidr"
    value: ipaddress.IPv4Interface | ipaddress.IPv6Interface

    def __str__(self) -> str:
        return str(self.value)


def _address(text: str) -> IPAddress:
    # Kubernetes accepts neither zones nor IPv4 addresses written as IPv6 ones.
    if "%" in text or text.lower().startswith("::ffff:"):
        raise EvaluationError(f"IP Address {text!r} parse error")
    try:
        return IPAddress(ipaddress.ip_address(text))
    except ValueError as error:
        raise EvaluationError(f"IP Address {text!r} parse error") from error


def _network(text: str) -> Cidr:
    if "/" not in text or not text.rpartition("/")[2].isdigit():
        raise EvaluationError(f"network address parse error: {text!r}")
    try:
        return Cidr(ipaddress.ip_interface(text))
    except ValueError as error:
        raise EvaluationError(f"network address parse error: {text!r}") from error


def _contains_ip(network: Cidr, address: IPAddress | str) -> bool:
    value = (_address(address) if isinstance(address, str) else address).value
    return value.version == network.value.version and value in network.value.network


def _contains_network(network: Cidr, other: Cidr | str) -> bool:
    inner = (_network(other) if isinstance(other, str) else other).value.network
    outer = network.value.network
    if isinstance(inner, ipaddress.IPv4Network) and isinstance(outer, ipaddress.IPv4Network):
        return inner.subnet_of(outer)
    if isinstance(inner, ipaddress.IPv6Network) and isinstance(outer, ipaddress.IPv6Network):
        return inner.subnet_of(outer)
    return False


def _is_global(address: IPAddress) -> bool:
    value = address.value
    special = value.is_loopback or value.is_multicast or value.is_link_local
    return not special and not value.is_unspecified


def _network_cost(_network: float, other: float) -> Estimate:
    return Estimate(7.0 + spent(other, TRAVERSAL))


define("ip", (STRING,), IP, _address, cost=WALK)
define("isIP", (STRING,), BOOL, _succeeds(_address), cost=WALK)
define("ip.isCanonical", (STRING,), BOOL, lambda text: str(_address(text)) == text, cost=WALK)
method("family", (IP,), INT, lambda address: address.value.version)
method("isUnspecified", (IP,), BOOL, lambda address: address.value.is_unspecified)
method("isLoopback", (IP,), BOOL, lambda address: address.value.is_loopback)
method(
    "isLinkLocalMulticast",
    (IP,),
    BOOL,
    lambda one: str(one).startswith("224.0.0.") or str(one).startswith("ff02:"),
)
method("isLinkLocalUnicast", (IP,), BOOL, lambda address: address.value.is_link_local)
method("isGlobalUnicast", (IP,), BOOL, _is_global)
define("cidr", (STRING,), CIDR, _network, cost=WALK)
define("isCIDR", (STRING,), BOOL, _succeeds(_network), cost=WALK)
method("ip", (CIDR,), IP, lambda network: IPAddress(network.value.ip))
method("prefixLength", (CIDR,), INT, lambda network: network.value.network.prefixlen)
method(
    "masked",
    (CIDR,),
    CIDR,
    lambda network: Cidr(ipaddress.ip_interface(str(network.value.network))),
)
for _type in (IP, STRING):
    method("containsIP", (CIDR, _type), BOOL, _contains_ip, cost=_network_cost)
for _type in (CIDR, STRING):
    method("containsCIDR", (CIDR, _type), BOOL, _contains_network, cost=_network_cost)
define("string", (IP,), STRING, str)
define("string", (CIDR,), STRING, str)


# --- versions ----------------------------------------------------------------------------------

SEMVER_LENGTH_MAX = 256
_SEMVER = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    r"(?:-((?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?"
)


@total_ordering
@dataclass(frozen=True, slots=True)
class Semver:
    """A semantic version. Its build metadata is dropped: it does not take part in comparisons.

    A part of a pre-release is (is text, number, text), so that numbers come before texts.
    """

    cel_kind: ClassVar[str] = "semver"
    release: tuple[int, int, int]
    pre: tuple[tuple[int, int, str], ...]

    def __lt__(self, other: Semver) -> bool:
        # A release is above its pre-releases.
        mine, theirs = (not self.pre, self.pre), (not other.pre, other.pre)
        return (self.release, mine) < (other.release, theirs)


def parse_semver(text: str, normalize: bool = False) -> Semver:
    """The version a text says; EvaluationError when it says none.

    With `normalize` a leading `v`, missing parts and leading zeros are accepted too.
    """
    if len(text) > SEMVER_LENGTH_MAX:
        raise EvaluationError("semver parse error: too long")
    if normalize:
        text = re.sub(r"^v", "", text)
        head, mark, tail = re.match(r"([^-+]*)([-+]?)(.*)", text).groups()  # type: ignore[union-attr]
        numbers = (re.sub(r"\b0+(?=\d)", "", head) or "0").split(".")
        text = ".".join([*numbers, *["0"] * (3 - len(numbers))]) + mark + tail
    match = _SEMVER.fullmatch(text)
    if match is None:
        raise EvaluationError(f"semver parse error: {text!r}")
    major, minor, patch, pre, _ = match.groups()
    parts = pre.split(".") if pre else []
    order = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
    return Semver((int(major), int(minor), int(patch)), order)


define("semver", (STRING,), SEMVER, parse_semver, cost=WALK)
define("semver", (STRING, BOOL), SEMVER, parse_semver, cost=WALK)
define("isSemver", (STRING,), BOOL, _succeeds(parse_semver), cost=WALK)
define(
    "isSemver",
    (STRING, BOOL),
    BOOL,
    lambda text, normalize: _succeeds(lambda one: parse_semver(one, normalize))(text),
    cost=WALK,
)
for _at, _name in enumerate(("major", "minor", "patch")):
    method(_name, (SEMVER,), INT, lambda version, at=_at: version.release[at])
method("compareTo", (SEMVER, SEMVER), INT, lambda one, two: (one > two) - (one < two))
method("isGreaterThan", (SEMVER, SEMVER), BOOL, lambda one, two: one > two)
method("isLessThan", (SEMVER, SEMVER), BOOL, lambda one, two: one < two)


# --- named formats -----------------------------------------------------------------------------

_LABEL = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?"
_NAME_PART = r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]"


@dataclass(frozen=True, slots=True)
class NamedFormat:
    """A format by name, such as `format.dns1123Label()`, to validate strings with."""

    cel_kind: ClassVar[str] = "format"
    name: str
    length_max: int
    fits: Callable[[str], bool]


def _named_format(name: str, pattern: str, length_max: int) -> NamedFormat:
    return NamedFormat(name, length_max, searcher(f"^({pattern})$"))


def _checked_format(name: str, checked: str) -> NamedFormat:
    return NamedFormat(name, 2**31, format_check(checked) or (lambda _text: True))


FORMATS = {
    one.name: one
    for one in (
        _named_format("dns1123Label", _LABEL, 63),
        _named_format("dns1123Subdomain", rf"{_LABEL}(\.{_LABEL})*", 253),
        _named_format("dns1035Label", r"[a-z]([-a-z0-9]*[a-z0-9])?", 63),
        _named_format("dns1123LabelPrefix", r"[a-z0-9][-a-z0-9]*", 63),
        _named_format("dns1123SubdomainPrefix", r"[a-z0-9][-a-z0-9.]*", 253),
        _named_format("dns1035LabelPrefix", r"[a-z][-a-z0-9]*", 63),
        _named_format("qualifiedName", rf"({_LABEL}(\.{_LABEL})*/)?{_NAME_PART}", 317),
        _named_format("labelValue", f"({_NAME_PART})?", 63),
        _checked_format("uri", "uri"),
        _checked_format("uuid", "uuid"),
        _checked_format("byte", "byte"),
        _checked_format("date", "date"),
        _checked_format("datetime", "date-time"),
    )
}


def _validate(named: NamedFormat, text: str) -> Optional:
    if len(text) > named.length_max:
        return Optional([f"must be no more than {named.length_max} characters"], True)
    # No value means that the string is valid; else the value lists the problems.
    return NOTHING if named.fits(text) else Optional([f"is no {named.name}"], True)


def _format_cost(_format: float, text: float) -> Estimate:
    return Estimate(spent(spent(text, TRAVERSAL), 32.0))


for _one in FORMATS.values():
    define(f"format.{_one.name}", (), FORMAT, lambda one=_one: one)
define(
    "format.named",
    (STRING,),
    optional_of(FORMAT),
    lambda name: Optional(FORMATS[name], True) if name in FORMATS else NOTHING,
)
method("validate", (FORMAT, STRING), optional_of(list_of(STRING)), _validate, cost=_format_cost)
