"""The commands `swell auth can-i` and `auth whoami`: who you are, and what you may do."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.objects.finding import wanted_objects
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.output import aligned, to_json
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection

app = typer.Typer(help="Rights: what you may do.", no_args_is_help=True, add_completion=False)


@app.command("can-i")
@option_groups
def can_i(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="VERB KIND[/NAME]", help="Such as: create aitj, get pods/log."),
    ] = None,
    *,
    shows_all: Annotated[
        bool, typer.Option("--list", help="All that you may do in the namespace.")
    ] = False,
    subresource: Annotated[
        str, typer.Option("--subresource", metavar="NAME", help="Such as log, scale or status.")
    ] = "",
    namespace: options.Namespace = "",
    everywhere: options.AllNamespaces = False,
    cluster: ClusterOptions,
) -> None:
    """Tell whether you may do something; exit code 1 if not."""
    if shows_all:
        if arguments:
            raise CommandError("--list takes no verb", "leave it out", USAGE)
        with connected(cluster) as connection:
            sys.stdout.write(aligned(_rules(connection, namespace)) + "\n")
        return
    if arguments is None or len(arguments) != 2:
        raise CommandError(
            "write a verb and a kind", "for example: swell auth can-i create aitj", USAGE
        )
    verb, what = arguments
    with connected(cluster) as connection:
        attributes = _attributes(what, subresource, connection)
        is_everywhere = everywhere or attributes.pop("isClusterWide", False)
        scope = "" if is_everywhere else connection.namespace(namespace)
        asked = {"resourceAttributes": {**attributes, "verb": verb, "namespace": scope}}
        answer = _review(connection, "authorization.k8s.io", "SelfSubjectAccessReview", asked)
    is_allowed = bool(answer.get("allowed"))
    sys.stdout.write("yes\n" if is_allowed else "no\n")
    if not is_allowed:
        raise typer.Exit(1)


@app.command("whoami")
@option_groups
def whoami(*, output: options.JsonOption = None, cluster: ClusterOptions) -> None:
    """Tell who the cluster takes you for."""
    with connected(cluster) as connection:
        found = _review(connection, "authentication.k8s.io", "SelfSubjectReview", {})
    user: Body = found.get("userInfo") or {}
    if output is not None:
        sys.stdout.write(to_json(user))
        return
    rows = [["ATTRIBUTE", "VALUE"], ["Username", str(user.get("username", ""))]]
    rows += [["Group", str(group)] for group in user.get("groups") or ()]
    sys.stdout.write(aligned(rows) + "\n")


def _attributes(what: str, subresource: str, connection: ClusterConnection) -> Body:
    """Return the attributes of a question for `KIND`, `KIND/NAME` or `*`."""
    kind, _, name = what.partition("/")
    part = {"subresource": subresource} if subresource else {}
    named = {"name": name} if name else {}
    if kind == "*":
        return {"group": "*", "resource": "*", **part, **named}
    (target, *_) = wanted_objects([kind], connection, Selection())
    if target.names:
        hint = "see: swell api-resources"
        raise CommandError(f"the cluster has no kind {kind!r}", hint)
    resource = target.resource
    wide = {} if resource.namespaced else {"isClusterWide": True}
    return {"group": resource.group, "resource": resource.plural, **part, **named, **wide}


def _rules(connection: ClusterConnection, namespace: str) -> list[list[str]]:
    """Return heading and rows of the rules that hold for this user in a namespace."""
    asked = {"namespace": connection.namespace(namespace)}
    found = _review(connection, "authorization.k8s.io", "SelfSubjectRulesReview", asked)
    rows = [["RESOURCES", "NAMES", "VERBS"]]
    for rule in found.get("resourceRules") or ():
        groups, names = rule.get("apiGroups") or ("",), ",".join(rule.get("resourceNames") or ())
        for resource in rule.get("resources") or ():
            for group in groups:
                full = f"{resource}.{group}" if group else str(resource)
                rows.append([full, names or "-", ",".join(rule.get("verbs") or ())])
    for rule in found.get("nonResourceRules") or ():
        verbs = ",".join(rule.get("verbs") or ())
        rows += [[str(path), "-", verbs] for path in rule.get("nonResourceURLs") or ()]
    return rows


def _review(connection: ClusterConnection, group: str, kind: str, asked: Body) -> Body:
    """Ask the server about the caller, and return what it says."""
    reviews: Resource[Body] = Resource(
        group, "v1", kind, f"{kind.lower()}s", dict, namespaced=False
    )
    body: Body = {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {}}
    body |= {"spec": asked} if asked else {}
    return connection.client.send(calls.create(reviews, body)).get("status") or {}
