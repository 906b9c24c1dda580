"""Reads the parts of a pod template that the job's wiring depends on, whatever its shape.

A template is free JSON: validation has spoken about it, but nothing here may fail on it.
"""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.operator.aitrainingjob.labels import OURS


def our_ports(template: Body) -> list[int]:
    """The ports by which pods of a role are reached: named like ours, in containers like ours."""
    return [
        number
        for container in containers(template)
        if str(container.get("name", "")).startswith(OURS)
        for _, number in named_ports(container)
    ]


def named_ports(container: Body) -> Iterator[tuple[str, int]]:
    """Name and number of a container's ports that are named like ours."""
    for port in objects(container.get("ports")):
        name, number = port.get("name"), port.get("containerPort")
        if isinstance(name, str) and name.startswith(OURS) and isinstance(number, int):
            yield name, number


def containers(template: Body) -> list[Body]:
    return list(objects(spec_of(template).get("containers")))


def spec_of(template: Body) -> Body:
    spec = template.get("spec")
    return spec if isinstance(spec, dict) else {}


def objects(value: object) -> Iterator[Body]:
    """The objects in a list, if it is one."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))
