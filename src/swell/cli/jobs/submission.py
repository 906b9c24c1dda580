"""Warns about jobs before they are sent: reads what a warning depends on, and prints.

A cluster that may not be asked, or has no such kind, gives no warnings: they are a service, and a
job is never refused for want of them.
"""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, TypeVar

import typer

from swell.api.core import PRIVATE_PORTS, Node
from swell.api.kinds import NODES, PRIORITY_CLASSES, QUEUES
from swell.api.manifest import Document
from swell.api.meta import Body
from swell.api.resource import ApiObject, Resource
from swell.api.validation.problems import FieldProblem
from swell.api.wording import count_of
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection
from swell.cli.job_kinds import JOB_KINDS
from swell.cli.jobs.warnings import ClusterFacts, SubmitWarning, warnings_about
from swell.cluster.kube import calls
from swell.history.observing import SUBMITTED_BY
from swell.runtime.errors import ForbiddenError, NotFoundError

T = TypeVar("T", bound=ApiObject)
Strict = Annotated[bool, typer.Option("--strict", help="Refuse what is only warned about.")]


def warn(
    documents: Sequence[Document], connection: ClusterConnection, *, is_strict: bool
) -> list[SubmitWarning]:
    """Print the warnings about jobs among some objects and return them; if strict, refuse."""
    found = find_warnings(documents, connection, is_strict=is_strict)
    for text in found.texts:
        sys.stderr.write(f"warning: {text}\n")
    return found.warnings


@dataclass(frozen=True, slots=True)
class FoundWarnings:
    """Warnings about jobs, and their texts with the places that they are about."""

    warnings: list[SubmitWarning]
    texts: list[str]


def find_warnings(
    documents: Sequence[Document], connection: ClusterConnection, *, is_strict: bool
) -> FoundWarnings:
    """Return the warnings about jobs among some objects; CommandError if strict, and any."""
    kinds = {kind.kind for kind in JOB_KINDS}
    jobs = [document for document in documents if document.body.get("kind") in kinds]
    if not jobs:
        return FoundWarnings([], [])
    facts = _facts(connection, documents)
    found = [(job, warning) for job in jobs for warning in warnings_about(job.body, facts)]
    texts = [
        str(job.finding(FieldProblem(warning.steps, warning.message, warning.hint)))
        for job, warning in found
    ]
    if is_strict and found:
        details = [f"warning: {text}" for text in texts]
        message = f"{count_of(len(found), 'warning')}, nothing was done"
        raise CommandError(message, "leave --strict out to go on", details=details)
    return FoundWarnings([warning for _, warning in found], texts)


def with_submitter(job: Body) -> Body:
    """Return a job with the name of this machine's user, unless it says who submits it.

    The name is shown in the history. It proves nothing: rights go by credentials alone.
    """
    meta = job.get("metadata") or {}
    notes = meta.get("annotations") or {}
    try:
        user = getpass.getuser()
    except (KeyError, OSError):
        return job  # a container may run as a user that has no name
    return {**job, "metadata": {**meta, "annotations": {SUBMITTED_BY: user, **notes}}}


def _facts(connection: ClusterConnection, documents: Sequence[Document]) -> ClusterFacts:
    nodes = _listed(connection, NODES)
    return ClusterFacts(
        nodes=nodes,
        queues=_names(connection, QUEUES, documents),
        priority_classes=_names(connection, PRIORITY_CLASSES, documents),
        runs_processes=connection.embedded or any(map(_runs_processes, nodes or ())),
    )


def _runs_processes(node: Node) -> bool:
    """Whether pods on a node are processes of it, which need no image."""
    return node.metadata.annotations.get(PRIVATE_PORTS) == "true"


def _names(
    connection: ClusterConnection, resource: Resource[T], documents: Sequence[Document]
) -> set[str] | None:
    """Returns the names of a kind's objects that there are, or that are sent with a job."""
    found = _listed(connection, resource)
    if found is None:
        return None
    sent = (one.body for one in documents if one.body.get("kind") == resource.kind)
    return {one.metadata.name for one in found} | {
        str(body.get("metadata", {}).get("name", "")) for body in sent
    }


def _listed(connection: ClusterConnection, resource: Resource[T]) -> Sequence[T] | None:
    try:
        return connection.client.send(calls.list_page(resource)).items
    except (ForbiddenError, NotFoundError):
        return None
