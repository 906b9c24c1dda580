"""Checks of the schema in a new definition: its structure, keywords, defaults and rules.

Rules are only compiled where the schema is right. Those of one part are looked at although another
part, beside or around it, is wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from swell.api.meta import Body
from swell.cel import ExpressionError
from swell.cluster.embedded.customresources.rule_types import n_values_max, type_of
from swell.cluster.embedded.customresources.rules import (
    REASONS,
    TOLERATED,
    CompiledRule,
    MessageError,
    RuleBudget,
    compile_rule,
    compile_rules,
)
from swell.schema import field_errors
from swell.schema.field_errors import FieldError, Path
from swell.schema.keywords import KeywordPlace, keyword_errors, parts, root_errors
from swell.schema.pruning import EMBEDDED
from swell.schema.schema_defaults import default_errors
from swell.schema.structural import (
    MAP_TYPE,
    VALIDATIONS,
    has_structural_form,
    structural_errors,
)
from swell.schema.values import LIST_TYPE, MISSING

# Kubernetes' limits of the estimated cost of one rule, and of all rules of a schema.
RULE_COST_MAX = 10_000_000
TOTAL_COST_MAX = 100_000_000
# Of a schema whose rules cost too much together, so many are named that cost more than a hundredth.
EXPENSIVE_SHOWN = 4

# Compiling takes microseconds for each character; the largest definitions in use have a third.
RULES_LENGTH_MAX = 150_000


class RulePosition(NamedTuple):
    """How often the rules of a part run, and whether old values are found for them.

    `times` is None when a list or map around the part has no bound. `correlated` is false inside
    lists whose items cannot be matched with those of the old object, and in atomic maps.
    """

    times: float | None = 1.0
    correlated: bool = True


class _Findings(NamedTuple):
    """The errors of one part and all inside it: those of the schema, and those of its rules."""

    schema: list[FieldError]
    rules: list[FieldError]


def schema_errors(schema: Body, path: str, *, has_status: bool) -> list[FieldError]:
    """All errors of the schema of a version."""
    found = list(root_errors(schema, path, has_status=has_status))
    length = sum(_rule_lengths(schema))
    if length > RULES_LENGTH_MAX:
        detail = f"all rules together have {length:,} characters, at most {RULES_LENGTH_MAX:,}"
        return [*found, field_errors.forbidden(path, detail)]
    is_readable = has_structural_form(schema)
    problems: list[FieldError] = []
    if is_readable:
        problems = structural_errors(schema, path) or default_errors(schema, path, _default_rules)
    checks = _PartChecks(compiles=is_readable and not problems)
    parts_found = checks.findings(schema, KeywordPlace(path, is_root=True), RulePosition())
    found += [*problems, *parts_found.schema, *parts_found.rules]
    if not is_readable and not found:  # what makes it unreadable is an error nearly everywhere
        found.append(field_errors.invalid(path, "", "the schema has no structural form"))
    return [*found, *checks.total_errors(path)]


def _rule_lengths(schema: Body) -> Iterator[int]:
    for raw in schema.get(VALIDATIONS, ()):
        yield len(raw.get("rule", "")) + len(raw.get("messageExpression", ""))
    for part, _ in parts(schema, KeywordPlace("")):
        yield from _rule_lengths(part)


def _default_rules(schema: Body, default: object, path: Path, is_root: bool) -> list[FieldError]:
    """The errors of a default by the rules of its schema, as a new value and as an old one."""
    rules = compile_rules(schema, root=is_root)
    found: list[FieldError] = []
    for old in (MISSING, default):
        if rules is not None and not found:
            rules(default, old, path, found, RuleBudget())
    return [error for error in found if error.reason != TOLERATED]


class _PartChecks:
    """Checks the parts of one schema, and adds up what its rules may cost."""

    def __init__(self, *, compiles: bool) -> None:
        self._compiles = compiles
        self._costs: list[tuple[float, str]] = []

    def findings(self, schema: Body, place: KeywordPlace, position: RulePosition) -> _Findings:
        found = _Findings(list(keyword_errors(schema, place)), [])
        for part, where in parts(schema, place):
            inner = self.findings(part, where, _inside(position, schema, where, place))
            found.schema.extend(inner.schema)
            found.rules.extend(inner.rules)
        raws = schema.get(VALIDATIONS, ())
        for index, raw in enumerate(raws):
            where_ = f"{place.path}.{VALIDATIONS}[{index}]"
            found.schema.extend(_text_errors(raw, schema, where_))
        # A schema that is wrong here or deeper may have no type to compile a rule with.
        if found.schema or not self._compiles or place.is_nested:
            return found
        for index, raw in enumerate(raws):
            where_ = f"{place.path}.{VALIDATIONS}[{index}]"
            found.rules.extend(self._expression_errors(raw, schema, position, place, where_))
        return found

    def total_errors(self, path: str) -> Iterator[FieldError]:
        if sum(cost for cost, _ in self._costs) <= TOTAL_COST_MAX:
            return
        costly = [pair for pair in self._costs if pair[0] >= TOTAL_COST_MAX / 100]
        for _, where in sorted(costly, reverse=True)[:EXPENSIVE_SHOWN]:
            detail = "contributes to an estimated total cost of all rules beyond the limit"
            yield field_errors.forbidden(where, detail)
        yield field_errors.forbidden(path, "estimated total cost of all rules exceeds the limit")

    def _expression_errors(
        self, raw: Body, schema: Body, position: RulePosition, place: KeywordPlace, where: str
    ) -> Iterator[FieldError]:
        """The errors of one rule's expressions."""
        type_ = type_of(schema, root=place.is_root or bool(schema.get(EMBEDDED)))
        if type_ is None:
            yield field_errors.invalid(f"{where}.rule", raw["rule"], "the schema has no type")
            return
        try:
            rule = compile_rule(raw, type_)
        except MessageError as error:
            yield field_errors.invalid(f"{where}.messageExpression", raw["rule"], str(error))
            rule = compile_rule({**raw, "messageExpression": ""}, type_)
        except ExpressionError as error:
            detail = f"compilation failed: {error}"
            yield field_errors.invalid(f"{where}.rule", raw["rule"], detail)
            if raw.get("optionalOldSelf") is not None:
                yield _unused_old(raw, where)
            return
        yield from _old_errors(raw, rule, position, where)
        # Without a bound, as many values are assumed as one request can carry.
        times = position.times if position.times is not None else n_values_max(schema)
        programs = {"rule": rule.program, "messageExpression": rule.message_program}
        for name, program in programs.items():
            cost = program.cost * times if program is not None else 0.0
            self._costs.append((cost, f"{where}.{name}"))
            if cost > RULE_COST_MAX:
                detail = (
                    f"estimated {name} cost exceeds budget by factor of {cost / RULE_COST_MAX:.1f}x"
                    " (try adding maxItems, maxProperties, and maxLength where arrays, maps, and "
                    "strings are declared)"
                )
                yield field_errors.forbidden(f"{where}.{name}", detail)


