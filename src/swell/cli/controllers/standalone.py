"""The commands `swell server` and `swell node`: API server and node agent, each alone.

`swell up` runs both in one process and takes the same options.
"""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.cli.choice import state_folder
from swell.cli.command_line import CommandError
from swell.cli.options import (
    ClusterOptions,
    check_amounts,
    days_or_seconds_of,
    option_groups,
    seconds_of,
)

if TYPE_CHECKING:
    from swell.api.core import Taint
    from swell.cluster.embedded.controllers.assembly import BuiltinControllerSettings
    from swell.node.program import AgentOptions

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Options of the embedded API server and its built-in controllers."""

    port: Annotated[
        int | None,
        typer.Option("--port", min=1, max=65535, help="Port; the last one used, or a free one."),
    ] = None
    # The default of kube-controller-manager up to Kubernetes 1.31.
    node_monitor_grace_period: Annotated[
        float,
        typer.Option(
            "--node-monitor-grace-period",
            help="How long a node may be silent before its state is unknown: 40s, 2m.",
            parser=seconds_of,
            metavar="DURATION",
        ),
    ] = 40.0

    feature_gates: Annotated[
        str,
        typer.Option(
            "--feature-gates",
            help="Kinds of Kubernetes that are off by default: GenericWorkload=true,...",
        ),
    ] = ""

    def controller_settings(self) -> BuiltinControllerSettings:
        from swell.cluster.embedded.controllers.assembly import BuiltinControllerSettings

        return BuiltinControllerSettings(
            node_monitor_grace_s=self.node_monitor_grace_period, gates=gates_in(self.feature_gates)
        )


def gates_in(text: str) -> frozenset[str]:
    """Return the feature gates that are switched on; CommandError for any that is not known."""
    from swell.cluster.embedded.builtin.podgroups import GATES, GENERIC

    found: dict[str, bool] = {}
    for entry in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = entry.partition("=")
        if name not in GATES:
            hint = f"the embedded server has {', '.join(GATES)}"
            raise CommandError(f"there is no feature gate {name!r}", hint, 2)
        if value not in {"true", "false"}:
            raise CommandError(f"--feature-gates: {entry!r}", f"write {name}=true", 2)
        found[name] = value == "true"
    on = frozenset(name for name, is_on in found.items() if is_on)
    if on and GENERIC not in on:
        raise CommandError(f"{', '.join(sorted(on))} needs {GENERIC}=true", "add it", 2)
    return on


NewCluster = Annotated[
    bool,
    typer.Option("--new", help="Begin anew in a folder whose store is missing or empty."),
]

NOT_ISOLATED = "run it as root, or without --isolate: pods are then as trusted as you are"


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """Options of the nodes that this machine registers."""

    nodes: Annotated[int, typer.Option("--nodes", min=1, help="How many nodes to play.")] = 1
    name: Annotated[
        str, typer.Option("--name", metavar="PREFIX", help="Nodes are PREFIX-0, PREFIX-1 …")
    ] = ""
    hollow: Annotated[
        bool, typer.Option("--hollow", help="Pretend: no processes, pods end as annotated.")
    ] = False
    cpu: Annotated[str, typer.Option("--cpu", help="Processors of each node.")] = ""
    memory: Annotated[str, typer.Option("--memory", help="Memory of each node.")] = ""
    gpu: Annotated[str, typer.Option("--gpu", help="GPUs of each node.")] = ""
    pods: Annotated[int, typer.Option("--pods", min=1, help="Pods each node takes.")] = 500
    # The default of `swell.node.process.setup.resources`, which is not loaded to parse flags.
    processes: Annotated[
        int,
        typer.Option("--processes", min=0, help="Processes each container may have; 0: any."),
    ] = 4096
    isolate: Annotated[
        bool, typer.Option("--isolate", help="Pods cannot read this cluster's folder.")
    ] = False
    # The default of `swell.node.process.keptlogs`.
    keep_logs: Annotated[
        float,
        typer.Option(
            "--keep-logs",
            parser=days_or_seconds_of,
            metavar="DURATION",
            help="Keep logs of deleted jobs this long, and 1 GiB of them at most.",
            show_default="7d",
        ),
    ] = 7 * 86400.0
    label: Annotated[
        list[str], typer.Option("--label", metavar="KEY=VALUE", help="A label of each node.")
    ] = field(default_factory=list)
    taint: Annotated[
        list[str],
        typer.Option("--taint", metavar="KEY[=VALUE]:EFFECT", help="A taint of each node."),
    ] = field(default_factory=list)

    def check(self) -> None:
        """Refuse amounts, labels and taints that are none, without loading the node agent."""
        check_amounts(cpu=self.cpu, memory=self.memory, gpu=self.gpu)
        for text in self.label:
            _label(text)
        for text in self.taint:
            _taint(text)

    def agent_options(self, home: Path) -> AgentOptions:
        """Return the node agent's options for a state folder."""
        from swell.node.machine import CapacityRequest
        from swell.node.program import AgentOptions

        return AgentOptions(
            home=home,
            n_nodes=self.nodes,
            prefix=self.name,
            hollow=self.hollow,
            wanted=CapacityRequest(self.cpu, self.memory, self.gpu, self.pods),
            labels=dict(map(_label, self.label)),
            taints=tuple(map(_taint, self.taint)),
            processes_max=self.processes,
            isolate=self.isolate,
            keep_logs_s=self.keep_logs,
        )


