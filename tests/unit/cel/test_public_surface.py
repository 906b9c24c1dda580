"""The public surface of the package: declare variables, compile, evaluate, limit, report errors."""

from __future__ import annotations

import math

import pytest

from swell.cel import EvaluationError, ExpressionError, compile_expression
from swell.cel.kubernetes import QUANTITY, parse_quantity, parse_semver
from swell.cel.types import DYN, INT, STRING, list_of, map_of, object_of

DEVICE = object_of(
    {
        "driver": STRING,
        "attributes": map_of(STRING, map_of(STRING, DYN)),
        "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
    }
)
VALUE = {
    "driver": "gpu.example.com",
    "attributes": {"gpu.example.com": {"model": "a", "firmware": parse_semver("1.4.0")}},
    "capacity": {"gpu.example.com": {"memory": parse_quantity("80Gi")}},
}


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ('device.driver == "gpu.example.com"', True),
        ('device.attributes["gpu.example.com"].model in ["b", "c"]', False),
        ('device.capacity["gpu.example.com"].memory.compareTo(quantity("40Gi")) >= 0', True),
        ('device.attributes["gpu.example.com"].firmware.isLessThan(semver("1.5.0"))', True),
        ('device.attributes[?"other"].?model.orValue("none") == "none"', True),
    ],
)
def test_evaluates_with_declared_variables(text: str, result: bool) -> None:
    program = compile_expression(text, {"device": DEVICE})

    assert program.type.kind in {"bool", "dyn"}
    assert program.used == {"device"}
    assert program.evaluate(VALUE) is result


@pytest.mark.parametrize("text", ["device.", "device.vendor", "driver", "1 + 'a'"])
def test_refuses_what_is_no_expression_of_the_variables(text: str) -> None:
    with pytest.raises(ExpressionError):
        compile_expression(text, {"device": DEVICE})


def test_reports_values_it_has_no_result_for() -> None:
    program = compile_expression('device.attributes["x"].y == 1', {"device": DEVICE})

    with pytest.raises(EvaluationError, match="no such key: x"):
        program.evaluate(VALUE)


def test_cost_follows_from_declared_sizes() -> None:
    text = "items.all(x, x > 0)"

    assert compile_expression(text, {"items": list_of(INT, 10)}).cost < 100
    assert compile_expression(text, {"items": list_of(INT)}).cost == math.inf
