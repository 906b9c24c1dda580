"""The sizes of a role that a manifest leaves out.

A size that is missing is taken from the next field of its row that is given, else it is 1:

    AITrainingJob   replicas        minReplicas
                    minReplicas     replicas
                    maxReplicas     replicas, minReplicas
    TrainingJob     min-instance
                    max-instance    min-instance

The structs, the validation of manifests and the CEL rules of the CRDs all go by these rows.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# The size of a role that names none: without any number a user means a single pod.
_SIZE = 1


class SizeDefault:
    """One size field, followed by those that stand in for it, the most preferred first."""

    def __init__(self, *fields: str) -> None:
        self._fields = fields
        self._attributes = tuple(map(_attribute_of, fields))

    def of_struct(self, role: object) -> int:
        """Returns the size of a decoded role."""
        for name in self._attributes:
            size: int | None = getattr(role, name)
            if size is not None:
                return size
        return _SIZE

    def of_manifest(self, size_of: Callable[[str], int | None]) -> int:
        """Returns the size of a role that is plain JSON, whose fields `size_of` reads."""
        return next((size for size in map(size_of, self._fields) if size is not None), _SIZE)

    def in_cel(self, role: str) -> str:
        """Returns the same choice as CEL, where the expression `role` stands for the role."""
        # CEL writes a dash within a field's name like this.
        paths = [f"{role}.{name.replace('-', '__dash__')}" for name in self._fields]
        return f"({''.join(f'has({path}) ? {path} : ' for path in paths)}{_SIZE})"


def _attribute_of(name: str) -> str:
    return re.sub("[A-Z]", lambda capital: f"_{capital[0].lower()}", name).replace("-", "_")


REPLICAS = SizeDefault("replicas", "minReplicas")
MIN_REPLICAS = SizeDefault("minReplicas", "replicas")
MAX_REPLICAS = SizeDefault("maxReplicas", "replicas", "minReplicas")

MIN_INSTANCE = SizeDefault("min-instance")
MAX_INSTANCE = SizeDefault("max-instance", "min-instance")