def _inside(
    position: RulePosition, schema: Body, part: KeywordPlace, around: KeywordPlace
) -> RulePosition:
    """How often the rules of a part run that stands in a schema."""
    keyword = part.path.removeprefix(f"{around.path}.")
    if keyword == "additionalProperties":
        return position._replace(times=_times(position, schema, "maxProperties"))
    if keyword == "items":
        correlated = position.correlated and schema.get(LIST_TYPE) == "map"
        return RulePosition(_times(position, schema, "maxItems"), correlated)
    return position._replace(correlated=position.correlated and schema.get(MAP_TYPE) != "atomic")


def _times(position: RulePosition, schema: Body, keyword: str) -> float | None:
    if position.times is None or keyword not in schema:
        return None
    return position.times * max(float(schema[keyword]), 0)


def _text_errors(raw: Body, schema: Body, where: str) -> Iterator[FieldError]:
    rule, message = raw.get("rule", ""), raw.get("message", "")
    if not rule.strip():
        yield field_errors.required(f"{where}.rule", "rule is not specified")
    elif message and not message.strip():
        yield field_errors.invalid(f"{where}.message", message, "must be non-empty if specified")
    elif _has_lines(message.strip()):
        yield field_errors.invalid(f"{where}.message", message, "must not contain line breaks")
    elif _has_lines(rule.strip()) and not message.strip():
        detail = "message must be specified if rule contains line breaks"
        yield field_errors.required(f"{where}.message", detail)
    if raw.get("messageExpression") and not raw["messageExpression"].strip():
        detail = "messageExpression must be non-empty if specified"
        yield field_errors.required(f"{where}.messageExpression", detail)
    if "reason" in raw and raw["reason"] not in REASONS:
        yield field_errors.not_supported(f"{where}.reason", raw["reason"], REASONS)
    # A path in a schema that cannot be read counts as valid; the schema is refused for itself.
    path = raw.get("fieldPath", "")
    if path and has_structural_form(schema) and not _path_exists(path, schema):
        yield field_errors.invalid(f"{where}.fieldPath", path, "must be a valid path")


def _has_lines(text: str) -> bool:
    return "\n" in text or "\r" in text


def _old_errors(
    raw: Body, rule: CompiledRule, position: RulePosition, where: str
) -> Iterator[FieldError]:
    if rule.uses_old and not position.correlated:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        yield field_errors.invalid(f"{where}.rule", raw["rule"], detail)
    if raw.get("optionalOldSelf") is not None and not rule.uses_old:
        yield _unused_old(raw, where)


def _unused_old(raw: Body, where: str) -> FieldError:
    detail = "may not be set if oldSelf is not used in rule"
    return field_errors.invalid(f"{where}.optionalOldSelf", raw["optionalOldSelf"], detail)


def _path_exists(path: str, schema: Body) -> bool:
    """Whether a path such as `.a.b['c']` leads to a field of the schema."""
    steps = re.findall(r"\.([^.\[\]]+)|\['((?:\\.|[^'\\])*)'\]", path)
    if "".join(f".{name}" if name else f"['{key}']" for name, key in steps) != path:
        return False
    for name, key in steps:
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if properties:
            if (name or key) not in properties:
                return False
            schema = properties[name or key]
        elif isinstance(additional, dict):
            schema = additional
        else:
            return False
    return bool(steps)
