"""The compiler: one pass checks types, estimates costs and turns a tree into closures.

Static types choose the overload of a function where they can. Where an argument is dyn, the choice
is made at evaluation. `program` compiles whole expressions; `macros` adds the macros.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from swell.cel import operators, syntax
from swell.cel.charging import call_cost, charge_product, is_sized, spend
from swell.cel.functions import FUNCTIONS, Overload, constant
from swell.cel.resolution import (
    check_literals,
    common,
    field_of,
    fitting,
    inside,
    literal_type,
)
from swell.cel.syntax import Expr, ExpressionError
from swell.cel.types import (
    BOOL,
    DYN,
    INT,
    NOTHING,
    TYPE,
    TYPE_NAMES,
    CelType,
    EvaluationError,
    Optional,
    TypeValue,
    has_kind,
    list_of,
    map_of,
    optional_of,
    unify,
)

# A frame holds one value for each variable; slot 0 has the cost that may still be spent.
Frame: TypeAlias = list[object]
Run: TypeAlias = Callable[[Frame], object]

# cel-go's costs of creating a list and a map.
LIST_BASE_COST = 10.0
MAP_BASE_COST = 30.0


class Compiled(NamedTuple):
    """A part of an expression: its type, its closure and its estimated cost."""

    type: CelType
    run: Run
    cost: float


class Variable(NamedTuple):
    """A variable in scope: its place in the frame, and its type."""

    slot: int
    type: CelType


Scope: TypeAlias = Mapping[str, Variable]


class Compiler:
    """Compiles one expression. Records the variables it reads and how many slots it needs."""

    def __init__(self, n_slots: int, *, has_bindings: bool = False) -> None:
        self.n_slots = n_slots
        self.has_bindings = has_bindings
        self.used: set[str] = set()
        # By slot: how often a variable is read, and the fields that are selected from it.
        self.n_reads: Counter[int] = Counter()
        self.selected: dict[int, list[str]] = {}

    def compile(self, node: Expr, scope: Scope) -> Compiled:
        match node:
            case syntax.LiteralExpr(value):
                return Compiled(literal_type(value), lambda _frame: value, 0.0)
            case syntax.IdentExpr(name):
                return self.ident(name, scope)
            case syntax.SelectExpr():
                return self.select(node, scope)
            case syntax.IndexExpr():
                return self.index(node, scope)
            case syntax.ListExpr(items):
                return self.list_literal(items, scope)
            case syntax.MapExpr(entries):
                return self.map_literal(entries, scope)
            case syntax.CallExpr():
                return self.call(node, scope)

    def fields_read(self, slot: int) -> frozenset[str] | None:
        """Returns the fields that are read of a variable; None if it is read as a whole."""
        fields = self.selected.get(slot, [])
        return frozenset(fields) if len(fields) == self.n_reads[slot] else None

    def ident(self, name: str, scope: Scope) -> Compiled:
        variable = scope.get(name)
        if variable is not None:
            self.used.add(name)
            slot = variable.slot
            self.n_reads[slot] += 1
            return Compiled(variable.type, lambda frame: frame[slot], 1.0)
        # A variable hides the name of a type.
        if name in TYPE_NAMES:
            value = TypeValue(TYPE_NAMES[name])
            return Compiled(TYPE, lambda _frame: value, 1.0)
        raise ExpressionError(f"undeclared reference to '{name}'")

    # --- fields, indexes, literals -------------------------------------------------------------

    def select(self, node: syntax.SelectExpr, scope: Scope) -> Compiled:
        operand = self.compile(node.operand, scope)
        base = inside(operand.type)
        type_, key = field_of(base, node.field)
        if isinstance(node.operand, syntax.IdentExpr) and node.operand.name in scope:
            self.selected.setdefault(scope[node.operand.name].slot, []).append(key)
        run = operand.run
        cost = operand.cost + 1.0
        find = operators.optional_property if base.kind == "object" else operators.optional_field
        # A selection from an optional is optional again, written `.?` or not.
        if not node.optional and operand.type.kind != "optional":
            return Compiled(type_, lambda frame: operators.field(run(frame), key), cost)
        result = type_ if type_.kind == "optional" else optional_of(type_)
        return Compiled(result, lambda frame: find(run(frame), key), cost)

    def index(self, node: syntax.IndexExpr, scope: Scope) -> Compiled:
        operand, key = self.compile(node.operand, scope), self.compile(node.key, scope)
        base = inside(operand.type)
        wanted, item = DYN, DYN
        if base.kind == "list":
            wanted, item = INT, base.params[0]
        elif base.kind == "map":
            wanted, item = base.params
        elif base.kind != "dyn":
            raise ExpressionError(f"found no matching overload for '_[_]' applied to '{base}'")
        # Any number is an index: it counts when it is whole.
        if not unify(wanted, key.type, {}) and key.type.kind not in {"uint", "double"}:
            raise ExpressionError(f"{key.type} is no index of {base}")
        run, get_key, cost = operand.run, key.run, operand.cost + key.cost + 1.0
        if not node.optional and operand.type.kind != "optional":
            return Compiled(item, lambda frame: operators.item(run(frame), get_key(frame)), cost)
        return Compiled(
            optional_of(item),
            lambda frame: operators.optional_item(run(frame), get_key(frame)),
            cost,
        )

    def list_literal(
        self, items: tuple[tuple[Expr, bool], ...], scope: Scope, *, mixed: bool = False
    ) -> Compiled:
        parts = [self.compile(item, scope) for item, _ in items]
        types = [
            inside(part.type) if opt else part.type
            for part, (_, opt) in zip(parts, items, strict=True)
        ]
        item_type = DYN if mixed else common(types)
        runs = [(part.run, opt) for part, (_, opt) in zip(parts, items, strict=True)]
        cost = LIST_BASE_COST + sum(part.cost for part in parts)
        if not any(opt for _, opt in runs):
            plain = [run for run, _ in runs]
            made = list_of(item_type, len(items))
            return Compiled(made, produced(lambda frame: [run(frame) for run in plain], made), cost)

        def run_optional(frame: Frame) -> object:
            values = [(run(frame), opt) for run, opt in runs]
            return [
                value.get() if isinstance(value, Optional) and opt else value
                for value, opt in values
                if not (opt and value == NOTHING)
            ]

        made = list_of(item_type, len(items))
        return Compiled(made, produced(run_optional, made), cost)

    def map_literal(self, entries: tuple[tuple[Expr, Expr, bool], ...], scope: Scope) -> Compiled:
        keys = [self.compile(key, scope) for key, _, _ in entries]
        values = [self.compile(value, scope) for _, value, _ in entries]
        flags = [optional for _, _, optional in entries]
        types = [inside(v.type) if opt else v.type for v, opt in zip(values, flags, strict=True)]
        cost = MAP_BASE_COST + sum(part.cost for part in (*keys, *values))
        runs = [(k.run, v.run, o) for k, v, o in zip(keys, values, flags, strict=True)]

        def run(frame: Frame) -> object:
            made: dict[object, object] = {}
            for get_key, get_value, optional in runs:
                value = get_value(frame)
                if optional and isinstance(value, Optional):
                    if not value.present:
                        continue
                    value = value.value
                made[get_key(frame)] = value
            return made

        key_type = common([key.type for key in keys])
        map_type = map_of(key_type, common(types), len(entries))
        return Compiled(map_type, produced(run, map_type), cost)

    # --- calls ---------------------------------------------------------------------------------

    def call(self, node: syntax.CallExpr, scope: Scope) -> Compiled:
        expand = find_macro(node)
        if expand is not None:
            return expand(self, node, scope)
        if node.target is None and node.name in SPECIAL:
            return SPECIAL[node.name](self, node.args, scope)
        qualified = _qualified_name(node, scope)
        if qualified is not None:
            return self.function(qualified, [self.compile(a, scope) for a in node.args], False)
        target = [] if node.target is None else [self.compile(node.target, scope)]
        args = target + [self.argument(node.name, arg, scope) for arg in node.args]
        compiled = self.function(node.name, args, node.target is not None)
        # Literal arguments are checked now, so that a bad pattern is refused with its expression.
        chosen = fitting(FUNCTIONS[node.name, node.target is not None], [a.type for a in args])
        check_literals(node, [overload for overload, _ in chosen])
        return compiled

    def argument(self, name: str, node: Expr, scope: Scope) -> Compiled:
        """Compile an argument. A list given to `format` may mix types, which no other list may."""
        if name == "format" and isinstance(node, syntax.ListExpr):
            return self.list_literal(node.items, scope, mixed=True)
        return self.compile(node, scope)

    def function(self, name: str, args: list[Compiled], member: bool) -> Compiled:
        overloads = FUNCTIONS.get((name, member))
        if overloads is None:
            raise ExpressionError(f"undeclared reference to '{name}'")
        chosen = fitting(overloads, [arg.type for arg in args])
        if not chosen:
            given = ", ".join(str(arg.type) for arg in args)
            raise ExpressionError(f"found no matching overload for '{name}' applied to '({given})'")
        estimates = [overload.estimate([arg.type for arg in args]) for overload, _ in chosen]
        cost = sum(arg.cost for arg in args) + max(estimate.cost for estimate in estimates)
        results = {str(result): result for _, result in chosen}
        # With dyn arguments several overloads may fit; if their results differ, it is dyn too.
        type_ = next(iter(results.values())) if len(results) == 1 else DYN
        sizes = [estimate.result_size for estimate in estimates]
        if sizes[0] is not None:
            type_ = type_.sized(max(size for size in sizes if size is not None))
        return Compiled(type_, _caller(name, [o for o, _ in chosen], args, type_), cost)

    def logical(self, args: tuple[Expr, ...], scope: Scope, *, until: bool) -> Compiled:
        """Compile `&&` and `||`, which stop at the value `until`.

        An error on one side does not count when the other side alone decides the result.
        """
        left, right = self.boolean(args[0], scope), self.boolean(args[1], scope)
        first, second = left.run, right.run

        def run(frame: Frame) -> object:
            try:
                value = first(frame)
            except EvaluationError as error:
                # The left side failed; the right side may still decide.
                if second(frame) is until:
                    return until
                raise error from None
            return value if value is until else second(frame)

        return Compiled(BOOL, run, left.cost + right.cost)

    def boolean(self, node: Expr, scope: Scope) -> Compiled:
        """Compile a condition; one of type dyn is checked to be a bool when it is evaluated."""
        compiled = self.compile(node, scope)
        if compiled.type.kind not in {"bool", "dyn"}:
            raise ExpressionError(f"a bool is wanted, not {compiled.type}")
        run = compiled.run
        if compiled.type.kind == "bool":
            return compiled

        def checked(frame: Frame) -> object:
            value = run(frame)
            if not isinstance(value, bool):
                raise EvaluationError("no such overload")
            return value

        return compiled._replace(run=checked)

    def conditional(self, args: tuple[Expr, ...], scope: Scope) -> Compiled:
        test = self.boolean(args[0], scope)
        yes, no = self.compile(args[1], scope), self.compile(args[2], scope)
        check, then, other = test.run, yes.run, no.run
        return Compiled(
            common([yes.type, no.type]),
            lambda frame: then(frame) if check(frame) else other(frame),
            test.cost + max(yes.cost, no.cost),  # only one of them is evaluated
        )

    def equality(self, args: tuple[Expr, ...], scope: Scope, *, equal: bool) -> Compiled:
        left, right = self.compile(args[0], scope), self.compile(args[1], scope)
        if not (unify(left.type, right.type, {}) or unify(right.type, left.type, {})):
            shown = f"({left.type}, {right.type})"
            raise ExpressionError(f"found no matching overload for '_==_' applied to '{shown}'")
        size = min(left.type.size, right.type.size)
        first, second = left.run, right.run
        same = operators.same_items if left.type.unordered else operators.equal
        cost = left.cost + right.cost + operators.comparison_cost(size)
        if not (is_sized(left.type) and is_sized(right.type)):
            return Compiled(BOOL, lambda frame: same(first(frame), second(frame)) is equal, cost)

        def run(frame: Frame) -> object:
            one, other = first(frame), second(frame)
            # Equality walks through both at once, and no further than the smaller one.
            smaller = one if _is_smaller(one, other) else other
            charge_product(frame, smaller, DYN)
            return same(one, other) is equal

        return Compiled(BOOL, run, cost)

    def bind(self, scope: Scope, name: str, type_: CelType) -> tuple[int, Scope]:
        """Declare a macro's variable; returns its slot, and the scope in which it is known."""
        slot = self.n_slots
        self.n_slots += 1
        return slot, {**scope, name: Variable(slot, type_)}


