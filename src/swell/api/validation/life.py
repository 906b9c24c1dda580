"""Rules about when jobs of both kinds begin."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.schemas.training import NOT_AFTER_ITSELF
from swell.api.validation.access import at
from swell.api.validation.problems import FieldProblem, show


def after_problems(body: object) -> Iterator[FieldProblem]:
    """Yields a problem if a job is to come after itself."""
    own, after = at(body, "metadata", "name"), at(body, "spec", "after")
    if isinstance(after, list) and own in after:
        yield FieldProblem(("spec", "after"), NOT_AFTER_ITSELF.message, f"remove {show(own)}")
