"""The grammar of CEL: reads the text of an expression into a tree.

Types and functions are unknown here. An operator becomes a `CallExpr` with its symbol as name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

# Parser and compiler recurse. Both limits lie far below the depth at which Python's stack ends:
# the first bounds nested parentheses while parsing, the second the whole tree, in which chains of
# member accesses and operators also count.
DEPTH_MAX = 60
TREE_DEPTH_MAX = 150
EXPRESSION_LENGTH_MAX = 100_000
TOKENS_MAX = 20_000  # some tenths of a second to compile; real rules have hundreds
NUMBER_LENGTH_MAX = 100  # 64 bits have 20 digits; leading zeros are allowed


class ExpressionError(Exception):
    """The expression is wrong: it cannot be parsed, or its types do not fit together."""


class UInt(int):
    """An unsigned 64-bit integer, which CEL treats as a type of its own (`1u`)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class LiteralExpr:
    """A constant."""

    value: object


@dataclass(frozen=True, slots=True)
class IdentExpr:
    """A variable, or the name of a type."""

    name: str


@dataclass(frozen=True, slots=True)
class SelectExpr:
    """A field of an object or a map."""

    operand: Expr
    field: str
    optional: bool = False  # operand.?field


@dataclass(frozen=True, slots=True)
class IndexExpr:
    """An item of a list, or the value of a key in a map."""

    operand: Expr
    key: Expr
    optional: bool = False  # operand[?key]


@dataclass(frozen=True, slots=True)
class CallExpr:
    """A call of a function, of a method when it has a target, or of an operator."""

    name: str
    target: Expr | None
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class ListExpr:
    """A list that is written out. The flag says whether an item is optional: [?x]."""

    items: tuple[tuple[Expr, bool], ...]


@dataclass(frozen=True, slots=True)
class MapExpr:
    """A map that is written out: keys, values, and whether an entry is optional: {?k: v}."""

    entries: tuple[tuple[Expr, Expr, bool], ...]


Expr: TypeAlias = LiteralExpr | IdentExpr | SelectExpr | IndexExpr | CallExpr | ListExpr | MapExpr


class Token(NamedTuple):
    """A piece of the text; numbers and strings carry their value."""

    kind: str  # number | text | name | symbol | end
    text: str
    value: object = None


