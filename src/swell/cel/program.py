"""A whole expression: from text to something that can be evaluated, with its type and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.cel import conversions, kubernetes, lists, macros, operators, strings, syntax
from swell.cel.compiler import MACROS, Compiler, Frame, Run, Variable
from swell.cel.types import CelType

# Importing these modules fills the table of functions.
LIBRARY = (operators, conversions, strings, lists, kubernetes)
# Evaluation stops when it has gone through this many items.
ITERATIONS_MAX = 1_000_000
MACROS.update(macros.MACROS)


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression; call `evaluate` with the values of its variables in their order."""

    type: CelType
    cost: float
    used: frozenset[str]
    run: Run
    n_slots: int

    def evaluate(self, *values: object) -> object:
        frame: Frame = [ITERATIONS_MAX, *values]
        frame += [None] * (self.n_slots - len(frame))
        return self.run(frame)


def compile_expression(text: str, variables: Mapping[str, CelType]) -> Program:
    """Check and compile; ExpressionError when the expression is wrong."""
    scope = {name: Variable(slot, type_) for slot, (name, type_) in enumerate(variables.items(), 1)}
    compiler = Compiler(n_slots=len(scope) + 1)
    compiled = compiler.compile(syntax.parse(text), scope)
    return Program(
        type=compiled.type,
        cost=compiled.cost,
        used=frozenset(compiler.used),
        run=compiled.run,
        n_slots=compiler.n_slots,
    )
