"""Parses `[KIND] [NAME]...` into a resource and names.

The first argument is a kind if it names one: by plural, short name or kind, with or without its
group. Our own kinds are known without a request; for others the server's discovery is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from swell.api import codec
from swell.api.kinds import AI_TRAINING_JOBS, ALL
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli.command_line import CommandError
from swell.cluster.kube.calls import raw
from swell.cluster.kube.oneshot import OneShot

# Aggregated discovery: all groups in two requests instead of one for each.
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


@dataclass(frozen=True, slots=True)
class ObjectArguments:
    """The resource and the names of objects that a command is about; no names mean all.

    `is_any_job` says that no kind was given: the names are those of jobs of either kind.
    """

    resource: Resource[Body]
    names: tuple[str, ...]
    is_any_job: bool = False


def parse_object_arguments(arguments: Sequence[str], client: OneShot) -> ObjectArguments:
    """Parse `pods`, `pods a b`, `pod/a`, or names alone, which are names of jobs."""
    if not arguments:
        return ObjectArguments(AI_TRAINING_JOBS.untyped(), (), is_any_job=True)
    first, *rest = arguments
    if "/" in first:
        return _parse_slashed(arguments, client)
    found = find_kind(first, client)
    if found is None:
        return ObjectArguments(AI_TRAINING_JOBS.untyped(), tuple(arguments), is_any_job=True)
    return ObjectArguments(found, tuple(rest))


def _parse_slashed(arguments: Sequence[str], client: OneShot) -> ObjectArguments:
    """Parse arguments that are all `kind/name`, of one kind."""
    pairs = [argument.partition("/") for argument in arguments]
    kinds = {kind for kind, _, _ in pairs}
    if len(kinds) > 1 or not all(name for _, _, name in pairs):
        raise CommandError("give kind/name words of one kind only", exit_code=2)
    found = find_kind(pairs[0][0], client)
    if found is None:
        hint = "kinds are written like pods, nodes or aitj"
        raise CommandError(f"the cluster has no kind {pairs[0][0]!r}", hint)
    return ObjectArguments(found, tuple(name for _, _, name in pairs))


def find_kind(name: str, client: OneShot) -> Resource[Body] | None:
    """Return the resource of a kind; our own list is looked through before discovery."""
    known = _match(name, (resource.untyped() for resource in ALL))
    return known or _match(name, _discovered(client))


def resource_of(api_version: str, kind: str, client: OneShot) -> Resource[Body] | None:
    """Return the resource that serves objects of this apiVersion and kind."""

    def serves(resource: Resource[Body]) -> bool:
        return resource.api_version == api_version and resource.kind == kind

    known = next((r for r in ALL if serves(r.untyped())), None)
    if known is not None:
        return known.untyped()
    return next((r for r in _discovered(client) if serves(r)), None)


def _match(kind: str, resources: Iterable[Resource[Body]]) -> Resource[Body] | None:
    name, _, group = kind.lower().partition(".")
    for resource in resources:
        names = {resource.plural, resource.kind.lower(), *resource.short_names}
        if name in names and (not group or group == resource.group):
            return resource
    return None


def _discovered(client: OneShot) -> Iterator[Resource[Body]]:
    for path in ("/api", "/apis"):
        answer = codec.decode(client.send(raw(path, accept=_DISCOVERY)), dict)
        for group in answer.get("items") or []:
            name = group.get("metadata", {}).get("name", "")
            for version in group.get("versions") or []:
                for found in version.get("resources") or []:
                    yield _resource(name, version["version"], found)


def _resource(group: str, version: str, found: Body) -> Resource[Body]:
    return Resource(
        group,
        version,
        found.get("responseKind", {}).get("kind", ""),
        found["resource"],
        dict,
        namespaced=found.get("scope") == "Namespaced",
        short_names=tuple(found.get("shortNames") or ()),
    )
