"""Label and field selectors, with the grammar and error messages of Kubernetes.

Pure. A selector is parsed once per request and then matched against many objects.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple

from swell.api.meta import Body
from swell.cluster.embedded.objectmeta import label_value_problems, qualified_name_problems
from swell.cluster.embedded.registry import FieldPath


class SelectorError(Exception):
    """The text is no selector, or names a field that the kind cannot be selected by."""


class Requirement(NamedTuple):
    """One condition on labels. `operator` is one of in, notin, exists, !, < and >."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(slots=True)
class _LabelTest:
    """All requirements of one key, as one test of its value.

    A label that is missing matches `!` and `notin` alone, so any other makes it wanted.
    """

    is_wanted: bool = False
    must_be_absent: bool = False
    among: frozenset[str] | None = None
    excluded: set[str] = field(default_factory=set)
    above: int | None = None
    below: int | None = None

    def add(self, requirement: Requirement) -> None:
        operator, values = requirement.operator, requirement.values
        self.is_wanted = self.is_wanted or operator not in {"!", "notin"}
        match operator:
            case "in":
                given = frozenset(values)
                self.among = given if self.among is None else self.among & given
            case "notin":
                self.excluded.update(values)
            case "!":
                self.must_be_absent = True
            case ">":
                bound = int(values[0])
                self.above = bound if self.above is None else max(bound, self.above)
            case "<":
                bound = int(values[0])
                self.below = bound if self.below is None else min(bound, self.below)

    def accepts(self, value: str) -> bool:
        if self.must_be_absent or value in self.excluded:
            return False
        if self.among is not None and value not in self.among:
            return False
        if self.above is None and self.below is None:
            return True
        number = _integer(value)
        if number is None or (self.above is not None and number <= self.above):
            return False
        return self.below is None or number < self.below


