"""Rules for the members of a HyperNode that its schema cannot say."""

from __future__ import annotations

from collections.abc import Iterator

import re2

from swell.api.validation.access import at, items
from swell.api.validation.problems import FieldProblem, show

_WAYS = ("exactMatch", "regexMatch", "labelMatch")
_options = re2.Options()
_options.log_errors = False


def hyper_node_problems(body: object) -> Iterator[FieldProblem]:
    """Yields selectors that select in no way or in several, and patterns that are none."""
    for index, member in items(at(body, "spec", "members")):
        selector = at(member, "selector")
        steps = ("spec", "members", index, "selector")
        given = [way for way in _WAYS if at(selector, way) is not None]
        if selector is not None and len(given) != 1:
            message = f"must have exactly one of {', '.join(_WAYS)}, has {len(given)}"
            yield FieldProblem(steps, message, "write one member for each selector")
        pattern = at(selector, "regexMatch", "pattern")
        if isinstance(pattern, str) and not _compiles(pattern):
            message = f"{show(pattern)} is no regular expression of RE2"
            hint = "RE2 has no look-around and no back-references"
            yield FieldProblem((*steps, "regexMatch", "pattern"), message, hint)


def _compiles(pattern: str) -> bool:
    try:
        re2.compile(pattern, _options)
    except re2.error:
        return False
    return True
