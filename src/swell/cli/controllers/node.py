"""`swell node`: nodes of this machine for any cluster, with real processes or hollow."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from swell.cli import options as shared
from swell.cli.choice import Flags, state_folder
from swell.cli.connection import chosen_access
from swell.cli.controllers import node_flags
from swell.cli.failure import CommandError
from swell.cli.troubles import TROUBLES, with_cluster


def node(
    *,
    nodes: node_flags.Nodes = 1,
    name: node_flags.Name = "",
    hollow: node_flags.Hollow = False,
    cpu: node_flags.Cpu = "",
    memory: node_flags.Memory = "",
    gpu: node_flags.Gpu = "",
    pods: node_flags.Pods = 500,
    label: node_flags.Labels = [],  # noqa: B006
    taint: node_flags.Taints = [],  # noqa: B006
    kubeconfig: shared.Kubeconfig = "",
    context: shared.Context = "",
    embedded: shared.Embedded = False,
) -> None:
    """Register nodes and run the pods bound to them, until told to stop."""
    from swell.cluster.home import AlreadyRunningError
    from swell.node.machine import CapacityRequest, this_machine
    from swell.node.program import AgentOptions, run_agent

    shared.check_amounts(cpu=cpu, memory=memory, gpu=gpu)
    access = chosen_access(Flags(kubeconfig, context, embedded))
    options = AgentOptions(
        home=state_folder(os.environ, Path.home()),
        n_nodes=nodes,
        prefix=name,
        hollow=hollow,
        wanted=CapacityRequest(cpu, memory, gpu, pods),
        labels=dict(node_flags.pair(text) for text in label),
        taints=tuple(node_flags.taint(text) for text in taint),
    )
    try:
        run_agent(access, this_machine(), options, lambda: _announce(nodes))
    except AlreadyRunningError as error:
        message = f"another node agent runs in {error.home}"
        raise CommandError(message, "stop it, or set SWELL_HOME to another folder") from error
    except TROUBLES as error:
        raise with_cluster(error, access.server, embedded=embedded) from error


def _announce(n_nodes: int) -> None:
    sys.stderr.write(f"{n_nodes} node{'s' if n_nodes > 1 else ''} ready\n")
    sys.stderr.flush()
