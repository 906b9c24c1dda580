"""`swell node`: nodes of this machine for any cluster, with real processes or hollow."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli import options as shared
from swell.cli.choice import Flags, state_folder
from swell.cli.connection import chosen_access
from swell.cli.failure import CommandError

if TYPE_CHECKING:
    from swell.api.node import Taint

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def node(
    *,
    nodes: Annotated[int, typer.Option("--nodes", min=1, help="How many nodes to play.")] = 1,
    name: Annotated[
        str, typer.Option("--name", metavar="PREFIX", help="Nodes are PREFIX-0, PREFIX-1 …")
    ] = "",
    hollow: Annotated[
        bool, typer.Option("--hollow", help="Pretend: no processes, pods end as annotated.")
    ] = False,
    cpu: Annotated[str, typer.Option("--cpu", help="Processors of each node.")] = "",
    memory: Annotated[str, typer.Option("--memory", help="Memory of each node.")] = "",
    gpu: Annotated[str, typer.Option("--gpu", help="GPUs of each node.")] = "",
    pods: Annotated[int, typer.Option("--pods", min=1, help="Pods each node takes.")] = 500,
    label: Annotated[
        list[str], typer.Option("--label", metavar="KEY=VALUE", help="A label of each node.")
    ] = [],  # noqa: B006
    taint: Annotated[
        list[str],
        typer.Option("--taint", metavar="KEY[=VALUE]:EFFECT", help="A taint of each node."),
    ] = [],  # noqa: B006
    kubeconfig: shared.Kubeconfig = "",
    context: shared.Context = "",
    embedded: shared.Embedded = False,
) -> None:
    """Register nodes and run the pods bound to them, until told to stop."""
    from swell.cluster.home import AlreadyRunningError
    from swell.node.machine import CapacityError, Wanted, this_machine
    from swell.node.program import AgentOptions, run_agent

    access = chosen_access(Flags(kubeconfig, context, embedded))
    options = AgentOptions(
        home=state_folder(os.environ, Path.home()),
        n_nodes=nodes,
        prefix=name,
        hollow=hollow,
        wanted=Wanted(cpu, memory, gpu, pods),
        labels=dict(_pair(text) for text in label),
        taints=tuple(_taint(text) for text in taint),
    )
    try:
        run_agent(access, this_machine(), options, lambda: _announce(nodes))
    except AlreadyRunningError as error:
        message = f"another node agent runs in {error.home}"
        raise CommandError(message, "stop it, or set SWELL_HOME to another folder") from error
    except CapacityError as error:
        raise CommandError(str(error), "write it as 4, 500m or 2Gi", exit_code=2) from error


def _announce(n_nodes: int) -> None:
    sys.stderr.write(f"{n_nodes} node{'s' if n_nodes > 1 else ''} ready\n")
    sys.stderr.flush()


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise typer.BadParameter(f"{text!r} is no label; write key=value", param_hint="--label")
    return key, value


def _taint(text: str) -> Taint:
    from swell.api.node import Taint

    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in EFFECTS:
        raise typer.BadParameter(
            f"{text!r} is no taint; write key=value:effect, the effect one of {', '.join(EFFECTS)}",
            param_hint="--taint",
        )
    return Taint(key=key, value=value, effect=effect)
