"""Jobs that must have succeeded before another one of their kind begins (`spec.after`). Pure.

Each is recorded in the status as it is seen: waiting, how it ended, or gone. So a job that
succeeded and was deleted since has succeeded, and one that was never there is told from one that is
gone. Once the job that comes after them has begun they do not matter any more.

The same is in an annotation of the job, written first: a status may be lost, and one that succeeded
may have been deleted by then, so that nothing else tells of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from swell.api import codec
from swell.api.meta import ApiStruct, Body, ObjectMeta, Uid
from swell.api.resource import Resource
from swell.runtime.plan import PatchObject, patch_object

# States of a dependency beside the final phases, of which this one lets others begin.
WAITING, GONE = "Waiting", "Gone"
SUCCEEDED = "Succeed"
_GOOD = frozenset({WAITING, SUCCEEDED})
# The condition of a job of which a dependency did not succeed.
DEPENDENCY_FAILED: Final = "DependencyFailed"


class DependenciesMark(ApiStruct, frozen=True):
    """A record of what is known of the jobs before one.

    It names that one's UID, because manifests are copied with their annotations.
    """

    uid: Uid = Uid("")
    states: dict[str, str] = msgspec.field(default_factory=dict)


def state_of(phase: str, *, is_final: bool) -> str:
    """The state of a dependency that exists."""
    return phase if is_final else WAITING


def marked(meta: ObjectMeta, annotation: str) -> dict[str, str]:
    """The states in a job's annotation; none without one, or with one that cannot be read."""
    text = meta.annotations.get(annotation)
    if text is None:
        return {}
    try:
        mark = codec.decode(text.encode(), DependenciesMark)
    except msgspec.DecodeError:
        return {}
    return mark.states if mark.uid == meta.uid else {}


def mark_dependencies(
    resource: Resource[object], meta: ObjectMeta, annotation: str, known: Mapping[str, str]
) -> PatchObject:
    """Write the states to the job's annotation."""
    text = codec.encode(DependenciesMark(meta.uid, dict(known))).decode()
    body: Body = {"metadata": {"annotations": {annotation: text}}}
    return patch_object(resource, meta.key, meta.uid, body)


def noted(
    held: Mapping[str, str], after: Iterable[str], states: Mapping[str, str]
) -> dict[str, str]:
    """The state of each dependency by what was known and what is seen; `states` has who exists."""
    known: dict[str, str] = {}
    for name in after:
        if name in states:
            known[name] = states[name]
        elif name in held:
            known[name] = held[name] if held[name] == SUCCEEDED else GONE
    return known


def failed(known: Mapping[str, str]) -> str:
    """The dependencies that did not succeed, with how they ended; empty when there is none."""
    bad = {name: state for name, state in known.items() if state not in _GOOD}
    return ", ".join(f"{name} is {state}" for name, state in bad.items())


def awaited(known: Mapping[str, str], after: Iterable[str]) -> str:
    """The jobs that are waited for; empty when all have succeeded."""
    waiting = [name for name in after if known.get(name) != SUCCEEDED]
    absent = [name for name in waiting if name not in known]
    text = f"waits for {', '.join(waiting)}" if waiting else ""
    return f"{text}; there is no {', '.join(absent)} yet" if absent else text
