"""What release 0.1 makes of an object that this one stored, and what this one does about it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from swell.api.meta import Body
from swell.runtime.plan import EmitEvent, PatchStatus, Plan
from swell.schema.pruning import Pruning, compile_pruner
from swell.schema.values import MISSING, compile_values

SCHEMAS = Path(__file__).parents[2] / "data" / "earlier-release"


def seen_by_earlier_release(name: str, body: Body) -> tuple[Body, set[str], list[object]]:
    """The object with its definitions, the fields that these drop, and errors of its decoder."""
    schema = json.loads((SCHEMAS / f"{name}.json").read_text())
    prune = compile_pruner(schema, metadata=lambda value, *_: value, root=True, fill=False)
    assert prune is not None
    found = Pruning()
    errors: list[Any] = []
    kept: Any = prune(body, None, found)
    compile_values(schema)(kept, MISSING, None, errors)
    return kept, set(found.unknown), errors


def writes_besides_status(plan: Plan) -> list[object]:
    return [one for one in plan.each_action() if not isinstance(one, PatchStatus | EmitEvent)]
