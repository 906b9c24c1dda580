"""The commands `swell label`, `annotate`, `cordon` and `uncordon`: small changes of objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.choosing_nodes import nodes_named
from swell.cli.objects.finding import ObjectChoice, chosen_objects, each_served, read_objects
from swell.cli.objects.outcome import WritingOptions, WrittenReport
from swell.cli.objects.three_way import merged
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import kind_and_name
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch

Arguments = Annotated[
    list[str],
    typer.Argument(metavar="[KIND] NAME... KEY=VALUE...", help="Objects; KEY- removes a key."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Also a key that has a value.")]
ShowMarks = Annotated[bool, typer.Option("--list", help="Only show those there are.")]
NodeNames = Annotated[list[str] | None, typer.Argument(metavar="NODE...", help="Names of nodes.")]


@option_groups
def label(
    arguments: Arguments,
    *,
    overwrite: Overwrite = False,
    shows: ShowMarks = False,
    files: options.ObjectFiles = None,
    every: options.EveryObject = False,
    selector: options.Labels = "",
    outcome: WritingOptions,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Set or remove labels of objects."""
    chosen = ObjectChoice(files or (), selector, every=every)
    marking = _Marking("labels", "labeled", overwrite, shows, outcome)
    with connected(cluster, writes=not shows) as connection:
        _mark(arguments, marking, chosen, connection, namespace)


@option_groups
def annotate(
    arguments: Arguments,
    *,
    overwrite: Overwrite = False,
    shows: ShowMarks = False,
    files: options.ObjectFiles = None,
    every: options.EveryObject = False,
    selector: options.Labels = "",
    outcome: WritingOptions,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Set or remove annotations of objects."""
    chosen = ObjectChoice(files or (), selector, every=every)
    marking = _Marking("annotations", "annotated", overwrite, shows, outcome)
    with connected(cluster, writes=not shows) as connection:
        _mark(arguments, marking, chosen, connection, namespace)


@option_groups
def cordon(
    nodes: NodeNames = None,
    *,
    selector: options.Labels = "",
    outcome: WritingOptions,
    cluster: ClusterOptions,
) -> None:
    """Keep new pods away from nodes; those there stay."""
    _set_unschedulable(nodes or (), selector, outcome, cluster, value=True)


@option_groups
def uncordon(
    nodes: NodeNames = None,
    *,
    selector: options.Labels = "",
    outcome: WritingOptions,
    cluster: ClusterOptions,
) -> None:
    """Let new pods onto nodes again."""
    _set_unschedulable(nodes or (), selector, outcome, cluster, value=None)


@dataclass(frozen=True, slots=True)
class _Marking:
    """A change of the labels or annotations of objects."""

    field: str
    done: str
    overwrites: bool
    only_shows: bool
    outcome: WritingOptions


def _mark(
    arguments: Sequence[str],
    marking: _Marking,
    chosen: ObjectChoice,
    connection: ClusterConnection,
    namespace: str,
) -> None:
    """Set or remove labels or annotations; a value is not overwritten unless that is asked for."""
    field = marking.field
    pairs = [one for one in arguments if "=" in one or one.endswith("-")]
    changes = {
        name.removesuffix("-") if not equals else name: value if equals else None
        for name, equals, value in (one.partition("=") for one in pairs)
    }
    named = [one for one in arguments if one not in pairs]
    if bool(changes) == marking.only_shows or not (named or chosen.files):
        hint = "for example: swell label pod fit-trainer-0 team=vision"
        raise CommandError(f"say which objects, and which {field}", hint, USAGE)
    telling = WrittenReport(marking.outcome)
    wanted = chosen_objects(named, chosen, connection, namespace)
    for one, bodies in each_served(wanted, lambda one: read_objects(one, connection)):
        for found in bodies:
            body = {"apiVersion": one.resource.api_version, "kind": one.resource.kind, **found}
            held = body["metadata"].get(field) or {}
            if marking.only_shows:
                lines = "".join(f"  {name}={value}\n" for name, value in sorted(held.items()))
                sys.stdout.write(f"{kind_and_name(body)}\n{lines}")
                continue
            taken = [k for k, v in changes.items() if v is not None and held.get(k, v) != v]
            if taken and not marking.overwrites:
                message = f"{kind_and_name(body)} has {taken[0]}={held[taken[0]]} already"
                raise CommandError(message, "give --overwrite to change it")
            telling.tell(
                _patched(one.resource, body, {"metadata": {field: changes}}, connection, telling),
                marking.done,
            )
    telling.end()


def _patched(
    resource: Resource[Body],
    body: Body,
    patch: Body,
    connection: ClusterConnection,
    telling: WrittenReport,
) -> Body:
    """Return an object after a merge patch; the one that was read, if nothing is sent."""
    if not telling.is_sent:
        return merged(body, patch)
    key = Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])
    change = merge_patch(patch)
    return connection.client.send(calls.patch(resource, key, change, telling.options))


def _set_unschedulable(
    names: Sequence[str],
    labels: str,
    outcome: WritingOptions,
    cluster: ClusterOptions,
    *,
    value: bool | None,
) -> None:
    telling = WrittenReport(outcome)
    with connected(cluster, writes=True) as connection:
        for one in nodes_named(names, labels, connection):
            node = {"apiVersion": "v1", "kind": "Node", **one}
            change: Body = {"spec": {"unschedulable": value}}
            found = _patched(NODES.untyped(), node, change, connection, telling)
            telling.tell(found, "cordoned" if value else "uncordoned")
        telling.end()
