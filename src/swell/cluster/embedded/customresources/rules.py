"""The validation rules (`x-kubernetes-validations`) of a schema, compiled and enforced.

Rules see the object after defaulting. A failing rule about a value that the update does not change
is only a warning (ratcheting), unless it compares with the old value. A rule that reads `oldSelf`
runs only where there is an old value, or where it declares that it may be missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from swell.api.codec import encode
from swell.api.meta import Body
from swell.cel import (
    CALL_COST_MAX,
    CostExceededError,
    EvaluationError,
    ExpressionError,
    Program,
    compile_expression,
)
from swell.cel.types import NOTHING, CelType, Optional, optional_of
from swell.cluster.embedded.customresources.rule_types import Converter, converter_of, type_of
from swell.schema import field_errors
from swell.schema.field_errors import FieldError, MapKey, Path, render
from swell.schema.pruning import EMBEDDED
from swell.schema.structural import VALIDATIONS
from swell.schema.values import (
    LIST_KEYS,
    LIST_TYPE,
    MISSING,
    item_key,
    items_by_key,
)

# Kubernetes' limit; a longer computed message is replaced by the plain one.
MESSAGE_LENGTH_MAX = 5120
# Not a reason of Kubernetes. It marks a failure that is ratcheted: it becomes a warning.
TOLERATED = "Tolerated"
REASONS: Mapping[str, Callable[[str, object, str], FieldError]] = {
    "FieldValueInvalid": field_errors.invalid,
    "FieldValueForbidden": lambda field, _value, detail: field_errors.forbidden(field, detail),
    "FieldValueRequired": lambda field, _value, detail: field_errors.required(field, detail),
    "FieldValueDuplicate": lambda field, value, _detail: field_errors.duplicate(field, value),
}

# What all rules of one object may cost together. Kubernetes allows ten million; its evaluations run
# beside other requests and these do not, so they end after some tenths of a second.
OBJECT_COST_MAX = 1_500_000
# An evaluation costs some microseconds even if the rule is trivial.
EVALUATION_COST = 10
# Values kept by one schema, and the bytes of the largest one: to bound the memory.
_PASSED_MAX = 256
_KEY_BYTES_MAX = 16_384


@dataclass(slots=True)
class RuleBudget:
    """The cost that the rules of one object may still spend. At 0 no further rule is run."""

    left: float = OBJECT_COST_MAX


# (new value, old value or MISSING, path, errors found, budget)
Enforce: TypeAlias = Callable[[object, object, Path, list[FieldError], RuleBudget], None]


@dataclass(frozen=True, slots=True)
class CompiledRule:
    """One rule of one schema."""

    text: str
    message: str
    field_path: str
    reason: str
    optional_old: bool
    program: Program
    message_program: Program | None

    @property
    def uses_old(self) -> bool:
        return "oldSelf" in self.program.used

    def failure(self, value: object, old: object, budget: RuleBudget) -> str | None:
        """The message for a value that breaks the rule; None for one that obeys it.

        An error of the evaluation counts as a broken rule. The cost is taken from the budget; an
        evaluation that is too expensive takes all of it.
        """
        try:
            if self._evaluate(self.program, value, old, budget) is True:
                return None
        except CostExceededError:
            if budget.left < CALL_COST_MAX:
                problem = "validation failed due to running out of cost budget"
            else:
                problem = f"call cost exceeds limit for rule: {self.text}"
            budget.left = 0
            return f"{problem}, no further validation rules will be run"
        except EvaluationError as error:
            return f"{error} evaluating rule: {self.message or self.text}"
        computed = self._computed_message(value, old, budget)
        return computed or self.message or f"failed rule: {self.text}"

    def _evaluate(self, program: Program, value: object, old: object, budget: RuleBudget) -> object:
        budget.left -= EVALUATION_COST
        result, cost = program.measured(min(CALL_COST_MAX, budget.left), value, old)
        budget.left -= cost
        return result

    def _computed_message(self, value: object, old: object, budget: RuleBudget) -> str:
        if self.message_program is None:
            return ""
        try:
            text = self._evaluate(self.message_program, value, old, budget)
        except EvaluationError:
            return ""  # Kubernetes shows the plain message instead
        shown = text.strip() if isinstance(text, str) else ""
        return "" if "\n" in shown or len(shown) > MESSAGE_LENGTH_MAX else shown


class MessageError(ExpressionError):
    """The message expression of a rule is wrong, and the rule itself is right."""


def compile_rule(raw: Body, type_: CelType) -> CompiledRule:
    """Compile a rule for values of a type.

    Raises ExpressionError when the rule is wrong for that type, MessageError when only its message
    expression is.
    """
    optional_old = bool(raw.get("optionalOldSelf"))
    variables = {"self": type_, "oldSelf": optional_of(type_) if optional_old else type_}
    text = raw["rule"].strip()
    message_text = raw.get("messageExpression", "")
    program = compile_expression(text, variables)
    if program.type.kind != "bool":
        raise ExpressionError("cel expression must evaluate to a bool")
    message_program = _message_program(message_text, variables) if message_text else None
    return CompiledRule(
        text=text,
        message=raw.get("message", "").strip(),
        field_path=raw.get("fieldPath", ""),
        reason=raw.get("reason", "FieldValueInvalid"),
        optional_old=optional_old,
        program=program,
        message_program=message_program,
    )


def _message_program(text: str, variables: Mapping[str, CelType]) -> Program:
    try:
        program = compile_expression(text, variables)
    except ExpressionError as error:
        raise MessageError(f"messageExpression compilation failed: {error}") from error
    if program.type.kind != "string":
        raise MessageError("messageExpression must evaluate to a string")
    return program


def compile_rules(schema: Body, *, root: bool = False) -> Enforce | None:
    """The enforcement of all rules in a schema; None when it has none.

    The root and embedded resources are whole objects: their rules may read apiVersion, kind and
    the name, whether or not the schema declares them.
    """
    whole = root or bool(schema.get(EMBEDDED))
    own = _own_rules(schema, whole=whole)
    others = [inner for part in schema.get("allOf", ()) if (inner := _all_of(schema, part))]
    parts = [*own, *others, *filter(None, (_object_rules(schema), _list_rules(schema)))]
    if not parts:
        return None
    if len(parts) == 1:
        return parts[0]

    def enforce(
        value: object, old: object, path: Path, errors: list[FieldError], budget: RuleBudget
    ) -> None:
        for part in parts:
            part(value, old, path, errors, budget)

    return enforce


def _all_of(schema: Body, part: Body) -> Enforce | None:
    """The rules under allOf, which see values typed by the schema around them."""
    if VALIDATIONS not in part:
        return None
    return compile_rules({**schema, "allOf": (), VALIDATIONS: part[VALIDATIONS]})


def _own_rules(schema: Body, *, whole: bool) -> list[Enforce]:
    type_ = type_of(schema, root=whole)
    if not schema.get(VALIDATIONS) or type_ is None:
        return []
    rules = list(_compiled(schema[VALIDATIONS], type_))
    ask = _asking(rules, converter_of(schema) or (lambda value: value))
    passed = PassedValues(rules)

    def enforce(
        value: object, old: object, path: Path, errors: list[FieldError], budget: RuleBudget
    ) -> None:
        if value is None or budget.left <= 0:
            return
        known = old is not MISSING and old is not None
        key = passed.key_of(value, old if known else None)
        if passed.charge(key, budget):
            return
        n_errors, left = len(errors), budget.left
        ask(value, old if known else None, path, errors, budget)
        if len(errors) == n_errors and budget.left > 0:
            passed.note(key, left - budget.left)

    return [enforce]


def _asking(rules: Sequence[CompiledRule], convert: Converter) -> Enforce:
    """Returns what evaluates all rules about a value; an old one of None is not known."""

    def ask(
        value: object, old: object, path: Path, errors: list[FieldError], budget: RuleBudget
    ) -> None:
        known = old is not None
        new_value, old_value = convert(value), convert(old) if known else None
        for rule in rules:
            if budget.left <= 0:
                return
            if rule.uses_old and not known and not rule.optional_old:
                continue
            before = old_value
            if rule.optional_old:
                before = Optional(old_value, True) if known else NOTHING
            detail = rule.failure(new_value, before, budget)
            if detail is not None:
                where = (render(path) + rule.field_path).lstrip(".") or field_errors.NO_FIELD
                error = REASONS[rule.reason](where, value, detail)
                tolerated = known and not rule.uses_old and value == old
                errors.append(error._replace(reason=TOLERATED) if tolerated else error)

    return ask


class PassedValues:
    """The values that all rules of a schema have passed lately, and what that cost.

    Rules decide by the value alone, and most writes leave what a rule reads as it was: every write
    of a status does. So the same JSON is not evaluated twice.
    """

    def __init__(self, rules: Sequence[CompiledRule]) -> None:
        self._uses_old = any(rule.uses_old or rule.optional_old for rule in rules)
        fields = [one for rule in rules for one in rule.program.fields.values()]
        if any(rule.message_program is not None for rule in rules) or None in fields:
            self._fields: tuple[str, ...] | None = None
        else:
            self._fields = tuple(sorted({name for one in fields if one for name in one}))
        self._cost: dict[bytes, float] = {}

    def key_of(self, value: object, old: object) -> bytes:
        """Returns what the rules read of a value and, where they look at it, of the old one."""
        read: tuple[object, ...] = (self._read_of(value),)
        if self._uses_old:
            read = (*read, old is not None, self._read_of(old))
        return encode(read)

    def charge(self, key: bytes, budget: RuleBudget) -> bool:
        """Take the cost of a value that has passed from the budget; false if it has to be asked."""
        cost = self._cost.get(key)
        if cost is None or cost >= budget.left:
            return False
        budget.left -= cost
        return True

    def note(self, key: bytes, cost: float) -> None:
        if len(key) > _KEY_BYTES_MAX:
            return
        if len(self._cost) >= _PASSED_MAX:
            self._cost.clear()  # costs only time
        self._cost[key] = cost

    def _read_of(self, value: object) -> object:
        if self._fields is None or not isinstance(value, dict):
            return value
        return {name: value[name] for name in self._fields if name in value}


def _compiled(raws: list[Body], type_: CelType) -> Iterator[CompiledRule]:
    for raw in raws:
        try:
            yield compile_rule(raw, type_)
        except ExpressionError:
            # Such a definition is refused when it is written; one stored earlier, under other
            # checks, is served without the rule.
            continue


def _object_rules(schema: Body) -> Enforce | None:
    fields = {
        name: rules
        for name, part in schema.get("properties", {}).items()
        if (rules := compile_rules(part)) is not None
    }
    additional = schema.get("additionalProperties")
    other = compile_rules(additional) if isinstance(additional, dict) else None
    if not fields and other is None:
        return None

    def enforce(
        value: object, old: object, path: Path, errors: list[FieldError], budget: RuleBudget
    ) -> None:
        if not isinstance(value, dict):
            return
        before = old if isinstance(old, dict) else {}
        if other is not None:
            for name, item in value.items():
                other(item, before.get(name, MISSING), (path, MapKey(name)), errors, budget)
            return
        for name, rules in fields.items():
            if name in value:
                rules(value[name], before.get(name, MISSING), (path, name), errors, budget)

    return enforce


def _list_rules(schema: Body) -> Enforce | None:
    items = schema.get("items")
    rules = compile_rules(items) if isinstance(items, dict) else None
    if rules is None:
        return None
    keys = schema.get(LIST_KEYS, []) if schema.get(LIST_TYPE) == "map" else None

    def enforce(
        value: object, old: object, path: Path, errors: list[FieldError], budget: RuleBudget
    ) -> None:
        if not isinstance(value, list):
            return
        before = items_by_key(old, keys) if keys is not None else {}
        # Items of a list that is no map cannot be matched with old ones; only a list that is
        # equal as a whole has unchanged items.
        unchanged = keys is None and value == old
        for index, item in enumerate(value):
            previous = item if unchanged else MISSING
            if keys is not None:
                previous = before.get(item_key(item, keys), MISSING)
            rules(item, previous, (path, index), errors, budget)

    return enforce
