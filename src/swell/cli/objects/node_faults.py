"""Fault marks of nodes as people see them: two columns of `swell get nodes`, and `swell trust`."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer
from msgspec.structs import replace

from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.api.node_faults import SUSPECT_TAINT, read_faults, written_faults
from swell.api.times import format_time
from swell.api.wording import count_of
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.options import ClusterOptions, option_groups
from swell.cluster.kube import calls
from swell.runtime.cluster import merge_patch
from swell.runtime.errors import ConflictError

HEADINGS = ("FAULTS", "SUSPECT")
# A node is written often by its kubelet; with each try it is read anew.
_TRIES = 5


def with_fault_columns(
    shown: Sequence[Sequence[str]], bodies: Sequence[Body], now: float
) -> list[list[str]]:
    """Return heading and rows of nodes with the weight of their marks, and whether jobs suspect.

    `bodies` are the objects of the rows, of which the metadata is enough.
    """
    cells = [HEADINGS, *(_cells(body, now) for body in bodies)]
    return [[*row, *more] for row, more in zip(shown, cells, strict=True)]


def _cells(body: Body, now: float) -> tuple[str, str]:
    record = read_faults((body.get("metadata") or {}).get("annotations") or {})
    weight = record.weight(now)
    n_jobs = len(record.jobs(now))
    suspect = f"yes ({n_jobs} jobs)" if record.is_suspect(now) else "no"
    return (f"{weight:.1f}" if weight else "0"), suspect


@option_groups
def trust(
    nodes: Annotated[list[str], typer.Argument(metavar="NODE...", help="Names of nodes.")],
    *,
    cluster: ClusterOptions,
) -> None:
    """Forget the failures that jobs blame on nodes, and let new pods onto them again."""
    with connected(cluster, writes=True) as connection:
        for name in nodes:
            _trust(name, connection)


def _trust(name: str, connection: ClusterConnection) -> None:
    for _ in range(_TRIES):
        node = connection.client.send(calls.get(NODES.untyped(), Key("", name)))
        try:
            sys.stdout.write(_forget(node, connection))
        except ConflictError:
            continue
        return
    raise CommandError(f"node {name} changes all the time", "try again")


def _forget(node: Body, connection: ClusterConnection) -> str:
    """Write the moment of trust in place of the marks, and take the taint away."""
    meta, now = node["metadata"], time.time()
    record = read_faults(meta.get("annotations") or {})
    n_marks, n_jobs = len(record.counted(now)), len(record.jobs(now))
    trusted = replace(record, marks=(), trusted=format_time(now))
    body: Body = {
        "metadata": {
            "uid": meta["uid"],
            "resourceVersion": meta["resourceVersion"],
            "annotations": written_faults(trusted),
        }
    }
    taints = list((node.get("spec") or {}).get("taints") or ())
    kept = [one for one in taints if one.get("key") != SUSPECT_TAINT]
    if len(kept) < len(taints):
        body["spec"] = {"taints": kept}
    connection.client.send(calls.patch(NODES.untyped(), Key("", meta["name"]), merge_patch(body)))
    lifted = " and its taint" if len(kept) < len(taints) else ""
    marks, jobs = count_of(n_marks, "failure"), count_of(n_jobs, "job")
    return f"node/{meta['name']} trusted: {marks} of {jobs}{lifted} forgotten\n"
