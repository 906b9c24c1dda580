"""Amounts of resources that cannot be read, and requests above their limits."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.quantity import QuantityError, parse
from swell.api.validation.access import at, fields, items
from swell.api.validation.problems import FieldProblem, Steps, show

_CONTAINERS_MAX = 64  # of one list; the schema refuses longer ones


def quantity_problems(value: object, steps: Steps) -> Iterator[FieldProblem]:
    """Yields what is wrong with an amount of a resource."""
    hint = "write a number with an optional suffix, such as 500m, 2 or 1.5Gi"
    try:
        quantity = parse(value)
    except QuantityError as error:
        yield FieldProblem(steps, f"{show(value)} is no amount: {error.problem}", hint)
    except TypeError:  # a list or an object: the cache of parsed amounts cannot hash it
        yield FieldProblem(steps, f"must be an amount, is {show(value)}", hint)
    else:
        if quantity.nano < 0:
            yield FieldProblem(steps, f"must not be negative, is {show(value)}", "write 0 or more")


def template_problems(template: object, steps: Steps) -> Iterator[FieldProblem]:
    """Yields bad amounts in the containers of a template, and requests above their limits."""
    for kind in ("containers", "initContainers"):
        for index, container in items(at(template, "spec", kind)):
            if index >= _CONTAINERS_MAX:
                break
            where = (*steps, "spec", kind, index, "resources")
            for name in ("requests", "limits"):
                for resource, amount in fields(at(container, "resources", name)):
                    yield from quantity_problems(amount, (*where, name, resource))
            yield from requests_problems(at(container, "resources"), where)


def requests_problems(resources: object, steps: Steps) -> Iterator[FieldProblem]:
    """Yields requests that are greater than the limits beside them."""
    limits = dict(fields(at(resources, "limits")))
    for resource, amount in fields(at(resources, "requests")):
        if resource in limits and is_above(amount, limits[resource]):
            message = f"must not be greater than the limit {show(limits[resource])}"
            hint = "lower the request or raise the limit"
            yield FieldProblem((*steps, "requests", resource), message, hint)


def is_above(amount: object, bound: object) -> bool:
    """Whether one amount exceeds another; False if either is no amount."""
    try:
        return parse(amount) > parse(bound)
    except (QuantityError, TypeError):
        return False
