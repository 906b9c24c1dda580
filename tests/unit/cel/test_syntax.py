"""Expressions are read as the language's grammar has them, or refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swell.cel.program import compile_expression
from swell.cel.resolution import escape, unescape
from swell.cel.syntax import ExpressionError, LiteralExpr, UInt, parse
from swell.cel.types import STRING, EvaluationError, object_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("5", 5),
        ("-5", -5),
        ("0x1F", 31),
        ("5u", UInt(5)),
        (".5", 0.5),
        ("1e3", 1000.0),
        ("'a'", "a"),
        ('"a\\n"', "a\n"),
        ("r'\\d'", "\\d"),
        ("'''a'b'''", "a'b"),
        ("b'\\xff'", b"\xff"),
        ("'\\u00e9'", "é"),
        ("null", None),
        ("true // yes", True),
    ],
)
def test_literal(text: str, value: object) -> None:
    """Numbers, texts, bytes and constants in all their spellings."""
    assert parse(text) == LiteralExpr(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3 == 7", True),
        ("(1 + 2) * 3 == 9", True),
        ("7 - 2 - 1 == 4", True),
        ("true || false && false", True),
        ("false ? 1 : true ? 2 : 3", 2),
        ("!false == true", True),
        ("1 < 2 && 'a' in ['a']", True),
    ],
)
def test_precedence(text: str, value: object) -> None:
    """Operators bind as usual, and from the left."""
    assert compile_expression(text, {}).evaluate() == value


@pytest.mark.parametrize(
    "text",
    [
        "",
        "(",
        "1 +",
        "'a",
        "a b",
        "1 2",
        "if",
        "[1",
        "{1}",
        "a.",
        "a?.b",
        "'\\q'",
        "99999999999999999999",
        "#",
    ],
)
def test_what_is_no_expression_is_refused(text: str) -> None:
    """A text that is no expression is refused, never repaired."""
    with pytest.raises(ExpressionError):
        parse(text)


@pytest.mark.parametrize(
    "text", ["(" * 500 + "1" + ")" * 500, "!" * 500 + "true", "a" + ".b" * 500]
)
def test_deep_expression_is_refused(text: str) -> None:
    """No expression exhausts the stack."""
    with pytest.raises(ExpressionError, match="deeply"):
        parse(text)


def test_long_chain_of_conditions_is_fine() -> None:
    """Chains of && and || are no deeper than they must be."""
    assert compile_expression(" && ".join(["true"] * 2000), {}).evaluate() is True


@given(st.text(alphabet="ab.-/_", min_size=1, max_size=12))
def test_escaped_name_is_unescaped(name: str) -> None:
    """Every property an expression can name is found again by its identifier."""
    identifier = escape(name)

    assert identifier is not None
    assert unescape(identifier) == name


@given(st.text(alphabet="self.abc()[]{}+-*/%!=<>&|?:,'\"0123456789 \\\n", max_size=30))
def test_any_text_is_compiled_or_refused(text: str) -> None:
    """No text ends in anything but an expression or a refusal."""
    try:
        compile_expression(text, {"self": STRING}).evaluate("abc")
    except (ExpressionError, EvaluationError):
        return


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("self.a == 'x' && has(self.b.c)", {"a", "b"}),
        ("self.b.c == self.a", {"a", "b"}),
        ("self == self", None),
        ("self.a == 'x' || self == self", None),
        ("['x'].all(self, self == 'x')", set()),
        ("true", set()),
    ],
)
def test_fields_that_an_expression_reads_are_known(text: str, fields: set[str] | None) -> None:
    """A variable that is used as a whole has no list of them; one of the same name is another."""
    type_ = object_of({"a": STRING, "b": object_of({"c": STRING})})

    assert compile_expression(text, {"self": type_}).fields["self"] == fields