@dataclass(frozen=True, slots=True)
class LabelRequirements:
    """A parsed label selector: all requirements must match."""

    requirements: tuple[Requirement, ...] = ()
    _by_key: dict[str, _LabelTest] = field(default_factory=dict, init=False, repr=False)
    _n_wanted: int = field(default=0, init=False, repr=False)  # keys that an object must have

    def __post_init__(self) -> None:
        for requirement in self.requirements:
            self._by_key.setdefault(requirement.key, _LabelTest()).add(requirement)
        wanted = sum(test.is_wanted for test in self._by_key.values())
        object.__setattr__(self, "_n_wanted", wanted)

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether labels match. It takes as long as there are labels, not requirements.

        A selector may have thousands of requirements and is matched against every object.
        """
        if self._n_wanted > len(labels):
            return False
        n_found = 0
        for key, value in labels.items():
            test = self._by_key.get(key)
            if test is None:
                continue
            if not test.accepts(value):
                return False
            n_found += test.is_wanted
        return n_found == self._n_wanted


def parse_labels(text: str) -> LabelRequirements:
    """Parse a label selector; SelectorError when the text is none."""
    return _cached_labels(text) if len(text) <= CACHED_LENGTH_MAX else _cached_long_labels(text)


def _parsed_labels(text: str) -> LabelRequirements:
    return LabelRequirements(_LabelParser(_tokens(text)).requirements())


# Clients send the same few selectors again and again. Of long ones, which the server parses in a
# thread before it needs them, only the last are kept: each may take a megabyte.
CACHED_LENGTH_MAX = 1_000
_cached_labels = lru_cache(maxsize=256)(_parsed_labels)
_cached_long_labels = lru_cache(maxsize=16)(_parsed_labels)


def from_label_selector(spec: Body | None) -> LabelRequirements | None:
    """The selector of an object's `matchLabels` and `matchExpressions`.

    A missing selector gives None, which stands for "selects nothing"; an empty one selects all.
    """
    if spec is None:
        return None
    found = [Requirement(k, "in", (v,)) for k, v in (spec.get("matchLabels") or {}).items()]
    for term in spec.get("matchExpressions") or ():
        operator = _OBJECT_OPERATORS.get(term.get("operator", ""))
        if operator is None:
            raise SelectorError(f"{term.get('operator')!r} is not a valid label selector operator")
        found.append(_requirement(term.get("key", ""), operator, tuple(term.get("values") or ())))
    return LabelRequirements(tuple(found))


def selector_text(selector: object) -> str:
    """A label selector object as text, in a stable order; a text is returned as it is.

    Custom resources may hold a selector as text: that is how their scale subresource sends it.
    """
    if not isinstance(selector, dict):
        return selector if isinstance(selector, str) else ""
    terms = [f"{key}={value}" for key, value in sorted((selector.get("matchLabels") or {}).items())]
    for term in selector.get("matchExpressions") or ():
        key, values = term.get("key", ""), ",".join(sorted(term.get("values") or ()))
        texts = {"In": f"{key} in ({values})", "NotIn": f"{key} notin ({values})"}
        texts |= {"Exists": key, "DoesNotExist": f"!{key}"}
        terms.append(texts.get(term.get("operator", ""), key))
    return ",".join(terms)


class FieldTerm(NamedTuple):
    """One condition on a field: its text equals a value, or differs from it."""

    path: tuple[str, ...]
    absent: str
    equal: bool
    value: str
    otherwise: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldSelector:
    """A parsed field selector: all terms must hold."""

    terms: tuple[FieldTerm, ...] = ()
    # By path: a term of it, the values that the field must have, those it must not.
    _tests: dict[tuple[str, ...], tuple[FieldTerm, set[str], set[str]]] = field(
        default_factory=dict, init=False, repr=False
    )

    def __post_init__(self) -> None:
        for term in self.terms:
            _, wanted, unwanted = self._tests.setdefault(term.path, (term, set(), set()))
            (wanted if term.equal else unwanted).add(term.value)

    def matches(self, text_at: Callable[[tuple[str, ...]], str | None]) -> bool:
        """Whether an object matches. `text_at` looks up one of its fields.

        It takes as long as there are fields, not terms, of which there may be thousands.
        """
        for path, (term, wanted, unwanted) in self._tests.items():
            found = text_at(path)
            if term.otherwise and not found:
                found = text_at(term.otherwise)
            text = term.absent if found is None else found
            if text in unwanted or (wanted and wanted != {text}):
                return False
        return True


def parse_fields(text: str, known: Mapping[str, FieldPath]) -> FieldSelector:
    """Parse a field selector; SelectorError when the text is none or a field is unknown."""
    terms: list[FieldTerm] = []
    for part in _split_escaped(text):
        if not part:
            continue
        name, equal, value = _split_term(part)
        if name not in known:
            raise SelectorError(f"field label not supported: {name}")
        found = known[name]
        other = tuple(found.otherwise.split(".")) if found.otherwise else ()
        path = tuple(found.path.split("."))
        terms.append(FieldTerm(path, found.absent, equal, value, other))
    return FieldSelector(tuple(terms))


def exact_value(text: str, field_name: str) -> str:
    """The value that a field selector wants a field to have; empty when it wants none."""
    terms = (_split_term(part) for part in _split_escaped(text) if part)
    return next((value for name, equal, value in terms if name == field_name and equal), "")


# -- labels ------------------------------------------------------------------------------------

_SYMBOLS = frozenset("=!(),<>")
_BLANKS = frozenset(" \t\r\n")
_OPERATORS = {"in": "in", "notin": "notin", "=": "in", "==": "in", "!=": "notin"}
_OPERATORS |= {"<": "<", ">": ">"}
_OBJECT_OPERATORS = {"In": "in", "NotIn": "notin", "Exists": "exists", "DoesNotExist": "!"}
_END = ""
_INTEGER = re.compile(r"[-+]?[0-9]{1,20}")


def _tokens(text: str) -> list[str]:
    """Symbols and words, then an end mark. An operator of two characters is one token."""
    found: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        start = at
        at += 1
        if char in _BLANKS:
            continue
        if char in _SYMBOLS:
            if text[start : at + 1] in {"==", "!="}:
                at += 1
        else:
            while at < len(text) and text[at] not in _SYMBOLS and text[at] not in _BLANKS:
                at += 1
        found.append(text[start:at])
    return [*found, _END]


def _is_word(token: str) -> bool:
    return token != _END and token[0] not in _SYMBOLS


class _LabelParser:
    """A recursive descent over the tokens. Every method consumes what it returns."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0

    def requirements(self) -> tuple[Requirement, ...]:
        found: list[Requirement] = []
        wanted = "!, identifier, or 'end of string'"
        while self._peek() != _END or found:
            if self._peek() != "!" and not _is_word(self._peek()):
                raise SelectorError(f"found '{self._peek()}', expected: {wanted}")
            try:
                found.append(self._requirement())
            except SelectorError as error:
                raise SelectorError(f"unable to parse requirement: {error}") from None
            if self._peek() == _END:
                break
            self._expect(",", "',' or 'end of string'")
            wanted = "identifier after ','"
        return tuple(found)

    def _requirement(self) -> Requirement:
        negated = self._peek() == "!"
        if negated:
            self._next()
        key = self._word()
        if negated:
            return _requirement(key, "!", ())
        if self._peek() in {_END, ","}:
            return _requirement(key, "exists", ())
        token = self._next()
        operator = _OPERATORS.get(token)
        if operator is None:
            raise SelectorError(f"found '{token}', expected: in, notin, =, ==, !=, gt, lt")
        values = self._values() if token in {"in", "notin"} else (self._value(),)
        return _requirement(key, operator, values)

    def _values(self) -> tuple[str, ...]:
        """A list in brackets; an empty place in it is the empty value."""
        if self._peek() != "(":
            raise SelectorError(f"found '{self._peek()}' expected: '('")
        self._next()
        values = [self._word() if _is_word(self._peek()) else ""]
        while self._peek() == ",":
            self._next()
            values.append(self._word() if _is_word(self._peek()) else "")
        self._expect(")", "',' or ')'")
        return tuple(values)

    def _value(self) -> str:
        return "" if self._peek() in {_END, ","} else self._word()

    def _word(self) -> str:
        token = self._next()
        if not _is_word(token):
            raise SelectorError(f"found '{token}', expected: identifier")
        return token

    def _expect(self, symbol: str, wanted: str) -> None:
        token = self._next()
        if token != symbol:
            raise SelectorError(f"found '{token}', expected: {wanted}")

    def _peek(self) -> str:
        return self._tokens[self._at]

    def _next(self) -> str:
        token = self._tokens[self._at]
        self._at = min(self._at + 1, len(self._tokens) - 1)  # the end mark is never passed
        return token


