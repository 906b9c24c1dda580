"""A whole expression: its text is compiled into something to evaluate, with its type and cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from swell.cel import conversions, kubernetes, lists, macros, operators, strings, syntax
from swell.cel.charging import CALL_COST_MAX, CostExceededError
from swell.cel.compiler import MACROS, Compiler, Frame, Run, Variable
from swell.cel.types import CelType, EvaluationError

# These modules fill the table of functions when they are imported; the names keep the imports.
LIBRARY = (operators, conversions, strings, lists, kubernetes)
MACROS.update(macros.MACROS)


@dataclass(frozen=True, slots=True)
class Program:
    """A compiled expression. It holds no state: it may be evaluated any number of times.

    `used` names the variables the expression reads, `fields` what it reads of each declared one:
    None stands for all of it. `n_slots` is the size of a frame: the counter of items, the declared
    variables, and those the macros bind.
    """

    type: CelType
    cost: float
    used: frozenset[str]
    fields: Mapping[str, frozenset[str] | None]
    run: Run
    n_slots: int

    def evaluate(self, *values: object) -> object:
        """Return the result for the values of the variables, given in the order of declaration.

        Raises EvaluationError when it cannot be computed for these values, CostExceededError when
        that would need too much work or memory.
        """
        return self.measured(CALL_COST_MAX, *values)[0]

    def measured(self, cost_max: float, *values: object) -> tuple[object, float]:
        """As `evaluate`, with a limit of the caller's; also returns the cost that was spent."""
        frame: Frame = [cost_max, *values]
        frame += [None] * (self.n_slots - len(frame))
        try:
            result = self.run(frame)
        except (OverflowError, TypeError, ValueError) as error:
            # A dynamic value of a type or size that a function of Python does not take.
            raise EvaluationError(f"no such overload: {error}") from error
        except RecursionError as error:
            raise EvaluationError("a value is nested too deeply") from error
        left = frame[0]
        # A side whose error another side made up for may have spent the rest.
        if not isinstance(left, (int, float)) or left < 0:
            raise CostExceededError
        return result, cost_max - left


def compile_expression(
    text: str, variables: Mapping[str, CelType], *, has_bindings: bool = False
) -> Program:
    """Compile an expression whose free variables are the given ones.

    With `has_bindings` it may use `cel.bind`, which Kubernetes has in some places only.
    Raises ExpressionError when it cannot be parsed or its types do not fit together.
    """
    # Slot 0 of a frame counts the items that loops may still go through.
    scope = {name: Variable(slot, type_) for slot, (name, type_) in enumerate(variables.items(), 1)}
    compiler = Compiler(n_slots=len(scope) + 1, has_bindings=has_bindings)
    compiled = compiler.compile(syntax.parse(text), scope)
    return Program(
        type=compiled.type,
        cost=compiled.cost,
        used=frozenset(compiler.used),
        fields={name: compiler.fields_read(variable.slot) for name, variable in scope.items()},
        run=compiled.run,
        n_slots=compiler.n_slots,
    )
