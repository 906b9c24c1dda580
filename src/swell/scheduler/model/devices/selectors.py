"""The expressions by which classes and requests select devices.

An expression is compiled once, and evaluated once for each content that a device can have: devices
that differ only in name, taints or use share the answer.
"""

from __future__ import annotations

from typing import ClassVar, Final, cast
from weakref import WeakValueDictionary

from swell.api import codec
from swell.api.devices import Device, DeviceAttribute
from swell.cel import EvaluationError, ExpressionError, Program, compile_expression
from swell.cel.kubernetes import QUANTITY, parse_quantity, parse_semver
from swell.cel.types import BOOL, DYN, STRING, OpenMap, map_of, object_of

# As Kubernetes limits expressions: their length, and the cost of one evaluation.
LENGTH_MAX: Final = 10 * 1024
COST_MAX: Final = 1_000_000
# Compiled expressions that are remembered; it only bounds memory.
_KEPT: Final = 4096
_VARIABLES: Final = {
    "device": object_of(
        {
            "driver": STRING,
            "attributes": map_of(STRING, map_of(STRING, DYN)),
            "capacity": map_of(STRING, map_of(STRING, QUANTITY)),
            "allowMultipleAllocations": BOOL,
        }
    )
}


class DeviceSelectorError(Exception):
    """An expression has no result for a device, or is no expression at all."""


class DeviceContent:
    """All of a device that expressions see, and what they have said of it."""

    __slots__ = ("__weakref__", "_value", "answers", "driver", "spec")
    _known: ClassVar[WeakValueDictionary[bytes, DeviceContent]] = WeakValueDictionary()

    def __init__(self, driver: str, spec: Device) -> None:
        self.driver = driver
        self.spec = spec
        self.answers: dict[str, bool | str] = {}
        self._value: dict[str, object] | None = None

    @classmethod
    def of(cls, driver: str, spec: Device) -> DeviceContent:
        """Returns the same object for equal content, for as long as a device has it."""
        key = codec.encode_stable(
            (driver, spec.attributes, spec.capacity, spec.allow_multiple_allocations)
        )
        found = cls._known.get(key)
        if found is None:
            found = cls._known[key] = DeviceContent(driver, spec)
        return found

    def value(self) -> dict[str, object]:
        """Returns the value of the variable `device`; EvaluationError for a wrong attribute."""
        if self._value is None:
            self._value = self._made()
        return self._value

    def _made(self) -> dict[str, object]:
        attributes, capacity = OpenMap(), OpenMap()
        for name, attribute in self.spec.attributes.items():
            domain, key = _qualified(name, self.driver)
            entries = cast("dict[str, object]", attributes.setdefault(domain, {}))
            entries[key] = _value_of(attribute)
        for name, amount in self.spec.capacity.items():
            domain, key = _qualified(name, self.driver)
            entries = cast("dict[str, object]", capacity.setdefault(domain, {}))
            entries[key] = parse_quantity(str(amount.value))
        return {
            "driver": self.driver,
            "attributes": attributes,
            "capacity": capacity,
            "allowMultipleAllocations": bool(self.spec.allow_multiple_allocations),
        }


def _qualified(name: str, driver: str) -> tuple[str, str]:
    domain, slash, key = name.partition("/")
    return (domain, key) if slash else (driver, name)


def _value_of(attribute: DeviceAttribute) -> object:
    if attribute.version is not None:
        return parse_semver(attribute.version)
    for value in (attribute.number, attribute.flag, attribute.text):
        if value is not None:
            return value
    raise EvaluationError("unsupported attribute value")


class Selectors:
    """Compiles expressions and remembers them."""

    def __init__(self) -> None:
        self._programs: dict[str, Program | str] = {}

    def problem(self, expression: str) -> str:
        """Returns why a text is no expression about devices; empty if it is one."""
        found = self._compiled(expression)
        return found if isinstance(found, str) else ""

    def admits(self, expression: str, content: DeviceContent) -> bool:
        """Whether an expression is true for a device; DeviceSelectorError if it has no result."""
        answer = content.answers.get(expression)
        if answer is None:
            answer = content.answers[expression] = self._evaluated(expression, content)
        if isinstance(answer, str):
            raise DeviceSelectorError(answer)
        return answer

    def _evaluated(self, expression: str, content: DeviceContent) -> bool | str:
        program = self._compiled(expression)
        if isinstance(program, str):
            return program
        try:
            result, _ = program.measured(COST_MAX, content.value())
        except EvaluationError as error:
            return str(error)
        return result if isinstance(result, bool) else "its result is no bool"

    def _compiled(self, expression: str) -> Program | str:
        found = self._programs.get(expression)
        if found is None:
            if len(self._programs) >= _KEPT:
                self._programs.clear()
            found = self._programs[expression] = _compile(expression)
        return found


def _compile(expression: str) -> Program | str:
    if len(expression.encode()) > LENGTH_MAX:
        return f"it is longer than {LENGTH_MAX} bytes"
    try:
        program = compile_expression(expression, _VARIABLES, has_bindings=True)
    except ExpressionError as error:
        return str(error)
    if program.type.kind not in {"bool", "dyn"}:
        return f"its result is of type {program.type}, not bool"
    return program
