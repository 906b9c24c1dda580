"""The commands `swell label`, `annotate`, `cordon` and `uncordon`: small changes of objects."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import connected
from swell.cli.objects.finding import each_served, read_objects, wanted_objects
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import kind_and_name, print_names
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection, merge_patch

Arguments = Annotated[
    list[str],
    typer.Argument(metavar="[KIND] NAME... KEY=VALUE...", help="Objects; KEY- removes a key."),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Also a key that has a value.")]
NodeNames = Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")]


@option_groups
def label(
    arguments: Arguments,
    *,
    overwrite: Overwrite = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Set or remove labels of objects."""
    _mark(arguments, "labels", namespace, cluster, overwrite=overwrite)


@option_groups
def annotate(
    arguments: Arguments,
    *,
    overwrite: Overwrite = False,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Set or remove annotations of objects."""
    _mark(arguments, "annotations", namespace, cluster, overwrite=overwrite)


@option_groups
def cordon(nodes: NodeNames, *, cluster: ClusterOptions) -> None:
    """Keep new pods away from nodes; those there stay."""
    _set_unschedulable(nodes, cluster, value=True)


@option_groups
def uncordon(nodes: NodeNames, *, cluster: ClusterOptions) -> None:
    """Let new pods onto nodes again."""
    _set_unschedulable(nodes, cluster, value=None)


def _mark(
    arguments: Sequence[str],
    field: str,
    namespace: str,
    cluster: ClusterOptions,
    *,
    overwrite: bool,
) -> None:
    """Set or remove labels or annotations; a value is not overwritten unless that is asked for."""
    pairs = [one for one in arguments if "=" in one or one.endswith("-")]
    changes = {
        name.removesuffix("-") if not equals else name: value if equals else None
        for name, equals, value in (one.partition("=") for one in pairs)
    }
    named = [one for one in arguments if one not in pairs]
    if not changes or not named:
        hint = "for example: swell label pod fit-trainer-0 team=vision"
        raise CommandError(f"say which objects, and which {field}", hint, USAGE)
    with connected(cluster, writes=True) as connection:
        wanted = wanted_objects(named, connection, Selection(namespace))
        if not all(one.names for one in wanted):
            raise CommandError(f"which {wanted[0].resource.plural}? give their names", "", USAGE)
        for one, bodies in each_served(wanted, lambda one: read_objects(one, connection)):
            for body in bodies:
                held = body["metadata"].get(field) or {}
                taken = [k for k, v in changes.items() if v is not None and held.get(k, v) != v]
                if taken and not overwrite:
                    message = f"{kind_and_name(body)} has {taken[0]}={held[taken[0]]} already"
                    raise CommandError(message, "give --overwrite to change it")
                patch: Body = {"metadata": {field: changes}}
                key = Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])
                connection.client.send(calls.patch(one.resource, key, merge_patch(patch)))
                print_names([body], suffix=f" {'labeled' if field == 'labels' else 'annotated'}")


def _set_unschedulable(
    names: Sequence[str], cluster: ClusterOptions, *, value: bool | None
) -> None:
    with connected(cluster, writes=True) as connection:
        patch = merge_patch({"spec": {"unschedulable": value}})
        for name in names:
            connection.client.send(calls.patch(NODES.untyped(), Key("", name), patch))
            done = "cordoned" if value else "uncordoned"
            sys.stdout.write(f"node/{name} {done}\n")
