"""The commands `swell diff` and `edit`: what a manifest would change, and changes by an editor."""

from __future__ import annotations

import difflib
import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Annotated

import typer

from swell.api import codec
from swell.api.manifest import read
from swell.api.meta import Body
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.apply import (
    ManifestObject,
    ObjectChange,
    changes_of,
    frozen_changes,
    resolve_document,
)
from swell.cli.objects.finding import each_served, read_objects, wanted_objects
from swell.cli.objects.three_way import LAST_APPLIED, merged, with_last_applied
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import kind_and_name, print_names, to_yaml
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection, WriteOptions, merge_patch
from swell.runtime.errors import ClusterError, ConflictError

# The exit code for a difference, as diff(1) and kubectl have it; more is a failure.
DIFFERENT = 1
# Fields that the server writes itself: nobody edits them, and all of them differ always.
_SERVER_FIELDS = ("managedFields", "resourceVersion", "uid", "generation", "creationTimestamp")
_HEAD = "# Edit the object below. Lines with # are ignored; an empty file changes nothing.\n"


@option_groups
def diff(
    *,
    files: options.FilesAndFolders,
    recursive: options.Recursive = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Show what apply would change. Exit code 1 says that something would change."""
    # Imported here: edit needs no manifests.
    from swell.cli.manifests import in_folders, read_valid, refuse_problems

    readings = read_valid(in_folders(files, recursive=recursive))
    documents = [document for reading in readings for document in reading.documents]
    with connected(cluster) as connection:
        objects = [resolve_document(one, connection, namespace) for one in documents]
        changes = changes_of(objects, connection)
        pairs = list(zip(objects, changes, strict=True))
        # What apply would refuse is no difference: it is said in the words of apply.
        refuse_problems([finding for one, change in pairs for finding in change.findings(one)])
        texts = [_difference(one, change, connection) for one, change in pairs]
    sys.stdout.write("".join(texts))
    if any(texts):
        raise typer.Exit(DIFFERENT)


def _difference(one: ManifestObject, change: ObjectChange, connection: ClusterConnection) -> str:
    """Return the unified difference of an object now and after apply, as the server would have it.

    A dry run brings the server's own defaults, so that they are no difference.
    """
    client, dry = connection.client, WriteOptions(dry_run=True)
    if change.live is None:
        after = client.send(calls.create(one.resource, with_last_applied(one.body), dry))
        before = ""
    elif not change.patch:
        return ""
    else:
        after = client.send(calls.patch(one.resource, one.key, merge_patch(change.patch), dry))
        before = _shown(change.live)
    name = kind_and_name(one.body)
    lines = difflib.unified_diff(
        before.splitlines(keepends=True),
        _shown(after).splitlines(keepends=True),
        f"live/{name}",
        f"merged/{name}",
    )
    return "".join(lines)


def _shown(body: Body) -> str:
    """Return an object as people compare it: without what the server and apply note down."""
    meta = {name: value for name, value in body["metadata"].items() if name not in _SERVER_FIELDS}
    notes = {k: v for k, v in (meta.pop("annotations", None) or {}).items() if k != LAST_APPLIED}
    shown = {**body, "metadata": {**meta, **({"annotations": notes} if notes else {})}}
    shown.pop("status", None)
    # Servers do not keep the order of fields.
    return to_yaml(codec.decode(codec.encode_stable(shown), dict))


@option_groups
def edit(
    arguments: Annotated[
        list[str], typer.Argument(metavar="[KIND] NAME", help="Kind (jobs without it); name.")
    ],
    *,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Change an object in the editor that $EDITOR names."""
    with connected(cluster, writes=True) as connection:
        wanted = wanted_objects(arguments, connection, Selection(namespace))
        if not all(one.names for one in wanted):
            raise CommandError(f"which {wanted[0].resource.plural}? give a name", "", USAGE)
        for one, bodies in each_served(wanted, lambda one: read_objects(one, connection)):
            for body in bodies:
                new = _edited(body)
                if new is None:
                    sys.stderr.write(f"{kind_and_name(body)}: nothing was changed\n")
                    continue
                new["metadata"]["resourceVersion"] = body["metadata"]["resourceVersion"]
                if problems := frozen_changes(body, new):
                    raise _kept("; ".join(map(str, problems)), new)
                try:
                    connection.client.send(calls.update(one.resource, new))
                except ConflictError as error:
                    raise _kept("the object was changed meanwhile", new) from error
                except ClusterError as error:
                    raise _kept(str(error), new) from error
                print_names([body], suffix=" edited")


def _edited(body: Body) -> Body | None:
    """Return the object as the user has left it; None if it is the same."""
    before = to_yaml(_without_server_fields(body))
    command = os.environ.get("KUBE_EDITOR") or os.environ.get("EDITOR") or "vi"
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "object.yaml"
        path.write_text(_HEAD + before, encoding="utf-8")
        try:
            code = subprocess.run([*shlex.split(command), str(path)], check=False).returncode
        except OSError as error:
            hint = "name another: EDITOR=nano swell edit ..."
            why = f"cannot start the editor {command}: {error.strerror}"
            raise CommandError(why, hint) from error
        after = path.read_bytes()
    if code:
        raise CommandError(f"the editor {command} ended with {code}", "nothing was changed")
    reading = read(after, "the edited object")
    if reading.findings:
        raise CommandError(str(reading.findings[0]), "nothing was changed")
    if not reading.documents:
        return None
    new = reading.documents[0].body
    if to_yaml(new) == before:
        return None
    _refuse_renaming(body, new)
    return merged(_identity(body), new)


def _without_server_fields(body: Body) -> Body:
    hidden = ("managedFields",)
    meta = {name: value for name, value in body["metadata"].items() if name not in hidden}
    return {**body, "metadata": meta}


def _identity(body: Body) -> Body:
    meta = body["metadata"]
    return {"metadata": {one: meta[one] for one in ("name", "namespace", "uid") if one in meta}}


def _refuse_renaming(old: Body, new: Body) -> None:
    for path in ("apiVersion", "kind"):
        if new.get(path) != old[path]:
            raise CommandError(f"{path} cannot be edited", "create another object instead")
    for name in ("name", "namespace"):
        if (new.get("metadata") or {}).get(name) != old["metadata"].get(name):
            raise CommandError(f"metadata.{name} cannot be edited", "create another object instead")


def _kept(why: str, new: Body) -> CommandError:
    """Return the error of a refused edit; what was typed is kept in a file."""
    with tempfile.NamedTemporaryFile(
        "wb", prefix="swell-edit-", suffix=".yaml", delete=False
    ) as file:
        file.write(to_yaml(new).encode())
    return CommandError(why, f"your edit is in {file.name}")
