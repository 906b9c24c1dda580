"""The Common Expression Language (CEL), with the functions Kubernetes adds to it.

The package knows objects as plain Python values and nothing of clusters. To use it, declare the
variables of an expression with their types, compile it once, then evaluate it as often as needed.

    program = compile_expression("self.cpu > 4 && self.tier in ['a', 'b']", {
        "self": object_of({"cpu": INT, "tier": STRING}),
    })
    program.evaluate({"cpu": 8, "tier": "a"})  # True

- Types are made with the constants and functions of `swell.cel.types` (and `QUANTITY` and `SEMVER`
  of `swell.cel.kubernetes`, with `parse_quantity` and `parse_semver` for their values).
- `compile_expression` raises `ExpressionError` when the text is no expression, names something
  that is not declared, or mixes types. A variable of type `DYN` is checked at evaluation instead.
- `Program.type` is the type of the result, `Program.cost` an estimate of the work in Kubernetes'
  cost units, computed from the declared sizes (`CelType.sized`, `list_of`, `map_of`). The caller
  compares it with its own limit. Without declared sizes it is infinite for any loop.
- `Program.evaluate` takes the values in the order of the declared variables. It raises
  `EvaluationError` when they do not fit the expression (a missing key, an overflow, a wrong
  dynamic type), and `CostExceededError` when it would cost more than `CALL_COST_MAX`.
- Values are `bool`, `int`, `float`, `str`, `bytes`, `list`, `dict`, `None`, `datetime`,
  `timedelta`, and `UInt`, `Optional`, `QuantityValue` and `Semver` of this package.

Files, in the order in which an expression goes through them:

- `syntax`: the grammar; reads a text into a tree.
- `types`: the types of expressions, and the values that Python has no type for.
- `functions`: the table of functions with their overloads and cost rules.
- `charging`: the cost of an evaluation while it runs.
- `operators`: access, equality, arithmetic, comparison and the standard text functions.
- `conversions`: conversions between types; parts of times and durations.
- `strings`: functions on strings, regular expressions and `format`.
- `lists`: functions on lists, sets and optional values.
- `kubernetes`: Kubernetes' functions: quantities, URLs, IP addresses, versions, named formats.
- `resolution`: what follows from types: fields, common types, matching overloads, field names.
- `compiler`: turns a tree into closures, with their types and costs.
- `macros`: the macros, such as `list.all(x, p)`.
- `program`: a whole expression, compiled and ready to be evaluated.
"""

from __future__ import annotations

from swell.cel.charging import CALL_COST_MAX, CostExceededError
from swell.cel.program import Program, compile_expression
from swell.cel.syntax import ExpressionError
from swell.cel.types import EvaluationError

__all__ = [
    "CALL_COST_MAX",
    "CostExceededError",
    "EvaluationError",
    "ExpressionError",
    "Program",
    "compile_expression",
]
