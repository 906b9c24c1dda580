"""Checks manifests: every problem at once, with its path and a hint.

It works on plain JSON of any shape, before that becomes structs. Problems are returned and not
raised, except by `check`. In reading order:

- `kinds`: finds the rules for a manifest by its kind, and applies them.
- `structure`: compares a value with its schema.
- `published`: schemas of Kubernetes' own kinds, from what servers publish.
- `aitrainingjob`: rules between the fields of an AITrainingJob.
- `trainingjob`: rules between the fields of a TrainingJob.
- `life`: rules about when jobs of both kinds begin.
- `scheduling`: rules between the fields of a PodGroup or a Queue.
- `topology`: rules for the members of a HyperNode.
- `amounts`: amounts of resources, and requests above their limits.
- `transitions`: changes that a job under way does not allow.
- `hints`: suggestions for misspelt and misplaced fields.
- `problems`: the values that validation returns.
- `access`: reads JSON of unknown shape.
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
