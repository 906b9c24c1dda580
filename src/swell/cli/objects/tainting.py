"""The command `swell taint`: keeps pods that do not tolerate a taint away from nodes."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import typer

from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import connected
from swell.cli.objects.choosing_nodes import nodes_named
from swell.cli.options import ClusterOptions, option_groups
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch

_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
# KEY=VALUE:EFFECT or KEY:EFFECT sets a taint; KEY- or KEY:EFFECT- removes those of the key.
_TAINT = re.compile(r"(?P<key>[^=:]+?)(=(?P<value>[^:]*))?(:(?P<effect>[A-Za-z]+))?(?P<minus>-)?")
_KIND_NAMES = frozenset({"node", "nodes", "no"})


@dataclass(frozen=True, slots=True)
class TaintChange:
    """A taint to set or, with `is_removed`, to take away; without an effect, with all of its."""

    key: str
    value: str
    effect: str
    is_removed: bool


@option_groups
def taint(
    arguments: Annotated[
        list[str],
        typer.Argument(metavar="[node] NODE... KEY=VALUE:EFFECT...", help="KEY- removes a taint."),
    ],
    *,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Also a taint that has a value.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="All nodes.")] = False,
    labels: options.Labels = "",
    cluster: ClusterOptions,
) -> None:
    """Set or remove taints of nodes: pods without a toleration stay away."""
    changes = [parse_taint(one) for one in arguments if is_taint(one)]
    names = [one for one in arguments if not is_taint(one)]
    names = names[1:] if names[:1] and names[0].lower() in _KIND_NAMES else names
    if not changes:
        hint = "for example: swell taint node-1 gpu=broken:NoSchedule"
        raise CommandError("say which nodes, and which taints", hint, USAGE)
    with connected(cluster, writes=True) as connection:
        for node in nodes_named(names, labels, connection, every=every):
            meta = node["metadata"]
            taints = tainted(node, changes, overwrites=overwrite)
            # The version refuses the write if somebody else has changed the list meanwhile.
            version = {"resourceVersion": meta["resourceVersion"]}
            patch = merge_patch({"metadata": version, "spec": {"taints": taints}})
            connection.client.send(calls.patch(NODES.untyped(), Key("", meta["name"]), patch))
            done = "untainted" if all(one.is_removed for one in changes) else "tainted"
            sys.stdout.write(f"node/{meta['name']} {done}\n")


def is_taint(argument: str) -> bool:
    """Whether an argument is a taint, and not the name of a node."""
    return "=" in argument or ":" in argument or argument.endswith("-")


def parse_taint(text: str) -> TaintChange:
    """Return the change that a text asks for; CommandError if it asks for none."""
    found = _TAINT.fullmatch(text)
    effect = found["effect"] or "" if found else ""
    is_removed = bool(found and found["minus"])
    if found is None or (not effect and not is_removed):
        hint = "write it as KEY=VALUE:EFFECT, or KEY- to remove it"
        raise CommandError(f"not a taint: {text!r}", hint, USAGE)
    if effect and effect not in _EFFECTS:
        raise CommandError(f"{effect} is no effect of a taint", ", ".join(_EFFECTS), USAGE)
    return TaintChange(found["key"], found["value"] or "", effect, is_removed)


def tainted(node: Body, changes: Sequence[TaintChange], *, overwrites: bool) -> list[Body]:
    """Return the taints of a node after the changes; CommandError if one cannot be made."""
    name = node["metadata"]["name"]
    taints: list[Body] = list(node["spec"].get("taints") or ())
    for change in changes:
        same = [
            one
            for one in taints
            if one["key"] == change.key and change.effect in {"", one["effect"]}
        ]
        if change.is_removed and not same:
            raise CommandError(f"node/{name} has no taint {change.key}", "see: swell describe node")
        taken = [one for one in same if one.get("value", "") != change.value]
        if taken and not change.is_removed and not overwrites:
            held = f"{change.key}={taken[0].get('value', '')}:{taken[0]['effect']}"
            raise CommandError(f"node/{name} has {held} already", "give --overwrite to change it")
        taints = [one for one in taints if one not in same]
        if not change.is_removed:
            value = {"value": change.value} if change.value else {}
            taints.append({"key": change.key, **value, "effect": change.effect})
    return taints
