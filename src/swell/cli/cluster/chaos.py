"""The command `swell chaos`: causes faults on purpose, to see how jobs survive them."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, Key
from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.options import ClusterOptions, option_groups
from swell.cluster.kube import calls
from swell.node.nodes import SIMULATE_LOSS
from swell.runtime.cluster import Deletion, merge_patch
from swell.runtime.errors import NotFoundError

# Nodes of the node agent report kubelet versions that begin so.
OUR_VERSIONS = "swell-"

app = typer.Typer(
    name="chaos",
    help="Break things on purpose.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Node = Annotated[str, typer.Argument(metavar="NODE", help="Name of the node.")]


@app.command("kill-pod")
@option_groups
def kill_pod(
    pod: Annotated[str, typer.Argument(metavar="POD", help="Name of the pod.")],
    *,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Kill a pod's processes; where there are none of ours, delete the pod without grace."""
    with connected(cluster, writes=True) as connection:
        key = Key(connection.namespace(namespace), pod)
        try:
            found = connection.client.send(calls.get(PODS, key))
        except NotFoundError as error:
            message = f"no pod {pod} in namespace {key.namespace}"
            raise CommandError(message, "see: swell get pods") from error
        uid = found.metadata.uid
        # Only the embedded cluster runs pods as processes of this machine.
        if connection.home is not None:
            from swell.up import processes

            if processes.kill_pod(connection.home, uid):
                sys.stdout.write(f"pod/{pod} killed\n")
                return
        connection.client.send(calls.delete(PODS, key, Deletion(uid=uid, grace_s=0)))
        sys.stdout.write(f"pod/{pod} deleted\n")


@app.command("kill-node")
@option_groups
def kill_node(
    node: Node,
    *,
    cluster: ClusterOptions,
) -> None:
    """Delete a node from the cluster, as when a machine is taken away."""
    with connected(cluster, writes=True) as connection:
        try:
            found = connection.client.send(calls.get(NODES, Key("", node)))
        except NotFoundError as error:
            raise _no_node(node) from error
        deletion = Deletion(uid=found.metadata.uid)
        connection.client.send(calls.delete(NODES, Key("", node), deletion))
        sys.stdout.write(f"node/{node} deleted\n")


@app.command("stop-node")
@option_groups
def stop_node(
    node: Node,
    *,
    cluster: ClusterOptions,
) -> None:
    """Have a node fall silent, as when its network is cut; start-node brings it back."""
    with connected(cluster, writes=True) as connection:
        _set_silent(connection, node, "true")
        sys.stdout.write(f"node/{node} stopped\n")


@app.command("start-node")
@option_groups
def start_node(
    node: Node,
    *,
    cluster: ClusterOptions,
) -> None:
    """End the silence of a stopped node."""
    with connected(cluster, writes=True) as connection:
        _set_silent(connection, node, None)
        sys.stdout.write(f"node/{node} started\n")


def _set_silent(connection: ClusterConnection, node: str, value: str | None) -> None:
    key, nodes = Key("", node), NODES.untyped()
    try:
        found = connection.client.send(calls.get(nodes, key))
    except NotFoundError as error:
        raise _no_node(node) from error
    info = found.get("status", {}).get("nodeInfo") or {}
    if not str(info.get("kubeletVersion", "")).startswith(OUR_VERSIONS):
        hint = "stop its kubelet instead"
        raise CommandError(f"{node} is no node of ours and would not listen", hint)
    # The node agent stops reporting while its node has this annotation.
    change: Body = {"uid": found["metadata"]["uid"], "annotations": {SIMULATE_LOSS: value}}
    connection.client.send(calls.patch(nodes, key, merge_patch({"metadata": change})))


def _no_node(node: str) -> CommandError:
    return CommandError(f"there is no node {node}", "see: swell get nodes")
