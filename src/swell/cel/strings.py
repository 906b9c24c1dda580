"""Functions on strings, regular expressions, and `format`."""

from __future__ import annotations

import re
from collections.abc import Callable

from swell.cel import conversions
from swell.cel.charging import weight
from swell.cel.functions import (
    REGEX,
    TRAVERSAL,
    Estimate,
    define,
    method,
    spent,
    traversal,
)
from swell.cel.types import (
    DYN,
    INT,
    STRING,
    CelType,
    EvaluationError,
    kind_of,
    list_of,
)
from swell.schema.patterns import PatternError, compile_pattern, text_length_max

STRINGS = list_of(STRING)
EMPTY = STRING.sized(0)
# Results that one call could make arbitrarily large end the evaluation here.
RESULT_LENGTH_MAX = 10_000_000
MATCHES_MAX = 50_000
PRECISION_DIGITS_MAX = 3  # decimal places up to 999, more than any double has
TWICE = traversal(2 * TRAVERSAL)


def _char_at(text: str, at: int) -> str:
    # The end of the text is a valid position; it has the empty character.
    if not 0 <= at <= len(text):
        raise EvaluationError(f"index out of range: {at}")
    return text[at : at + 1]


def _checked_find(find: Callable[[str, str, int], int]) -> Callable[[str, str, int], int]:
    def index_of(text: str, part: str, start: int) -> int:
        if not 0 <= start <= len(text):
            raise EvaluationError(f"index out of range: {start}")
        return find(text, part, start)

    return index_of


def _substring(text: str, start: int, end: int | None = None) -> str:
    end = len(text) if end is None else end
    if not 0 <= start <= end <= len(text):
        raise EvaluationError(f"index out of range: {start}")
    return text[start:end]


def _ascii_only(convert: Callable[[str], str]) -> Callable[[str], str]:
    """A conversion of case that leaves characters outside ASCII alone."""
    return lambda text: "".join(convert(char) if char.isascii() else char for char in text)


def _split(text: str, separator: str, limit: int = -1) -> list[str]:
    """Split as Go does: at most `limit` parts, and an empty separator splits into characters."""
    if limit == 0:
        return []
    if separator == "":
        return list(text) if limit < 0 else [*text[: limit - 1], text[limit - 1 :]]
    return text.split(separator, limit - 1 if limit > 0 else -1)


def _replace(text: str, old: str, new: str, limit: int = -1) -> str:
    n_found = text.count(old) if limit < 0 else min(text.count(old), limit)
    if len(text) + n_found * len(new) > RESULT_LENGTH_MAX:
        raise EvaluationError("cost limit exceeded: the text grows too long")
    return text.replace(old, new, limit)


def _replace_cost(text: float, old: float, new: float, *_: float) -> Estimate:
    # The smallest size of `old` would bound how often it occurs; it may be empty, so each
    # character may be replaced.
    del old
    return Estimate(spent(text, 2 * TRAVERSAL), text + (text + 1) * new)


def _join(items: list[str], by: str = "") -> str:
    # A list may hold one long text many times.
    if sum(map(len, items)) + len(by) * len(items) > RESULT_LENGTH_MAX:
        raise EvaluationError("cost limit exceeded: the text grows too long")
    return by.join(items)


def _join_cost(items: CelType, separator: CelType = EMPTY) -> Estimate:
    size = items.size * (items.params[0].size + separator.size) if items.params else items.size
    return Estimate(spent(size, TRAVERSAL), size)


def _index_cost(text: float, *_: float) -> Estimate:
    return Estimate(spent(text, TRAVERSAL))


def _quote(text: str) -> str:
    escapes = {"\a": "\\a", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t",
               "\v": "\\v", "\\": "\\\\", '"': '\\"'}  # fmt: skip
    return '"' + "".join(escapes.get(char, char) for char in text) + '"'


method("charAt", (STRING, INT), STRING, _char_at)
method("indexOf", (STRING, STRING), INT, str.find, cost=_index_cost)
method("indexOf", (STRING, STRING, INT), INT, _checked_find(str.find), cost=_index_cost)
method("lastIndexOf", (STRING, STRING), INT, str.rfind, cost=_index_cost)
# The third argument is the last position at which the part may begin.
method(
    "lastIndexOf",
    (STRING, STRING, INT),
    INT,
    _checked_find(lambda text, part, last: text.rfind(part, 0, last + len(part))),
    cost=_index_cost,
)
method("lowerAscii", (STRING,), STRING, _ascii_only(str.lower), cost=traversal())
method("upperAscii", (STRING,), STRING, _ascii_only(str.upper), cost=traversal())
method("replace", (STRING, STRING, STRING), STRING, _replace, cost=_replace_cost)
method("replace", (STRING, STRING, STRING, INT), STRING, _replace, cost=_replace_cost)
method("split", (STRING, STRING), STRINGS, _split, cost=TWICE)
method("split", (STRING, STRING, INT), STRINGS, _split, cost=TWICE)
method("substring", (STRING, INT), STRING, _substring, cost=traversal())
method("substring", (STRING, INT, INT), STRING, _substring, cost=traversal())
method("trim", (STRING,), STRING, str.strip, cost=traversal())
method("join", (STRINGS,), STRING, _join, cost=_join_cost, by_type=True)
method("join", (STRINGS, STRING), STRING, _join, cost=_join_cost, by_type=True)
define("strings.quote", (STRING,), STRING, _quote, cost=traversal())


