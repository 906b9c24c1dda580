"""The long form of an object for people: its metadata, its fields, and its events."""

from __future__ import annotations

from swell.api.meta import Body
from swell.cli.job_kinds import JOB_KINDS
from swell.cli.objects.describe_job import job_standing
from swell.cli.objects.events import events_text
from swell.cli.output import indented, to_yaml
from swell.cluster.kube.oneshot import OneShot

# Not shown: it repeats the object.
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_HEADING_WIDTH = 14


def describe_object(body: Body, client: OneShot) -> str:
    """Return the metadata of an object, its other fields as YAML, and its events."""
    is_job = body["kind"] in {kind.kind for kind in JOB_KINDS}
    # Of a job, the reason of its state comes first; its status is reported and not dumped.
    parts = [job_standing(body, client)] if is_job else []
    parts.append(_head(body))
    reported = {"apiVersion", "kind", "metadata", *({"status"} if is_job else ())}
    parts += [
        f"{name.capitalize()}:\n{indented(to_yaml(value))}"
        for name, value in body.items()
        if name not in reported and value
    ]
    parts.append(events_text(body, client))
    return "\n".join(parts)


def _head(body: Body) -> str:
    meta = body["metadata"]
    annotations = dict(meta.get("annotations") or {})
    annotations.pop(_LAST_APPLIED, None)
    lines = [
        _line("Name", meta["name"]),
        _line("Namespace", meta.get("namespace", "")),
        _line("Kind", f"{body['kind']} ({body['apiVersion']})"),
        _line("Created", meta.get("creationTimestamp", "")),
        _line("Deleted", meta.get("deletionTimestamp", "")),
        _line("Owner", ", ".join(_owners(meta))),
        _line("Finalizers", ", ".join(meta.get("finalizers") or [])),
        *_pairs("Labels", meta.get("labels") or {}),
        *_pairs("Annotations", annotations),
    ]
    return "\n".join(line for line in lines if line)


def _owners(meta: Body) -> list[str]:
    return [f"{owner['kind']}/{owner['name']}" for owner in meta.get("ownerReferences") or []]


def _line(heading: str, value: str) -> str:
    # Further lines of a heading have none of their own.
    label = f"{heading}:" if heading else ""
    return f"{label:<{_HEADING_WIDTH}}{value}" if value else ""


def _pairs(heading: str, values: dict[str, str]) -> list[str]:
    shown = [f"{name}={value}" for name, value in sorted(values.items())]
    return [_line(heading if at == 0 else "", text) for at, text in enumerate(shown)]
