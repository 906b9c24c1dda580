"""The jobs of a sweep: one job of a command, with the values of each row put in. Pure."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from copy import deepcopy

from swell.api.aitrainingjob import API_GROUP
from swell.api.meta import Body
from swell.cli.command_line import USAGE, CommandError
from swell.cli.sweeps.rows import INDEX, SweepRow

SWEEP_LABEL = f"{API_GROUP}/sweep"
INDEX_LABEL = f"{API_GROUP}/sweep-index"
# The row as a JSON object: values are texts that no label could hold.
ROW_ANNOTATION = f"{API_GROUP}/sweep-row"
# The number of jobs of the sweep that may run at a time; without it all may.
PARALLEL_ANNOTATION = f"{API_GROUP}/sweep-parallel"
NAME_VARIABLE, INDEX_VARIABLE = "SWELL_SWEEP", "SWELL_SWEEP_INDEX"
ROW_VARIABLE = "SWELL_SWEEP_ROW"
# `${NAME}` is the shell's, and `{{name}}` stands for `{name}`.
_PLACE = re.compile(r"(?<!\$)(\{\{|\{)([A-Za-z_][A-Za-z0-9_.-]*)(\}\}|\})")


def job_name(sweep: str, index: int) -> str:
    return f"{sweep}-{index}"


def job_of_row(template: Body, sweep: str, row: SweepRow) -> Body:
    """Return the job of a row: a job of one container whose command has `{name}` for values."""
    body = deepcopy(template)
    name, values = job_name(sweep, row.index), {INDEX: str(row.index), **row.values}
    meta = body["metadata"]
    shown = json.dumps(dict(row.values))
    body["metadata"] = {
        **meta,
        "name": name,
        "labels": {**meta.get("labels", {}), **sweep_labels(sweep), INDEX_LABEL: str(row.index)},
        "annotations": {**meta.get("annotations", {}), ROW_ANNOTATION: shown},
    }
    (role,) = body["spec"]["replicaSpecs"].values()
    pod = role["template"]["spec"]
    for volume in pod.get("volumes", ()):
        # The list of members belongs to the job.
        if volume.get("configMap", {}).get("name") == f"{meta['name']}-members":
            volume["configMap"] = {"name": f"{name}-members"}
    container = pod["containers"][0]
    container["command"] = [filled(word, values) for word in container["command"]]
    own = {NAME_VARIABLE: sweep, INDEX_VARIABLE: str(row.index), ROW_VARIABLE: shown}
    container["env"] = [
        *({"name": key, "value": value} for key, value in own.items()),
        *({**one, "value": filled(one["value"], values)} for one in container.get("env", ())),
    ]
    return body


def held_back(bodies: Sequence[Body], n_parallel: int) -> list[Body]:
    """Return the jobs of a sweep of which only so many run at a time; the others are suspended.

    Whoever follows the sweep resumes them, one for each that ends.
    """
    found = []
    for place, body in enumerate(bodies):
        meta = body["metadata"]
        notes = {**meta["annotations"], PARALLEL_ANNOTATION: str(n_parallel)}
        spec = {**body["spec"], "suspend": True} if place >= n_parallel else body["spec"]
        found.append({**body, "metadata": {**meta, "annotations": notes}, "spec": spec})
    return found


def parallel_of(body: Body) -> int | None:
    """Return how many jobs of the sweep may run at a time; None if all may."""
    text = (body["metadata"].get("annotations") or {}).get(PARALLEL_ANNOTATION, "")
    return int(text) if text.isdecimal() else None


def sweep_labels(sweep: str) -> dict[str, str]:
    return {SWEEP_LABEL: sweep}


def row_of(body: Body) -> dict[str, str]:
    """Return the parameters of a sweep's job; none if somebody has spoilt them."""
    text = (body["metadata"].get("annotations") or {}).get(ROW_ANNOTATION, "{}")
    try:
        found = json.loads(text)
    except ValueError:
        return {}
    return {str(k): str(v) for k, v in found.items()} if isinstance(found, dict) else {}


def index_of(body: Body) -> int:
    """Return the index of a sweep's job; -1 if somebody has spoilt it."""
    text = (body["metadata"].get("labels") or {}).get(INDEX_LABEL, "")
    return int(text) if text.isdecimal() else -1


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values in the places of `{name}`; CommandError for an unknown name."""

    def value(place: re.Match[str]) -> str:
        opening, name, closing = place.groups()
        if len(opening) == len(closing) == 2:
            return "{" + name + "}"
        if name not in values:
            near = difflib.get_close_matches(name, values, 1)
            hint = f"did you mean {{{near[0]}}}?" if near else f"write {{{{{name}}}}} for the text"
            raise CommandError(f"no parameter of the sweep is named {name}", hint, USAGE)
        return f"{opening[1:]}{values[name]}{closing[1:]}"

    return _PLACE.sub(value, text)


def unused_parameters(texts: Iterable[str], rows: Sequence[SweepRow]) -> list[str]:
    """Return the parameters that no text has a place for, in their order."""
    used = {place[1] for text in texts for place in _PLACE.findall(text)}
    names = dict.fromkeys(name for row in rows for name in row.values)
    return [name for name in names if name not in used and name != INDEX]