# --- regular expressions -----------------------------------------------------------------------


def _found_cost(text: float, pattern: float, *_: float) -> Estimate:
    return Estimate(spent(text + 1, TRAVERSAL) * spent(pattern, REGEX), text)


def _find(text: str, pattern: str) -> str:
    found = _find_all(text, pattern, 1)
    return found[0] if found else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    try:
        compiled = compile_pattern(pattern)
        if len(text) > text_length_max(compiled):
            raise EvaluationError("cost limit exceeded: the pattern is too large for the text")
        matches = compiled.finditer(text)
    except PatternError as error:
        raise EvaluationError(str(error)) from error
    found: list[str] = []
    for match in matches:
        if len(found) == limit:
            break
        if len(found) == MATCHES_MAX:
            raise EvaluationError("cost limit exceeded: too many matches")
        found.append(match.group())
    return found


method("find", (STRING, STRING), STRING, _find, cost=_found_cost)
method("findAll", (STRING, STRING), STRINGS, _find_all, cost=_found_cost)
method("findAll", (STRING, STRING, INT), STRINGS, _find_all, cost=_found_cost)


# --- format ------------------------------------------------------------------------------------

_VERB = re.compile(r"%(?:%|\.?(\d*)([sdfexXob])|(.?))")
SUPERSCRIPTS = str.maketrans(
    "0123456789-",
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b",
)
_BASES = {"x": "x", "X": "X", "o": "o", "b": "b"}


def _format(template: str, args: list[object]) -> str:
    left = iter(args)
    if weight(args, RESULT_LENGTH_MAX * TRAVERSAL) > RESULT_LENGTH_MAX * TRAVERSAL:
        raise EvaluationError("cost limit exceeded: the text grows too long")

    def fill(match: re.Match[str]) -> str:
        if match.group() == "%%":
            return "%"
        precision, verb, wrong = match.groups()
        if wrong is not None:
            raise EvaluationError(f"unrecognized formatting clause {match.group()!r}")
        try:
            value = next(left)
        except StopIteration:
            raise EvaluationError("index out of range: too few arguments") from None
        return _shown(value, verb, precision)

    return _VERB.sub(fill, template)


def _shown(value: object, verb: str, precision: str) -> str:
    if verb == "s":
        return show(value)
    if verb in _BASES and isinstance(value, (str, bytes)) and verb in "xX":
        raw = value.encode() if isinstance(value, str) else value
        return raw.hex() if verb == "x" else raw.hex().upper()
    if verb == "b" and isinstance(value, bool):
        return str(int(value))
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        raise EvaluationError(f"%{verb} is no format of {kind_of(value)}")
    if len(precision) > PRECISION_DIGITS_MAX:
        raise EvaluationError(f"precision {precision[:8]}... is too large")
    if verb == "f":
        return f"{float(value):,.{precision or 6}f}"
    if verb == "e":
        mantissa, _, exponent = f"{float(value):.6e}".partition("e")
        return f"{mantissa}\u00d710{exponent.lstrip('+').translate(SUPERSCRIPTS)}"
    if verb == "d" and isinstance(value, float):
        return conversions.show_double(value)
    return format(int(value), "d" if verb == "d" else _BASES[verb])


def show(value: object) -> str:
    """A value as `%s` writes it."""
    match kind_of(value):
        case "bool":
            return "true" if value else "false"
        case "null":
            return "null"
        case "double":
            return conversions.show_double(value)  # type: ignore[arg-type]
        case "timestamp":
            return conversions.show_timestamp(value)  # type: ignore[arg-type]
        case "duration":
            return conversions.show_duration(value)  # type: ignore[arg-type]
        case "list":
            return "[" + ", ".join(show_inside(item) for item in value) + "]"  # type: ignore[attr-defined]
        case "map":
            pairs = sorted((show_inside(k), show_inside(v)) for k, v in value.items())  # type: ignore[attr-defined]
            return "{" + ", ".join(f"{key}:{item}" for key, item in pairs) + "}"
        case "bytes":
            return value.decode("utf-8", "replace")  # type: ignore[attr-defined, no-any-return]
    return str(value)


def show_inside(value: object) -> str:
    """A value inside a list or a map: strings are quoted, doubles keep six decimal places."""
    if isinstance(value, str):
        return _quote(value)
    return f"{value:f}" if isinstance(value, float) else show(value)


method("format", (STRING, list_of(DYN)), STRING, _format, cost=_index_cost)