@option_groups
def server(*, new: NewCluster = False, options: ServerOptions) -> None:
    """Run the embedded API server until it is told to stop."""
    from swell.cli.store_errors import store_errors
    from swell.cluster.embedded.http.credentials import PortError
    from swell.cluster.embedded.http.serving import Served, serve
    from swell.cluster.home import AlreadyRunningError

    def announce(served: Served) -> None:
        sys.stdout.write(f"export KUBECONFIG={served.kubeconfig}\n")
        sys.stdout.flush()

    home = state_folder(os.environ, Path.home())
    settings = options.controller_settings()
    try:
        with store_errors(home):
            serve(home, options.port, on_ready=announce, settings=settings, new=new)
    except AlreadyRunningError as error:
        raise CommandError(str(error), "use it, or stop it first: swell down") from error
    except PortError as error:
        raise CommandError(str(error), "choose another with --port") from error


@option_groups
def node(*, options: NodeOptions, cluster: ClusterOptions) -> None:
    """Register nodes and run the pods bound to them, until told to stop."""
    from swell.cli.connection import chosen_access
    from swell.cli.error_texts import CLUSTER_FAILURES, from_cluster_failure
    from swell.cluster.home import AlreadyRunningError
    from swell.node.machine import this_machine
    from swell.node.process.isolation import IsolationError
    from swell.node.program import run_agent

    check_amounts(cpu=options.cpu, memory=options.memory, gpu=options.gpu)
    access = chosen_access(cluster)
    agent = options.agent_options(state_folder(os.environ, Path.home()))
    try:
        run_agent(access, this_machine(), agent, lambda: _announce(options.nodes))
    except AlreadyRunningError as error:
        message = f"another node agent runs in {error.home}"
        raise CommandError(message, "stop it, or set SWELL_HOME to another folder") from error
    except IsolationError as error:
        raise CommandError(f"--isolate: {error}", NOT_ISOLATED) from error
    except CLUSTER_FAILURES as error:
        raise from_cluster_failure(error, access.server, embedded=cluster.embedded) from error


def _announce(n_nodes: int) -> None:
    sys.stderr.write(f"{n_nodes} node{'s' if n_nodes > 1 else ''} ready\n")
    sys.stderr.flush()


def _label(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise typer.BadParameter(f"{text!r} is no label; write key=value", param_hint="--label")
    return key, value


def _taint(text: str) -> Taint:
    from swell.api.core import Taint

    written, _, effect = text.rpartition(":")
    key, _, value = written.partition("=")
    if not key or effect not in EFFECTS:
        raise typer.BadParameter(
            f"{text!r} is no taint; write key=value:effect, the effect one of {', '.join(EFFECTS)}",
            param_hint="--taint",
        )
    return Taint(key=key, value=value, effect=effect)
