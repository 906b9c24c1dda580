"""Macros: calls whose arguments are not values but parts of the program, such as `list.all(x, p)`.

The constants added to costs are those by which cel-go prices the loops that macros expand to.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swell.cel import operators
from swell.cel.charging import STEP_COST, is_nested, spend
from swell.cel.compiler import Compiled, Compiler, Expand, Frame, Run, Scope, produced
from swell.cel.resolution import field_of, inside
from swell.cel.syntax import CallExpr, Expr, ExpressionError, IdentExpr, SelectExpr
from swell.cel.types import (
    BOOL,
    DYN,
    INT,
    NOTHING,
    CelType,
    EvaluationError,
    Optional,
    list_of,
    map_of,
    optional_of,
)


def _has(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
    (selected,) = node.args
    if not isinstance(selected, SelectExpr):
        raise ExpressionError("invalid argument to has() macro")
    operand = compiler.compile(selected.operand, scope)
    _, name = field_of(inside(operand.type), selected.field)
    run = operand.run
    # In an optional, a missing object has no fields, which is no error.
    if selected.optional or operand.type.kind == "optional":

        def has_optional(frame: Frame) -> object:
            found = operators.optional_property(run(frame), name)
            return isinstance(found, Optional) and found.present

        return Compiled(BOOL, has_optional, operand.cost)
    return Compiled(BOOL, lambda frame: operators.has_field(run(frame), name), operand.cost)


# --- going through a list or a map -------------------------------------------------------------


class _Loop:
    """The range of a macro and the variables it binds; bodies are compiled in their scope."""

    def __init__(self, compiler: Compiler, node: CallExpr, scope: Scope, n_variables: int) -> None:
        assert node.target is not None  # noqa: S101 - `find` only gives calls with a target
        self.compiler = compiler
        self.range = compiler.compile(node.target, scope)
        self.slots: list[int] = []
        self.scope = scope
        names = node.args[:n_variables]
        for name, type_ in zip(names, _variable_types(self.range.type, n_variables), strict=True):
            if not isinstance(name, IdentExpr):
                raise ExpressionError("a macro's variable must be a simple name")
            slot, self.scope = compiler.bind(self.scope, name.name, type_)
            self.slots.append(slot)

    @property
    def size(self) -> float:
        return self.range.type.size

    def condition(self, node: Expr) -> Compiled:
        return self.compiler.boolean(node, self.scope)

    def body(self, node: Expr) -> Compiled:
        return self.compiler.compile(node, self.scope)

    def steps(self, frame: Frame) -> Iterator[object]:
        """Set the variables for each item in turn; yields the first variable."""
        value = self.range.run(frame)
        if not isinstance(value, (list, dict)):
            raise EvaluationError("no such overload: a list or a map is wanted")
        # Charged before the loop starts; nested loops share the allowance.
        spend(frame, len(value) * STEP_COST)
        first = self.slots[0]
        if len(self.slots) == 1:
            # With one variable a map gives its keys.
            for item in list(value):
                frame[first] = item
                yield item
            return
        # With two variables a list gives index and item, a map key and value.
        pairs = enumerate(value) if isinstance(value, list) else list(value.items())
        for key, item in pairs:
            frame[first], frame[self.slots[1]] = key, item
            yield key

    def result(self, type_: CelType, run: Run, step_cost: float, more: float = 1.0) -> Compiled:
        run = produced(run, type_) if is_nested(type_) else run
        return Compiled(type_, run, self.range.cost + self.size * step_cost + more)


def _variable_types(ranged: CelType, n_variables: int) -> list[CelType]:
    if ranged.kind == "list":
        return [ranged.params[0]] if n_variables == 1 else [INT, ranged.params[0]]
    if ranged.kind == "map":
        return list(ranged.params[:n_variables])
    if ranged.kind == "dyn":
        return [DYN] * n_variables
    raise ExpressionError(f"expression of type '{ranged}' cannot be range of a comprehension")


def _quantifier(n_variables: int, *, until: bool) -> Expand:
    """The macros `all`, which ends at the first false, and `exists`, which ends at a true.

    An error for one item does not count when another item decides the result.
    """

    def expand(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
        loop = _Loop(compiler, node, scope, n_variables)
        condition = loop.condition(node.args[n_variables])
        check = condition.run

        def run(frame: Frame) -> object:
            failure: EvaluationError | None = None
            for _ in loop.steps(frame):
                try:
                    if check(frame) is until:
                        return until
                except EvaluationError as error:
                    failure = failure or error
            if failure is not None:
                raise failure
            return not until

        return loop.result(BOOL, run, condition.cost + (4.0 if until else 3.0))

    return expand


def _exists_one(n_variables: int) -> Expand:
    def expand(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
        loop = _Loop(compiler, node, scope, n_variables)
        condition = loop.condition(node.args[n_variables])
        check = condition.run
        return loop.result(
            BOOL,
            lambda frame: sum(check(frame) is True for _ in loop.steps(frame)) == 1,
            condition.cost + 2.0,
            2.0,
        )

    return expand


def _filter(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
    loop = _Loop(compiler, node, scope, 1)
    condition = loop.condition(node.args[1])
    check = condition.run
    (item,) = _variable_types(loop.range.type, 1)
    return loop.result(
        list_of(item, loop.size),
        lambda frame: [value for value in loop.steps(frame) if check(frame)],
        condition.cost + 13.0,
        11.0,
    )


def _transform(n_variables: int, *, filtered: bool, to_map: bool = False) -> Expand:
    """The macros `map` (one variable), `transformList` and `transformMap` (two variables).

    The argument before the last one is a condition where the macro is a filtering one.
    """

    def expand(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
        loop = _Loop(compiler, node, scope, n_variables)
        condition = loop.condition(node.args[n_variables]) if filtered else None
        body = loop.body(node.args[-1])
        make = body.run
        check = condition.run if condition else None

        def make_list(frame: Frame) -> object:
            return [make(frame) for _ in loop.steps(frame) if check is None or check(frame)]

        def make_map(frame: Frame) -> object:
            return {key: make(frame) for key in loop.steps(frame) if check is None or check(frame)}

        cost = body.cost + (condition.cost + 1.0 if condition else 0.0)
        if to_map:
            key_type = _variable_types(loop.range.type, 2)[0]
            type_ = map_of(key_type, body.type, loop.size)
            return loop.result(type_, make_map, cost + 3.0, 31.0)
        return loop.result(list_of(body.type, loop.size), make_list, cost + 12.0, 11.0)

    return expand


def _sort_by(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
    loop = _Loop(compiler, node, scope, 1)
    key = loop.body(node.args[1])
    get_key = key.run
    (item,) = _variable_types(loop.range.type, 1)

    def run(frame: Frame) -> object:
        # Keys are computed in the loop, because they read its variable from the frame.
        pairs = [(get_key(frame), value) for value in loop.steps(frame)]
        return [value for _, value in sorted(pairs, key=lambda pair: pair[0])]  # type: ignore[arg-type, return-value]

    return loop.result(list_of(item, loop.size), run, key.cost + 12.0, 11.0)


# --- optional values ---------------------------------------------------------------------------


def _opt_map(*, flat: bool) -> Expand:
    def expand(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
        assert node.target is not None  # noqa: S101 - `find` only gives calls with a target
        name, mapped = node.args
        target = compiler.compile(node.target, scope)
        if target.type.kind not in {"optional", "dyn"} or not isinstance(name, IdentExpr):
            raise ExpressionError(f"optMap is for optional values, not {target.type}")
        value_type = target.type.params[0] if target.type.params else DYN
        slot, inner = compiler.bind(scope, name.name, value_type)
        body = compiler.compile(mapped, inner)
        get, make = target.run, body.run

        def run(frame: Frame) -> object:
            value = get(frame)
            if not isinstance(value, Optional):
                raise EvaluationError("no such overload: optMap")
            if not value.present:
                return NOTHING
            frame[slot] = value.value
            made = make(frame)
            return made if flat else Optional(made, True)

        type_ = body.type if flat else optional_of(body.type)
        return Compiled(type_, run, target.cost + body.cost + 1.0)

    return expand


# --- variables ---------------------------------------------------------------------------------


def _bind(compiler: Compiler, node: CallExpr, scope: Scope) -> Compiled:
    """Compile `cel.bind(name, value, body)`, where it is allowed."""
    name, given, body = node.args
    if node.target != IdentExpr("cel") or not compiler.has_bindings:
        raise ExpressionError("undeclared reference to 'bind'")
    if not isinstance(name, IdentExpr):
        raise ExpressionError("a macro's variable must be a simple name")
    value = compiler.compile(given, scope)
    slot, inner = compiler.bind(scope, name.name, value.type)
    result = compiler.compile(body, inner)
    get, make = value.run, result.run

    def run(frame: Frame) -> object:
        frame[slot] = get(frame)
        return make(frame)

    return Compiled(result.type, run, value.cost + result.cost + 1.0)


# By name and number of arguments.
MACROS: Mapping[tuple[str, int], Expand] = {
    ("has", 1): _has,
    ("all", 2): _quantifier(1, until=False),
    ("all", 3): _quantifier(2, until=False),
    ("exists", 2): _quantifier(1, until=True),
    ("exists", 3): _quantifier(2, until=True),
    ("exists_one", 2): _exists_one(1),
    ("existsOne", 2): _exists_one(1),
    ("existsOne", 3): _exists_one(2),
    ("exists_one", 3): _exists_one(2),
    ("filter", 2): _filter,
    ("map", 2): _transform(1, filtered=False),
    ("map", 3): _transform(1, filtered=True),
    ("transformList", 3): _transform(2, filtered=False),
    ("transformList", 4): _transform(2, filtered=True),
    ("transformMap", 3): _transform(2, filtered=False, to_map=True),
    ("transformMap", 4): _transform(2, filtered=True, to_map=True),
    ("sortBy", 2): _sort_by,
    ("optMap", 2): _opt_map(flat=False),
    ("optFlatMap", 2): _opt_map(flat=True),
    ("bind", 3): _bind,
}