RESERVED = frozenset({
    "as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop",
    "package", "namespace", "return", "var", "void", "while",
})  # fmt: skip
CONSTANTS = {"true": True, "false": False, "null": None}
# Order matters: a number with a fraction or an exponent before a whole one, and strings with their
# prefix (r for raw, b for bytes) before names.
TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<number>0[xX][0-9a-fA-F]+[uU]?|(\d+\.\d+|\.\d+|\d+(?=[eE]))([eE][+-]?\d+)?|\d+[uU]?)
    |(?P<text>(?:[rR][bB]?|[bB][rR]?)?(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|'''(?:\\.|[^\\])*?'''
       |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<symbol>==|!=|<=|>=|&&|\|\||[-+*/%!<>()\[\]{}.,:?])""",
    re.VERBOSE | re.DOTALL,
)
ESCAPE = re.compile(
    r"\\(?:([abfnrtv\\?\"'`])|[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})"
    r"|([0-3][0-7]{2})|(.))",
    re.DOTALL,
)
SIMPLE_ESCAPES = {
    "a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v",
}  # fmt: skip

# The precedence of binary operators; a higher one binds more strongly.
BINARY: dict[str, int] = {
    "||": 1, "&&": 2,
    "<": 3, "<=": 3, ">": 3, ">=": 3, "==": 3, "!=": 3, "in": 3,
    "+": 4, "-": 4, "*": 5, "/": 5, "%": 5,
}  # fmt: skip


def parse(text: str) -> Expr:
    """Return the tree of an expression; raises ExpressionError for a text that is none."""
    if len(text) > EXPRESSION_LENGTH_MAX:
        raise ExpressionError("the expression is too long")
    parser = _Parser(_tokens(text))
    node = parser.expression()
    parser.expect("end", "")
    if _depth(node) > TREE_DEPTH_MAX:
        raise ExpressionError("the expression is nested too deeply")
    return node


def _depth(root: Expr) -> int:
    """The number of nodes on the longest path down, found without recursion."""
    deepest, waiting = 0, [(root, 1)]
    while waiting:
        node, depth = waiting.pop()
        deepest = max(deepest, depth)
        waiting += [(child, depth + 1) for child in _children(node)]
    return deepest


def _children(node: Expr) -> list[Expr]:
    match node:
        case SelectExpr(operand):
            return [operand]
        case IndexExpr(operand, key):
            return [operand, key]
        case CallExpr(_, target, args):
            return [*args] if target is None else [target, *args]
        case ListExpr(items):
            return [item for item, _ in items]
        case MapExpr(entries):
            return [part for key, value, _ in entries for part in (key, value)]
    return []


def _balanced(operator: str, operands: list[Expr]) -> Expr:
    """A chain of `&&` or `||` as a balanced tree.

    As a tree leaning to the left, a long chain would be refused as nested too deeply.
    """
    if len(operands) == 1:
        return operands[0]
    middle = len(operands) // 2
    left, right = operands[:middle], operands[middle:]
    return CallExpr(operator, None, (_balanced(operator, left), _balanced(operator, right)))


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    at = 0
    while at < len(text):
        match = TOKEN.match(text, at)
        if match is None:
            raise ExpressionError(f"syntax error at {text[at : at + 20]!r}")
        at = match.end()
        kind = match.lastgroup or ""
        for name in ("space", "number", "text", "name", "symbol"):
            if match.group(name) is not None:
                kind = name
        if kind != "space":
            tokens.append(_token(kind, match.group()))
            if len(tokens) > TOKENS_MAX:
                raise ExpressionError(f"the expression has more than {TOKENS_MAX:,} tokens")
    tokens.append(Token("end", ""))
    return tokens


def _token(kind: str, text: str) -> Token:
    if kind == "number":
        return Token(kind, text, _number(text))
    if kind == "text":
        return Token(kind, text, _text(text))
    return Token(kind, text)


def _number(text: str) -> object:
    unsigned = text[-1] in "uU"
    digits = text.rstrip("uU")
    if re.fullmatch(r"0[xX][0-9a-fA-F]+|\d+", digits):
        if len(digits) > NUMBER_LENGTH_MAX:
            raise ExpressionError(f"{text[:20]}... is no 64-bit number")
        whole = int(digits, 16 if digits[:2] in {"0x", "0X"} else 10)
        # 2**63 passes here, because it may get a sign: -2**63 is the lowest int.
        if whole >= 2**64 or (whole > 2**63 and not unsigned):
            raise ExpressionError(f"{text} is no 64-bit number")
        return UInt(whole) if unsigned else whole
    return float(digits)


def _text(text: str) -> object:
    prefix = text[: re.search("[\"']", text).start()].lower()  # type: ignore[union-attr]
    body = text[len(prefix) :]
    quote = 3 if body[:3] in {'"""', "'''"} else 1
    body = body[quote:-quote]
    if "b" in prefix:
        raw = body if "r" in prefix else ESCAPE.sub(_byte_escape, body)
        return raw.encode("utf-8", "surrogateescape") if "r" in prefix else _to_bytes(raw)
    return body if "r" in prefix else ESCAPE.sub(_text_escape, body)


def _text_escape(match: re.Match[str]) -> str:
    simple, hexa, short, long, octal, wrong = match.groups()
    if wrong is not None:
        raise ExpressionError(f"unknown escape {match.group()!r}")
    if simple is not None:
        return SIMPLE_ESCAPES.get(simple, simple)
    code = int(octal, 8) if octal else int(hexa or short or long, 16)
    # Surrogates are no characters of their own.
    if code > 0x10FFFF or 0xD800 <= code <= 0xDFFF:
        raise ExpressionError(f"{match.group()!r} is no character")
    return chr(code)


def _byte_escape(match: re.Match[str]) -> str:
    code = _text_escape(match)
    # Inside the string an escaped byte above 127 is a surrogate, so that it differs from the
    # character with that number; encoding with surrogateescape turns it into one byte.
    is_byte = match.group(2) is not None or match.group(5) is not None
    return chr(0xDC00 + ord(code)) if is_byte and ord(code) > 127 else code


def _to_bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


class _Parser:
    """A parser by precedence climbing over the tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.at = 0
        self.depth = 0

    def peek(self) -> Token:
        return self.tokens[self.at]

    def take(self) -> Token:
        token = self.tokens[self.at]
        self.at += 1
        return token

    def accept(self, symbol: str) -> bool:
        token = self.peek()
        if token.kind in {"symbol", "name"} and token.text == symbol:
            self.at += 1
            return True
        return False

    def expect(self, kind: str, text: str) -> Token:
        token = self.take()
        if token.kind != kind or (text and token.text != text):
            wanted = text or kind
            raise ExpressionError(f"syntax error: {wanted!r} is wanted, not {token.text!r}")
        return token

    def expression(self) -> Expr:
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise ExpressionError("the expression is nested too deeply")
        node = self.binary(1)
        if self.accept("?"):
            yes = self.binary(1)
            self.expect("symbol", ":")
            node = CallExpr("?:", None, (node, yes, self.expression()))
        self.depth -= 1
        return node

    def binary(self, level: int) -> Expr:
        left = self.unary()
        while True:
            token = self.peek()
            power = BINARY.get(token.text, 0) if token.kind in {"symbol", "name"} else 0
            if power < level:
                return left
            # Left-associative, except for chains that are balanced.
            if token.text in {"&&", "||"}:
                left = self.chain(token.text, left, power)
            else:
                self.at += 1
                left = CallExpr(token.text, None, (left, self.binary(power + 1)))

    def chain(self, operator: str, first: Expr, power: int) -> Expr:
        operands = [first]
        while self.accept(operator):
            operands.append(self.binary(power + 1))
        return _balanced(operator, operands)

    def unary(self) -> Expr:
        operators: list[str] = []
        while self.peek().kind == "symbol" and self.peek().text in {"!", "-"}:
            operators.append(self.take().text)
        # The sign belongs to the number: the lowest int has no positive counterpart.
        if operators and operators[-1] == "-" and self.peek().kind == "number":
            number = self.peek().value
            if isinstance(number, (int, float)) and not isinstance(number, UInt):
                self.tokens[self.at] = Token("number", "-", -number)
                operators.pop()
        node = self.member(self.primary())
        for operator in reversed(operators):
            node = CallExpr("!" if operator == "!" else "neg", None, (node,))
        return node

    def member(self, node: Expr) -> Expr:
        while True:
            if self.accept("."):
                optional = self.accept("?")
                name = self.expect("name", "").text
                if not optional and self.accept("("):
                    node = CallExpr(name, node, self.arguments(")"))
                else:
                    node = SelectExpr(node, name, optional)
            elif self.peek().kind == "symbol" and self.accept("["):
                optional = self.accept("?")
                node = IndexExpr(node, self.expression(), optional)
                self.expect("symbol", "]")
            else:
                return node

    def arguments(self, end: str) -> tuple[Expr, ...]:
        args: list[Expr] = []
        while not self.accept(end):
            if args:
                self.expect("symbol", ",")
            args.append(self.expression())
        return tuple(args)

    def primary(self) -> Expr:
        token = self.take()
        if token.kind in {"number", "text"}:
            return LiteralExpr(token.value)
        if token.kind == "name":
            return self.name(token.text)
        if token.kind == "symbol" and token.text == "(":
            node = self.expression()
            self.expect("symbol", ")")
            return node
        if token.kind == "symbol" and token.text == "[":
            return self.list_literal()
        if token.kind == "symbol" and token.text == "{":
            return self.map_literal()
        # A leading dot asks for the root scope; here it changes nothing.
        if token.kind == "symbol" and token.text == ".":
            return IdentExpr(self.expect("name", "").text)
        raise ExpressionError(f"syntax error at {token.text or 'the end'!r}")

    def name(self, text: str) -> Expr:
        if text in CONSTANTS:
            return LiteralExpr(CONSTANTS[text])
        if text in RESERVED or text == "in":
            raise ExpressionError(f"{text!r} is a reserved word")
        if self.accept("("):
            return CallExpr(text, None, self.arguments(")"))
        return IdentExpr(text)

    def list_literal(self) -> Expr:
        items: list[tuple[Expr, bool]] = []
        while not self.accept("]"):
            if items:
                self.expect("symbol", ",")
                if self.accept("]"):  # after a trailing comma
                    break
            optional = self.accept("?")
            items.append((self.expression(), optional))
        return ListExpr(tuple(items))

    def map_literal(self) -> Expr:
        entries: list[tuple[Expr, Expr, bool]] = []
        while not self.accept("}"):
            if entries:
                self.expect("symbol", ",")
                if self.accept("}"):
                    break
            optional = self.accept("?")
            key = self.expression()
            self.expect("symbol", ":")
            entries.append((key, self.expression(), optional))
        return MapExpr(tuple(entries))
