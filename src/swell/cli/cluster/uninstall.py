"""The command `swell uninstall`: takes out what `kubectl apply -k deploy/` put into a cluster.

No job is deleted by accident: the definitions, and with them all objects of their kinds, go only
when no job is left or the user says `--jobs`. The history of jobs stays in their namespaces unless
the user says `--history`.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

import typer

from swell.api.crds import crd
from swell.api.kinds import (
    AI_TRAINING_JOBS,
    CONFIG_MAPS,
    CUSTOM_RESOURCE_DEFINITIONS,
    LEASES,
    POD_DISRUPTION_BUDGETS,
    POD_GROUPS,
    SERVICES,
    SHARED_GROUPS,
    TRAINING_JOBS,
)
from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.api.schemas.definitions import DEFINITIONS
from swell.api.wording import count_of
from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.options import ClusterOptions
from swell.cluster.kube import calls
from swell.history.reading import ALL_SHARDS
from swell.runtime.cluster import Selection, merge_patch
from swell.runtime.errors import ForbiddenError, NotFoundError

_RBAC = "rbac.authorization.k8s.io"
# The objects that `deploy/` creates have these names.
NAMES = ("swell-operator", "swell-scheduler", "swell-page")
# In the order of deletion. Deployments first: the programs use the rest until they end.
IN_NAMESPACE: tuple[Resource[Body], ...] = (
    Resource("apps", "v1", "Deployment", "deployments", dict),
    POD_DISRUPTION_BUDGETS.untyped(),
    SERVICES.untyped(),
    CONFIG_MAPS.untyped(),
    Resource(_RBAC, "v1", "RoleBinding", "rolebindings", dict),
    Resource(_RBAC, "v1", "Role", "roles", dict),
    Resource("", "v1", "ServiceAccount", "serviceaccounts", dict),
)
IN_CLUSTER: tuple[Resource[Body], ...] = (
    Resource(_RBAC, "v1", "ClusterRoleBinding", "clusterrolebindings", dict, namespaced=False),
    Resource(_RBAC, "v1", "ClusterRole", "clusterroles", dict, namespaced=False),
)
CLUSTER_NAMES = (*NAMES, "swell-metrics-reader", "swell-viewer", "swell-editor", "swell-admin")
_LEASES = (
    "swell-operator",
    "swell-scheduler",
    "swell-operator-trainingjob",
    "swell-operator-autoscaler",
)
_JOB_KINDS = (AI_TRAINING_JOBS.untyped(), TRAINING_JOBS.untyped())
# Jobs that a message names; it counts the others.
_SHOWN_MAX = 5

InstalledIn = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAME", help="Where Swell was installed.")
]
Crds = Annotated[bool, typer.Option("--crds", help="Our CustomResourceDefinitions, too.")]
Jobs = Annotated[
    bool,
    typer.Option("--jobs", help="With --crds: also the jobs that are left, and all they own."),
]
History = Annotated[bool, typer.Option("--history", help="The history of jobs, too.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do not ask.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")]


@dataclass(frozen=True, slots=True)
class InstalledObject:
    """An object of the installation that exists."""

    resource: Resource[Body]
    body: Body

    def __str__(self) -> str:
        meta = self.body["metadata"]
        where = f"{meta['namespace']}/" if meta.get("namespace") else ""
        return f"{self.resource.kind.lower()} {where}{meta['name']}"


def uninstall(
    *,
    namespace: InstalledIn = "swell-system",
    crds: Crds = False,
    jobs: Jobs = False,
    history: History = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    kubeconfig: options.Kubeconfig = "",
    context: options.Context = "",
) -> None:
    """Take Swell out of a cluster. Jobs and their definitions stay unless --crds says otherwise."""
    if jobs and not crds:
        raise CommandError("--jobs goes with --crds", "to delete jobs alone: swell delete", 2)
    with connected(ClusterOptions(kubeconfig, context), writes=True) as connection:
        # Of all namespaces: the definitions are the cluster's.
        left = list(_jobs(connection))
        if crds and left and not jobs:
            raise CommandError(
                f"{_some(left)} would be lost with the definitions",
                "delete them first (swell delete), or say --jobs; without --crds they stay",
            )
        programs = list(_programs(connection, namespace))
        definitions = list(_definitions(connection)) if crds else []
        jobs_to_delete = left if crds else []
        shards = list(_shards(connection))
        shards_to_delete = shards if history else []
        if not programs and not definitions and not shards_to_delete:
            sys.stdout.write(f"nothing of Swell is in namespace {namespace}\n")
            return
        _print_objects([*programs, *jobs_to_delete, *definitions, *shards_to_delete])
        if dry_run:
            return
        _ask(yes=yes)
        _remove(connection, programs, jobs_to_delete, [*definitions, *shards_to_delete])
        if shards and not history:
            n_shards = "1 ConfigMap" if len(shards) == 1 else f"{len(shards)} ConfigMaps"
            sys.stdout.write(f"the history of jobs stays, in {n_shards}; --history deletes it\n")
        if left and not crds:
            sys.stdout.write(f"nobody looks after {_some(left)} any more\n")


def _remove(
    connection: ClusterConnection,
    programs: list[InstalledObject],
    jobs: list[InstalledObject],
    rest: list[InstalledObject],
) -> None:
    """Delete everything, and wait for it. The rest are definitions and records.

    The operator is gone before the jobs are touched: it would put their finalizers back.
    """
    for one in programs:
        delete_one(one.resource, one.body, connection)
    # The first is the operator's Deployment.
    for one in programs[:1]:
        wait_until_gone(one.resource, one.body, connection)
    for one in jobs:
        _remove_finalizers(connection, one)
        delete_one(one.resource, one.body, connection)
    for one in jobs:
        wait_until_gone(one.resource, one.body, connection)
    for one in rest:
        delete_one(one.resource, one.body, connection)
    for one in rest:
        wait_until_gone(one.resource, one.body, connection)
    n_deleted = len(programs) + len(jobs) + len(rest)
    sys.stdout.write(f"{count_of(n_deleted, 'object')} deleted\n")


def _remove_finalizers(connection: ClusterConnection, job: InstalledObject) -> None:
    """Remove a job's finalizers: the operator that would do so is gone.

    The garbage collector deletes what the job owns.
    """
    meta = job.body["metadata"]
    change = merge_patch({"metadata": {"uid": meta["uid"], "finalizers": None}})
    key = Key(meta["namespace"], meta["name"])
    try:
        connection.client.send(calls.patch(job.resource, key, change))
    except NotFoundError:
        return


def _programs(connection: ClusterConnection, namespace: str) -> Iterator[InstalledObject]:
    for resource in IN_NAMESPACE:
        yield from _named(connection, resource, namespace, NAMES)
    yield from _named(connection, LEASES.untyped(), namespace, _LEASES)
    try:
        for resource in IN_CLUSTER:
            for one in _named(connection, resource, "", CLUSTER_NAMES):
                if _serves(one.body, namespace):
                    yield one
    except ForbiddenError:
        sys.stderr.write("cluster roles cannot be read: left as they are\n")


def _serves(body: Body, namespace: str) -> bool:
    """Whether a binding is for this installation. A role has no subjects and always is."""
    subjects = body.get("subjects") or ()
    return not subjects or any(one.get("namespace") == namespace for one in subjects)


def _jobs(connection: ClusterConnection) -> Iterator[InstalledObject]:
    for resource in _JOB_KINDS:
        try:
            listed = connection.client.send(calls.list_page(resource))
        except NotFoundError:
            continue
        yield from (InstalledObject(resource, body) for body in listed.items)


def _shards(connection: ClusterConnection) -> Iterator[InstalledObject]:
    """The ConfigMaps with records of jobs, of all namespaces."""
    resource = CONFIG_MAPS.untyped()
    try:
        listed = connection.client.send(calls.list_page(resource, Selection(labels=ALL_SHARDS)))
    except ForbiddenError:
        sys.stderr.write("ConfigMaps cannot be listed: the history stays where it is\n")
        return
    yield from (InstalledObject(resource, body) for body in listed.items)


def _definitions(connection: ClusterConnection) -> Iterator[InstalledObject]:
    resource = CUSTOM_RESOURCE_DEFINITIONS
    listed = connection.client.send(calls.list_page(resource)).items
    groups = {body["spec"]["group"] for body in listed}
    # Volcano defines more groups than those we share with it.
    is_shared = any(group.endswith("volcano.sh") and group not in SHARED_GROUPS for group in groups)
    if is_shared or _has_groups(connection):
        sys.stderr.write(
            "PodGroups, Queues and HyperNodes are in use by others: their definitions stay\n"
        )
        is_shared = True
    for definition in DEFINITIONS:
        if is_shared and definition.group in SHARED_GROUPS:
            continue
        name = crd(definition)["metadata"]["name"]
        yield from _named(connection, resource, "", (name,))


def _has_groups(connection: ClusterConnection) -> bool:
    """Whether there are PodGroups that no job of ours owns."""
    try:
        listed = connection.client.send(calls.list_page(POD_GROUPS))
    except NotFoundError:
        return False
    ours = {AI_TRAINING_JOBS.kind, TRAINING_JOBS.kind}
    owners = (group.metadata.controller for group in listed.items)
    return any(owner is None or owner.kind not in ours for owner in owners)


def _named(
    connection: ClusterConnection, resource: Resource[Body], namespace: str, names: tuple[str, ...]
) -> Iterator[InstalledObject]:
    for name in names:
        try:
            body = connection.client.send(calls.get(resource, Key(namespace, name)))
        except NotFoundError:
            continue
        yield InstalledObject(resource, body)


def _print_objects(objects: list[InstalledObject]) -> None:
    for one in objects:
        sys.stdout.write(f"{one}\n")
    sys.stdout.flush()


def _ask(*, yes: bool) -> None:
    if yes:
        return
    if not sys.stdin.isatty():
        raise CommandError("nobody is there to ask", "say --yes, or --dry-run to look only")
    sys.stderr.write("delete all of this? [y/N] ")
    if sys.stdin.readline().strip().lower() not in {"y", "yes"}:
        raise CommandError("nothing was deleted")


def _some(jobs: list[InstalledObject]) -> str:
    names = ", ".join(map(str, jobs[:_SHOWN_MAX]))
    more = f" and {len(jobs) - _SHOWN_MAX} more" if jobs[_SHOWN_MAX:] else ""
    return f"{len(jobs)} {'job' if len(jobs) == 1 else 'jobs'} ({names}{more})"
