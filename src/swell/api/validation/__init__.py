"""The one place that judges manifests: every problem at once, with its path and a hint.

Works on plain JSON before it becomes structs, and takes any: what is wrong is told, never raised,
except by `check`, which raises ValidationError.
"""

from swell.api.validation.kinds import check, validate
from swell.api.validation.problems import FieldProblem, Steps, ValidationError, path_text
from swell.api.validation.transitions import change_problems

__all__ = [
    "FieldProblem",
    "Steps",
    "ValidationError",
    "change_problems",
    "check",
    "path_text",
    "validate",
]