def _requirement(key: str, operator: str, values: tuple[str, ...]) -> Requirement:
    problems = [f'<nil>: Invalid value: "{key}": {one}' for one in qualified_name_problems(key)]
    problems += [
        f'values[{index}][{key}]: Invalid value: "{value}": {problem}'
        for index, value in enumerate(values)
        for problem in label_value_problems(value)
    ]
    if operator in {"in", "notin"} and not values:
        detail = "for 'in', 'notin' operators, values set can't be empty"
        problems.append(f"values: Invalid value: []: {detail}")
    if operator in {"<", ">"} and _integer(values[0]) is None:
        detail = "for 'Gt', 'Lt' operators, the value must be an integer"
        problems.append(f'values[0]: Invalid value: "{values[0]}": {detail}')
    if problems:
        raise SelectorError(problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")
    return Requirement(key, operator, values)


def _integer(text: str) -> int | None:
    """A 64-bit integer, as Kubernetes compares labels with < and >; None for other texts."""
    number = int(text) if _INTEGER.fullmatch(text) else None
    return number if number is not None and -(2**63) <= number < 2**63 else None


# -- fields ------------------------------------------------------------------------------------


def _split_escaped(text: str) -> list[str]:
    """The terms between commas; a comma after a backslash belongs to its term."""
    parts: list[str] = []
    start = 0
    escaped = False
    for at, char in enumerate(text):
        if char == "," and not escaped:
            parts.append(text[start:at])
            start = at + 1
            continue
        escaped = char == "\\" and not escaped
    return [*parts, text[start:]]


def _split_term(term: str) -> tuple[str, bool, str]:
    at = term.find("=")
    if at < 0:
        raise SelectorError(f"can't understand '{term}'")
    if at > 0 and term[at - 1] == "!":
        return term[: at - 1], False, _unescape(term[at + 1 :])
    value = term[at + 1 :].removeprefix("=")
    return term[:at], True, _unescape(value)


def _unescape(value: str) -> str:
    if not any(char in value for char in "\\,="):
        return value
    plain: list[str] = []
    escaped = False
    for char in value:
        if escaped and char not in "\\,=":
            raise SelectorError(f"invalid escape sequence in '{value}'")
        if not escaped and char in ",=":
            raise SelectorError(f"invalid character '{char}' in '{value}'")
        if char == "\\" and not escaped:
            escaped = True
            continue
        plain.append(char)
        escaped = False
    if escaped:
        raise SelectorError(f"invalid escape sequence in '{value}'")
    return "".join(plain)
