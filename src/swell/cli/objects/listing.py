"""The commands `swell events`, `api-resources` and `auth can-i`: what a cluster tells of itself."""

from __future__ import annotations

import sys
import time
from typing import Annotated

import typer

from swell.api.kinds import EVENTS
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.arguments import discovered
from swell.cli.command_line import USAGE, CommandError, note
from swell.cli.connection import connected
from swell.cli.job_kinds import JOB_KINDS
from swell.cli.objects.events import event_order, events_table
from swell.cli.objects.finding import wanted_objects
from swell.cli.objects.waiting import found_objects
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import aligned, print_list
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection

auth = typer.Typer(help="Rights: what you may do.", no_args_is_help=True, add_completion=False)
_REVIEWS: Resource[Body] = Resource(
    "authorization.k8s.io",
    "v1",
    "SelfSubjectAccessReview",
    "selfsubjectaccessreviews",
    dict,
    namespaced=False,
)


@option_groups
def events(
    *,
    for_: Annotated[
        str, typer.Option("--for", metavar="[KIND/]NAME", help="About this object alone.")
    ] = "",
    output: options.JsonOption = None,
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    cluster: ClusterOptions,
) -> None:
    """Show what has happened, the oldest first; of a job, also what happened to its pods."""
    with connected(cluster) as connection:
        scope = "" if everywhere else connection.namespace(namespace)
        found = list(
            connection.client.send(calls.list_page(EVENTS.untyped(), Selection(scope))).items
        )
        if for_:
            bodies = found_objects([for_], connection, scope)
            found = [one for one in found if any(is_about(one, body) for body in bodies)]
        found.sort(key=event_order)
        if output is not None:
            print_list(found, as_yaml=False)
        elif found:
            rows = events_table(found, time.time(), with_object=True)
            sys.stdout.write(aligned(rows) + "\n")
        else:
            note("no events")


@option_groups
def api_resources(
    *,
    no_headers: Annotated[bool, typer.Option("--no-headers", help="Rows alone.")] = False,
    output: options.JsonOption = None,
    cluster: ClusterOptions,
) -> None:
    """Show the kinds that the cluster serves."""
    with connected(cluster) as connection:
        if output is not None:
            print_list([_kind_body(one) for one in discovered(connection.client)], as_yaml=False)
            return
        rows = [["NAME", "SHORTNAMES", "APIVERSION", "NAMESPACED", "KIND"]]
        for one in discovered(connection.client):
            names = ",".join(one.short_names)
            scope = str(one.namespaced).lower()
            rows.append([one.plural, names, one.api_version, scope, one.kind])
        sys.stdout.write(aligned(rows[1:] if no_headers else rows) + "\n")


def _kind_body(resource: Resource[Body]) -> Body:
    return {
        "name": resource.plural,
        "shortNames": list(resource.short_names),
        "apiVersion": resource.api_version,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
    }


@auth.command("can-i")
@option_groups
def can_i(
    arguments: Annotated[
        list[str], typer.Argument(metavar="VERB KIND[/NAME]", help="Such as: create aitj")
    ],
    *,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Tell whether you may do something; exit code 1 if not."""
    if len(arguments) != 2:
        raise CommandError(
            "write a verb and a kind", "for example: swell auth can-i create aitj", USAGE
        )
    verb, what = arguments
    kind, _, name = what.partition("/")
    with connected(cluster) as connection:
        (target, *_) = wanted_objects([kind], connection, Selection(namespace))
        attributes: Body = {
            "verb": verb,
            "group": target.resource.group,
            "resource": target.resource.plural,
            "namespace": connection.namespace(namespace) if target.resource.namespaced else "",
            **({"name": name} if name else {}),
        }
        review: Body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "metadata": {},
            "spec": {"resourceAttributes": attributes},
        }
        call = calls.create(_REVIEWS, review)
        allowed = bool(connection.client.send(call).get("status", {}).get("allowed"))
    sys.stdout.write("yes\n" if allowed else "no\n")
    if not allowed:
        raise typer.Exit(1)


def is_about(event: Body, body: Body) -> bool:
    """Whether an event is about an object, or about a pod that an object of this name owns."""
    about, meta = event.get("involvedObject") or {}, body["metadata"]
    if about.get("uid"):
        is_itself = about["uid"] == meta["uid"]
    else:
        is_itself = (about.get("kind"), about.get("name")) == (body.get("kind"), meta["name"])
    # The operator names pods JOB-ROLE-INDEX, and events outlive pods: their owner cannot be asked.
    is_job = body.get("kind") in {kind.kind for kind in JOB_KINDS}
    is_of_pod = about.get("kind") == "Pod" and str(about.get("name", "")).startswith(
        f"{meta['name']}-"
    )
    is_of_group = (about.get("kind"), about.get("name")) == ("PodGroup", meta["name"])
    return is_itself or (is_job and (is_of_pod or is_of_group))