Expand: TypeAlias = Callable[[Compiler, syntax.CallExpr, Scope], Compiled]
# By name and number of arguments. `program` fills it from `macros`, which needs this module.
MACROS: dict[tuple[str, int], Expand] = {}


def find_macro(node: syntax.CallExpr) -> Expand | None:
    """The macro that a call stands for; None for a plain function.

    The first argument of a macro names its variable; with any other first argument a call is one
    of a function or a method.
    """
    if node.target is None:
        return MACROS.get((node.name, len(node.args))) if node.name == "has" else None
    if not node.args or not isinstance(node.args[0], syntax.IdentExpr) or node.name == "has":
        return None
    return MACROS.get((node.name, len(node.args)))


Special: TypeAlias = Callable[[Compiler, tuple[Expr, ...], Scope], Compiled]
SPECIAL: Mapping[str, Special] = {
    "&&": lambda compiler, args, scope: compiler.logical(args, scope, until=False),
    "||": lambda compiler, args, scope: compiler.logical(args, scope, until=True),
    "?:": lambda compiler, args, scope: compiler.conditional(args, scope),
    "==": lambda compiler, args, scope: compiler.equality(args, scope, equal=True),
    "!=": lambda compiler, args, scope: compiler.equality(args, scope, equal=False),
}


