"""The command `swell patch`: changes some fields of objects, and leaves the others as they are."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer
import yaml

from swell.api.meta import Body, Key
from swell.api.resource import Resource
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.connection import connected
from swell.cli.objects.finding import each_served, read_objects, wanted_objects
from swell.cli.objects.outcome import WritingOptions, WrittenReport
from swell.cli.options import ClusterOptions, option_groups, text_of_file
from swell.cluster.kube import calls
from swell.runtime.cluster import Patch, PatchKind, Selection


class PatchType(StrEnum):
    """The ways to write a patch."""

    MERGE = "merge"
    JSON = "json"
    STRATEGIC = "strategic"


_KINDS = {
    PatchType.MERGE: PatchKind.MERGE,
    PatchType.JSON: PatchKind.JSON,
    PatchType.STRATEGIC: PatchKind.STRATEGIC,
}
# The groups of Kubernetes' own kinds that are not named *.k8s.io.
_BUILT_IN_GROUPS = frozenset({"", "apps", "autoscaling", "batch", "policy"})


@option_groups
def patch(
    arguments: Annotated[
        list[str], typer.Argument(metavar="[KIND] NAME...", help="Kind (jobs without it); names.")
    ],
    *,
    change: Annotated[
        str, typer.Option("-p", "--patch", metavar="CHANGE", help="The fields, as JSON or YAML.")
    ] = "",
    file: Annotated[
        str, typer.Option("--patch-file", metavar="FILE", help="A file that has them.")
    ] = "",
    kind: Annotated[
        PatchType | None,
        typer.Option("--type", help="Of the patch; merge, but for Kubernetes' own kinds."),
    ] = None,
    subresource: Annotated[
        str, typer.Option("--subresource", metavar="NAME", help="Such as status or scale.")
    ] = "",
    outcome: WritingOptions,
    namespace: options.Namespace = "",
    cluster: ClusterOptions,
) -> None:
    """Change some fields of objects."""
    content = _content(change, file, kind)
    telling = WrittenReport(outcome)
    with connected(cluster, writes=True) as connection:
        wanted = wanted_objects(arguments, connection, Selection(namespace))
        if not all(one.names for one in wanted):
            raise CommandError(f"which {wanted[0].resource.plural}? give their names", "", USAGE)
        for one, bodies in each_served(wanted, lambda one: read_objects(one, connection)):
            resource = one.resource.sub(subresource, dict) if subresource else one.resource
            found = Patch(_KINDS[kind or default_type(resource)], content)
            for body in bodies:
                key = Key(body["metadata"].get("namespace", ""), body["metadata"]["name"])
                done = body
                if telling.is_sent:
                    call = calls.patch(resource, key, found, telling.options)
                    done = connection.client.send(call)
                # A line names the object, also where a part of it was patched, such as its scale.
                shown = done if telling.wants_objects else body
                telling.tell(shown, _word(body, done))
        telling.end()


def default_type(resource: Resource[Body]) -> PatchType:
    """Return the type that kubectl has for kinds of Kubernetes' own, and the one others take."""
    is_built_in = resource.group in _BUILT_IN_GROUPS or resource.group.endswith(".k8s.io")
    return PatchType.STRATEGIC if is_built_in else PatchType.MERGE


def _word(before: Body, after: Body) -> str:
    versions = {body["metadata"].get("resourceVersion") for body in (before, after)}
    return "patched" if len(versions) > 1 or before is after else "patched (no change)"


def _content(change: str, file: str, kind: PatchType | None) -> object:
    if bool(change) == bool(file):
        hint = """for example: swell patch fit -p '{"spec": {"priority": "high"}}'"""
        raise CommandError("say what to change, by -p or by --patch-file", hint, USAGE)
    text = change or text_of_file(file)
    try:
        content: object = yaml.safe_load(text)
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise CommandError(
            f"the patch is neither JSON nor YAML: {said}", exit_code=USAGE
        ) from error
    wanted = list if kind is PatchType.JSON else dict
    if not isinstance(content, wanted):
        what = "a list of operations" if wanted is list else "an object with the fields to change"
        example = (
            '[{"op": "replace", "path": "/spec/priority", "value": "high"}]'
            if wanted is list
            else '{"spec": {"priority": "high"}}'
        )
        raise CommandError(f"this patch has to be {what}", f"for example: {example}", USAGE)
    return content
