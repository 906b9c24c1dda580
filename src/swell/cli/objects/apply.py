"""The commands `swell apply` and `replace`: make the cluster's objects what manifests say.

`apply` sends a three-way patch (`three_way`), or with --server-side the manifest itself; `replace`
deletes and creates.
"""

from __future__ import annotations

import dataclasses
import itertools
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Annotated

import typer

from swell.api.kinds import AI_TRAINING_JOBS, TRAINING_JOBS
from swell.api.manifest import Document, Finding
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.api.validation import FieldProblem, change_problems
from swell.cli import options
from swell.cli.arguments import resource_of
from swell.cli.bulk import send_each
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.jobs.submission import Strict, warn
from swell.cli.manifests import IgnoreUnknown, in_folders, read_valid, refuse_problems
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.objects.outcome import WritingOptions, WrittenReport
from swell.cli.objects.three_way import merged, patch_to, with_last_applied
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import kind_and_name
from swell.cli.progress import ProgressLine
from swell.cluster.kube import calls
from swell.runtime.cluster import PLAIN, Patch, PatchKind, WriteOptions, merge_patch
from swell.runtime.errors import AlreadyExistsError, ClusterError, ConflictError, NotFoundError

# The kind whose fields freeze once an object of it is under way.
_FROZEN_KIND = AI_TRAINING_JOBS.kind
_JOBS = frozenset({AI_TRAINING_JOBS.kind, TRAINING_JOBS.kind})
# The owner of fields that this program applies on the server's side.
FIELD_MANAGER = "swell"


@dataclass(frozen=True, slots=True)
class ManifestObject:
    """One object of a manifest, with the resource and key it is written to."""

    resource: Resource[Body]
    key: Key
    body: Body
    document: Document | None = None  # where it was read, to name lines of it


@dataclass(frozen=True, slots=True)
class ServerSideOptions:
    """The flags of server-side apply: the server merges, by the owners of fields."""

    server_side: Annotated[
        bool, typer.Option("--server-side", help="Let the server merge, by owners of fields.")
    ] = False
    force_conflicts: Annotated[
        bool,
        typer.Option("--force-conflicts", help="Take fields over from others; server-side only."),
    ] = False
    field_manager: Annotated[
        str, typer.Option("--field-manager", metavar="NAME", help="Whom the fields belong to.")
    ] = FIELD_MANAGER


