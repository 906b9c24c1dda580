"""The command `swell drain`: keeps new pods away from nodes and evicts those that are there.

Pods that save before they leave are asked first, and evicted when they have, or in time.
Pods of DaemonSets stay, because their controller ignores the cordon. Pods that nothing would create
again, and those whose data is lost with them, need a flag.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from swell.api.kinds import NODES, PODS
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.choosing_nodes import nodes_named
from swell.cli.objects.deleting import refuse_late, wait_until_gone
from swell.cli.objects.outcome import DryRun, DryRunOption
from swell.cli.objects.saving_pods import SAVE_SECONDS_MAX, let_pods_save
from swell.cli.options import ClusterOptions, option, option_groups, seconds_of
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection, merge_patch
from swell.runtime.errors import NotFoundError, TooManyRequestsError

# Between two tries to evict a pod that a disruption budget protects; kubectl's.
PAUSE_S = 5.0
_ENDED = frozenset({"Succeeded", "Failed"})
_EVICTIONS: Resource[Body] = PODS.sub("eviction", dict)


@option_groups
def drain(
    nodes: Annotated[
        list[str] | None, typer.Argument(metavar="NODE...", help="Names of nodes.")
    ] = None,
    *,
    ignore_daemonsets: Annotated[
        bool, typer.Option("--ignore-daemonsets", help="Leave pods of DaemonSets.")
    ] = False,
    delete_data: Annotated[
        bool, typer.Option("--delete-emptydir-data", help="Also pods that lose an emptyDir.")
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also pods that nothing creates again.")
    ] = False,
    grace_period: Annotated[
        int | None, typer.Option("--grace-period", min=0, help="Seconds to end in.")
    ] = None,
    save_seconds_max: Annotated[
        float,
        option("--save-seconds-max", "Wait no longer for pods that save.", is_duration=True),
    ] = SAVE_SECONDS_MAX,
    timeout: Annotated[
        float | None,
        typer.Option("--timeout", parser=seconds_of, metavar="DURATION", help="Give up."),
    ] = None,
    pod_selector: Annotated[
        str, typer.Option("--pod-selector", metavar="LABELS", help="Only pods with these labels.")
    ] = "",
    dry_run: DryRunOption = DryRun.NONE,
    labels: options.Labels = "",
    cluster: ClusterOptions,
) -> None:
    """Keep new pods away from nodes and evict those that are there."""
    # kubectl takes 0 for no limit, too.
    deadline = time.monotonic() + timeout if timeout else math.inf
    is_tried = dry_run is not DryRun.NONE
    with connected(cluster, writes=True) as connection:
        found: list[Body] = []
        names = [one["metadata"]["name"] for one in nodes_named(nodes or (), labels, connection)]
        for name in names:
            if not is_tried:
                cordon = merge_patch({"spec": {"unschedulable": True}})
                connection.client.send(calls.patch(NODES.untyped(), Key("", name), cordon))
            _tell("node", name, "cordoned", is_tried=is_tried)
            found += _pods_of(name, pod_selector, connection)
        _refuse(found, force=force, deletes_data=delete_data, leaves_daemons=ignore_daemonsets)
        leaving = [pod for pod in found if _owner_kind(pod) != "DaemonSet"]
        if not is_tried:
            let_pods_save(leaving, connection, min(save_seconds_max, deadline - time.monotonic()))
        for pod in leaving:
            if not is_tried:
                _evict(pod, connection, grace_period, deadline)
            _tell("pod", pod["metadata"]["name"], "evicted", is_tried=is_tried)
        for pod in leaving:
            if not is_tried:
                wait_until_gone(PODS.untyped(), pod, connection, deadline)
        for name in names:
            _tell("node", name, "drained", is_tried=is_tried)


def _tell(kind: str, name: str, done: str, *, is_tried: bool) -> None:
    sys.stdout.write(f"{kind}/{name} {done}{' (dry run)' if is_tried else ''}\n")


def _pods_of(node: str, labels: str, connection: ClusterConnection) -> list[Body]:
    chosen = Selection(labels=labels, fields=f"spec.nodeName={node}")
    # A mirror pod shows a process of the node itself: it cannot be evicted.
    return [
        pod
        for pod in connection.client.send(calls.list_page(PODS.untyped(), chosen)).items
        if "kubernetes.io/config.mirror" not in (pod["metadata"].get("annotations") or {})
    ]


def _refuse(pods: Sequence[Body], *, force: bool, deletes_data: bool, leaves_daemons: bool) -> None:
    """Refuse before the first eviction, if any pod needs a flag that was not given."""
    living = [pod for pod in pods if pod.get("status", {}).get("phase") not in _ENDED]
    problems = [
        (leaves_daemons, "--ignore-daemonsets", "belong to DaemonSets", _is_of_daemon_set),
        (force, "--force", "have no controller that creates them again", _is_bare),
        (deletes_data, "--delete-emptydir-data", "have data in an emptyDir", _has_data),
    ]
    for is_given, flag, what, holds in problems:
        names = [pod["metadata"]["name"] for pod in living if holds(pod)]
        if names and not is_given:
            shown = ", ".join(sorted(names)[:3]) + (" …" if len(names) > 3 else "")
            hint = f"to go on all the same: {flag}; the nodes are cordoned"
            raise CommandError(f"pods {what}: {shown}", hint)


def _owner_kind(pod: Body) -> str:
    owners = pod["metadata"].get("ownerReferences") or ()
    return next((str(one.get("kind", "")) for one in owners if one.get("controller")), "")


def _is_of_daemon_set(pod: Body) -> bool:
    return _owner_kind(pod) == "DaemonSet"


def _is_bare(pod: Body) -> bool:
    return not _owner_kind(pod)


def _has_data(pod: Body) -> bool:
    volumes = pod["spec"].get("volumes") or ()
    return not _is_of_daemon_set(pod) and any("emptyDir" in one for one in volumes)


def _evict(pod: Body, connection: ClusterConnection, grace_s: int | None, deadline: float) -> None:
    """Evict a pod; one that a disruption budget protects is tried again until it may go."""
    meta = pod["metadata"]
    options_: Body = {} if grace_s is None else {"gracePeriodSeconds": grace_s}
    body: Body = {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": meta["name"], "namespace": meta["namespace"]},
        "deleteOptions": {**options_, "preconditions": {"uid": meta["uid"]}},
    }
    is_reported = False
    while True:
        try:
            connection.client.send(calls.create(_EVICTIONS, body))
        except NotFoundError:
            return
        except TooManyRequestsError as error:
            if not is_reported:
                sys.stderr.write(f"pod/{meta['name']} waits: {error}\n")
            is_reported = True
            refuse_late(deadline, f"pod/{meta['name']} was not evicted in time")
            time.sleep(max(0.0, min(PAUSE_S, deadline - time.monotonic())))
        else:
            return
