"""Checks of the validation rules in a new definition: they compile, and are not too expensive."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from swell.api.meta import Body
from swell.cel import ExpressionError
from swell.cluster.embedded.customresources.rule_types import n_values_max, type_of
from swell.cluster.embedded.customresources.rules import (
    REASONS,
    compile_rule,
)
from swell.schema import field_errors
from swell.schema.field_errors import FieldError
from swell.schema.pruning import EMBEDDED
from swell.schema.structural import VALIDATIONS
from swell.schema.values import LIST_TYPE

# Kubernetes' limits of the estimated cost of one rule, and of all rules of a schema.
RULE_COST_MAX = 10_000_000
TOTAL_COST_MAX = 100_000_000


# Compiling takes microseconds for each character; the largest definitions in use have a third.
RULES_LENGTH_MAX = 150_000


class RulePosition(NamedTuple):
    """A part of a schema that may have rules: how often they run, and if old values are found.

    `times` is None when a list or map around the part has no bound. `correlated` is false inside
    lists whose items cannot be matched with those of the old object.
    """

    path: str
    times: float | None = 1.0
    correlated: bool = True
    root: bool = False


def rule_errors(schema: Body, path: str) -> list[FieldError]:
    """All errors of the rules in a structural schema."""
    errors: list[FieldError] = []
    total = 0.0
    length = sum(_rule_lengths(schema, path))
    if length > RULES_LENGTH_MAX:
        detail = f"all rules together have {length:,} characters, at most {RULES_LENGTH_MAX:,}"
        return [field_errors.forbidden(path, detail)]
    for part, place in _parts(schema, RulePosition(path, root=True)):
        for index, raw in enumerate(part.get(VALIDATIONS, ())):
            where = f"{place.path}.{VALIDATIONS}[{index}]"
            errors += _text_errors(raw, where)
            if raw.get("rule", "").strip():
                cost = _expression_errors(raw, part, place, where, errors)
                total += cost
    if total > TOTAL_COST_MAX:
        detail = "estimated total cost of all rules exceeds the limit"
        errors.append(field_errors.forbidden(path, detail))
    return errors


def _rule_lengths(schema: Body, path: str) -> Iterator[int]:
    for part, _ in _parts(schema, RulePosition(path)):
        for raw in part.get(VALIDATIONS, ()):
            yield len(raw.get("rule", "")) + len(raw.get("messageExpression", ""))


def _parts(schema: Body, place: RulePosition) -> Iterator[tuple[Body, RulePosition]]:
    """A schema and all schemas inside it, with their positions."""
    yield schema, place
    for name, part in schema.get("properties", {}).items():
        yield from _parts(part, place._replace(path=f"{place.path}.properties[{name}]", root=False))
    additional, items = schema.get("additionalProperties"), schema.get("items")
    if isinstance(additional, dict):
        where, times = f"{place.path}.additionalProperties", _times(place, schema, "maxProperties")
        yield from _parts(additional, RulePosition(where, times, place.correlated))
    if isinstance(items, dict):
        correlated = place.correlated and schema.get(LIST_TYPE) == "map"
        times = _times(place, schema, "maxItems")
        yield from _parts(items, RulePosition(f"{place.path}.items", times, correlated))


def _times(place: RulePosition, schema: Body, keyword: str) -> float | None:
    if place.times is None or keyword not in schema:
        return None
    return place.times * float(schema[keyword])


def _text_errors(raw: Body, where: str) -> Iterator[FieldError]:
    rule, message = raw.get("rule", ""), raw.get("message", "")
    if not rule.strip():
        yield field_errors.required(f"{where}.rule", "rule is not specified")
    if message and not message.strip():
        yield field_errors.invalid(f"{where}.message", message, "must be non-empty if specified")
    elif "\n" in message.strip():
        yield field_errors.invalid(f"{where}.message", message, "must not contain line breaks")
    elif "\n" in rule.strip() and not message and not raw.get("messageExpression"):
        detail = "message must be specified if rule contains line breaks"
        yield field_errors.required(f"{where}.message", detail)
    if raw.get("messageExpression") and not raw["messageExpression"].strip():
        detail = "messageExpression must be non-empty if specified"
        yield field_errors.required(f"{where}.messageExpression", detail)
    if "reason" in raw and raw["reason"] not in REASONS:
        yield field_errors.not_supported(f"{where}.reason", raw["reason"], REASONS)


def _unused_old(raw: Body, where: str) -> FieldError:
    detail = "may not be set if oldSelf is not used in rule"
    return field_errors.invalid(f"{where}.optionalOldSelf", raw["optionalOldSelf"], detail)


def _expression_errors(
    raw: Body, schema: Body, place: RulePosition, where: str, errors: list[FieldError]
) -> float:
    """Add the errors of one rule's expressions; returns the estimated cost of all its runs."""
    if raw.get("fieldPath") and not _path_exists(raw["fieldPath"], schema):
        errors.append(
            field_errors.invalid(f"{where}.fieldPath", raw["fieldPath"], "must be a valid path")
        )
        return 0.0  # a real server compiles no rule of a schema that is wrong itself
    type_ = type_of(schema, root=place.root or bool(schema.get(EMBEDDED)))
    if type_ is None:
        errors.append(field_errors.invalid(f"{where}.rule", raw["rule"], "the schema has no type"))
        return 0.0
    try:
        rule = compile_rule(raw, type_)
    except ExpressionError as error:
        detail = f"compilation failed: {error}"
        errors.append(field_errors.invalid(f"{where}.rule", raw["rule"], detail))
        if raw.get("optionalOldSelf") is not None:
            errors.append(_unused_old(raw, where))
        return 0.0
    if rule.uses_old and not place.correlated:
        detail = "oldSelf cannot be used on the uncorrelatable portion of the schema"
        errors.append(field_errors.invalid(f"{where}.rule", raw["rule"], detail))
    if rule.optional_old and not rule.uses_old:
        errors.append(_unused_old(raw, where))
    # Without a bound, as many values are assumed as one request can carry.
    cost = rule.program.cost * (place.times if place.times is not None else n_values_max(schema))
    if cost > RULE_COST_MAX:
        detail = (
            f"estimated rule cost exceeds budget by factor of {cost / RULE_COST_MAX:.1f}x (try "
            "adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are "
            "declared)"
        )
        errors.append(field_errors.forbidden(f"{where}.rule", detail))
    return cost


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