@option_groups
def apply(
    *,
    files: options.FilesAndFolders,
    recursive: options.Recursive = False,
    strict: Strict = False,
    merging: ServerSideOptions,
    ignore_unknown: IgnoreUnknown = False,
    outcome: WritingOptions,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Create or update objects. If anything is invalid, nothing is sent."""
    telling = WrittenReport(outcome)
    if merging != ServerSideOptions() and not merging.server_side:
        hint = "add --server-side"
        raise CommandError("only a server-side apply has owners of fields", hint, USAGE)
    documents = _documents(in_folders(files, recursive=recursive))
    with connected(cluster, writes=True) as connection:
        # All of them are resolved before the first is sent: an unknown kind changes nothing.
        resolved = _resolved(documents, connection, namespace, ignores_unknown=ignore_unknown)
        warn(documents, connection, is_strict=strict)
        changes = list(zip(resolved, changes_of(resolved, connection), strict=True))
        refuse_problems([finding for one, change in changes for finding in change.findings(one)])
        if merging.server_side:
            if not telling.is_sent:
                hint = "let the server merge, and write nothing: --dry-run=server"
                raise CommandError("only the server can apply on the server's side", hint, USAGE)
            for one in resolved:
                found = _apply_server_side(one, merging, connection, telling)
                telling.tell(found, "serverside-applied")
        elif not telling.is_sent:
            for one, change in changes:
                telling.tell(*change.outcome(one))
        else:
            for some in _in_turn(changes):
                for one, body, done in _sent(some, connection, telling):
                    telling.tell({**one.body, **body}, done)
        telling.end()


@option_groups
def replace(
    *,
    files: options.Files,
    strict: Strict = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Delete the objects of manifests, wait until they are gone, and create them anew."""
    documents = _documents(files)
    with connected(cluster, writes=True) as connection:
        resolved = _resolved(documents, connection, namespace, ignores_unknown=False)
        warn(documents, connection, is_strict=strict)
        for one in resolved:
            with suppress(NotFoundError):
                live = connection.client.send(calls.get(one.resource, one.key))
                delete_one(one.resource, live, connection)
                wait_until_gone(one.resource, live, connection)
            connection.client.send(calls.create(one.resource, with_last_applied(one.body)))
            sys.stdout.write(f"{kind_and_name(one.body)} replaced\n")


def _apply_server_side(
    one: ManifestObject,
    merging: ServerSideOptions,
    connection: ClusterConnection,
    telling: WrittenReport,
) -> Body:
    wanted = dataclasses.replace(
        telling.options, field_manager=merging.field_manager, force=merging.force_conflicts
    )
    patch = Patch(PatchKind.APPLY, one.body)
    try:
        return connection.client.send(calls.patch(one.resource, one.key, patch, wanted))
    except ConflictError as error:
        hint = "leave the fields to their owners, or take them over: --force-conflicts"
        raise CommandError(f"{kind_and_name(one.body)}: {error.status.message}", hint) from error


def _documents(files: list[str]) -> list[Document]:
    return [document for reading in read_valid(files) for document in reading.documents]


def _resolved(
    documents: list[Document],
    connection: ClusterConnection,
    namespace: str,
    *,
    ignores_unknown: bool,
) -> list[ManifestObject]:
    found = []
    for document in documents:
        try:
            one = resolve_document(document, connection, namespace)
        except UnknownKindError as error:
            if not ignores_unknown:
                raise
            sys.stderr.write(f"warning: {document.file}: passed over: {error}\n")
        else:
            found.append(one)
    return found


def resolve_document(
    document: Document, connection: ClusterConnection, namespace: str
) -> ManifestObject:
    """Find the resource of a document's object, and keep the document for what is said of it."""
    one = resolve(document.body, connection, namespace)
    return dataclasses.replace(one, document=document)


class UnknownKindError(CommandError):
    """The cluster does not serve the kind of an object."""


def resolve(body: Body, connection: ClusterConnection, namespace: str) -> ManifestObject:
    """Find the resource and the namespace of an object; CommandError when it has none."""
    api_version, kind = body["apiVersion"], body["kind"]
    resource = resource_of(api_version, kind, connection.client)
    if resource is None:
        hint = "install its CustomResourceDefinition first"
        raise UnknownKindError(f"the cluster has no kind {kind} in {api_version}", hint)
    meta = dict(body["metadata"])
    if not meta.get("name"):
        raise CommandError(f"a {kind} without a name cannot be applied", "give metadata.name")
    meta.pop("namespace", None)
    scope = ""
    if resource.namespaced:
        scope = connection.namespace(namespace, body["metadata"].get("namespace", ""))
        meta["namespace"] = scope
    return ManifestObject(resource, Key(scope, meta["name"]), {**body, "metadata": meta})


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """The change that an object needs: `live` is None if there is none of its name."""

    live: Body | None
    patch: Body

    def outcome(self, one: ManifestObject) -> tuple[Body, str]:
        """Return the object that the change would lead to, and the word for what it is."""
        if self.live is None:
            return with_last_applied(one.body), "created"
        word = "configured" if self.patch else "unchanged"
        return merged({**one.body, **self.live}, self.patch), word

    def findings(self, one: ManifestObject) -> list[Finding]:
        """Return the fields that may not be changed any more."""
        if self.live is None or one.document is None:
            return []
        problems = frozen_changes(self.live, merged(self.live, self.patch))
        return [one.document.finding(problem) for problem in problems]


def frozen_changes(old: Body, new: Body) -> list[FieldProblem]:
    """Return the changes of fields that may not be changed any more; only jobs have such."""
    return change_problems(old, new) if new.get("kind") == _FROZEN_KIND else []


_Planned = tuple[ManifestObject, ObjectChange]


def changes_of(
    objects: Sequence[ManifestObject], connection: ClusterConnection
) -> list[ObjectChange]:
    reads = [calls.get(one.resource, one.key) for one in objects]
    with ProgressLine() as line:
        report = partial(_count_objects, line, "reading objects", len(reads))
        found = send_each(connection, reads, expected=(NotFoundError,), report=report)
    return [
        ObjectChange(None, {})
        if isinstance(live, ClusterError)
        else ObjectChange(live, patch_to(one.body, live))
        for one, live in zip(objects, found, strict=True)
    ]


def _count_objects(line: ProgressLine, title: str, n_all: int, n_done: int) -> None:
    line.count(title, n_done, n_all)


def change_of(one: ManifestObject, connection: ClusterConnection) -> ObjectChange:
    (change,) = changes_of([one], connection)
    return change


def _in_turn(changes: Sequence[_Planned]) -> Iterator[list[_Planned]]:
    """Yield parts to be sent one after the other: jobs together, all else as it is written.

    A namespace has to be there before what is in it; jobs do not depend on each other.
    """
    for is_jobs, some in itertools.groupby(changes, lambda one: one[0].body["kind"] in _JOBS):
        if is_jobs:
            # One object that is written twice is sent twice, in this order.
            yield from _distinct(list(some))
        else:
            yield from ([one] for one in some)


def _distinct(changes: list[_Planned]) -> Iterator[list[_Planned]]:
    if len({(str(one.resource), one.key) for one, _ in changes}) == len(changes):
        yield changes
    else:
        yield from ([one] for one in changes)


def _sent(
    some: Sequence[_Planned], connection: ClusterConnection, telling: WrittenReport
) -> Iterator[tuple[ManifestObject, Body, str]]:
    """Send new objects together, and then what is left one by one; in the order of the manifest."""
    new = [one for one, change in some if change.live is None] if len(some) > 1 else []
    creates = [
        calls.create(one.resource, with_last_applied(one.body), telling.options) for one in new
    ]
    with ProgressLine() as line:
        report = partial(_count_objects, line, "creating objects", len(creates))
        made = send_each(connection, creates, expected=(AlreadyExistsError,), report=report)
    created = {
        id(one): answer
        for one, answer in zip(new, made, strict=True)
        if not isinstance(answer, ClusterError)
    }
    for one, change in some:
        if id(one) in created:
            yield one, created[id(one)], "created"
        else:
            yield one, *_send(one, change, connection, telling.options)


def _send(
    one: ManifestObject,
    change: ObjectChange,
    connection: ClusterConnection,
    wanted: WriteOptions = PLAIN,
) -> tuple[Body, str]:
    """Create or patch an object. Returns it, and the word for what was done."""
    if change.live is None:
        try:
            create = calls.create(one.resource, with_last_applied(one.body), wanted)
            return connection.client.send(create), "created"
        except AlreadyExistsError:  # another client was faster: patch its object
            change = change_of(one, connection)
    if not change.patch:
        return change.live or one.body, "unchanged"
    patch = calls.patch(one.resource, one.key, merge_patch(change.patch), wanted)
    return connection.client.send(patch), "configured"


def apply_one(one: ManifestObject, connection: ClusterConnection) -> str:
    """Create the object or patch it. Returns the word for what was done."""
    return _send(one, change_of(one, connection), connection)[1]