def _qualified_name(node: syntax.CallExpr, scope: Scope) -> str | None:
    """The function that `sets.contains(...)` calls, unless `sets` is a variable."""
    if not isinstance(node.target, syntax.IdentExpr) or node.target.name in scope:
        return None
    name = f"{node.target.name}.{node.name}"
    return name if (name, False) in FUNCTIONS else None


def produced(run: Run, type_: CelType) -> Run:
    """The closure of an expression that makes a new value, which is charged by its size."""
    return lambda frame: charge_product(frame, run(frame), type_)


def _is_smaller(one: object, other: object) -> bool:
    sized = (str, bytes, list, dict)
    return not isinstance(other, sized) or (isinstance(one, sized) and len(one) <= len(other))


def _caller(name: str, overloads: list[Overload], args: list[Compiled], type_: CelType) -> Run:
    """The closure of a call. Calls with one and two arguments have shorter, faster ones.

    Only a call that reads or makes values of any size is charged: others cost the same always.
    """
    runs = [arg.run for arg in args]
    is_charged = is_sized(type_) or any(one.cost is not constant for one in overloads)
    if len(overloads) == 1 and all(arg.type.kind != "dyn" for arg in args):
        overload = overloads[0]
        call = overload.run
        if is_charged:
            return lambda frame: _charged(frame, overload, [run(frame) for run in runs], type_)
        if len(runs) == 1:
            (only,) = runs
            return lambda frame: call(only(frame))
        if len(runs) == 2:
            first, second = runs
            return lambda frame: call(first(frame), second(frame))
        return lambda frame: call(*[run(frame) for run in runs])

    def dispatch(frame: Frame) -> object:
        values = [run(frame) for run in runs]
        for overload in overloads:
            if all(
                has_kind(value, want) for value, want in zip(values, overload.params, strict=True)
            ):
                return _charged(frame, overload, values, type_)
        raise EvaluationError(f"no such overload: {name}")

    return dispatch


def _charged(frame: Frame, overload: Overload, values: list[object], type_: CelType) -> object:
    spend(frame, call_cost(overload, values))
    return charge_product(frame, overload.run(*values), type_)
