"""Parses `[KIND] [NAME]...` into a resource and names.

The first argument is a kind if it names one: by plural, short name or kind, with or without its
group. Our own kinds are known without a request; for others the server's discovery is read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from swell.api import codec
from swell.api.kinds import AI_TRAINING_JOBS, ALL
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli.command_line import USAGE, CommandError
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


# A job without a kind is one of ours; Kubernetes' own are `jobs.batch`.
_ANY_JOB = frozenset({"job", "jobs"})
_JOBS = ObjectArguments(AI_TRAINING_JOBS.untyped(), (), is_any_job=True)
ALL_KINDS = "all"
_SHOWN_BY_ALL = ("job", "pods", "services", "podgroups", "replicasets", "jobs.batch")


def parse_object_arguments(
    arguments: Sequence[str], client: OneShot
) -> tuple[ObjectArguments, ...]:
    """Parse `pods`, `pods a b`, `pods,services`, `pod/a node/b`, `all`, or names of jobs alone."""
    if not arguments:
        return (_JOBS,)
    first, *rest = arguments
    if "/" in first:
        return _parse_slashed(arguments, client)
    if "," in first or first == ALL_KINDS:
        kinds = _SHOWN_BY_ALL if first == ALL_KINDS else tuple(first.split(","))
        return tuple(replace(_of_kind(kind, client), names=tuple(rest)) for kind in kinds if kind)
    if first.lower() in _ANY_JOB:
        return (replace(_JOBS, names=tuple(rest)),)
    found = find_kind(first, client)
    if found is None:
        return (replace(_JOBS, names=tuple(arguments)),)
    return (ObjectArguments(found, tuple(rest)),)


def _parse_slashed(arguments: Sequence[str], client: OneShot) -> tuple[ObjectArguments, ...]:
    """Parse arguments that are all `kind/name`; those of one kind are put together."""
    names: dict[str, list[str]] = {}
    for argument in arguments:
        kind, _, name = argument.partition("/")
        if not name:
            raise CommandError("write every object as kind/name, or none", exit_code=USAGE)
        names.setdefault(kind, []).append(name)
    return tuple(replace(_of_kind(kind, client), names=tuple(of)) for kind, of in names.items())


def _of_kind(kind: str, client: OneShot) -> ObjectArguments:
    if kind.lower() in _ANY_JOB:
        return _JOBS
    found = find_kind(kind, client)
    if found is None:
        hint = "kinds are written like pods, nodes or aitj; see: swell api-resources"
        raise CommandError(f"the cluster has no kind {kind!r}", hint)
    return ObjectArguments(found, ())


def find_kind(name: str, client: OneShot) -> Resource[Body] | None:
    """Return the resource of a kind; our own list is looked through before discovery."""
    known = _match(name, (resource.untyped() for resource in ALL))
    return known or _match(name, discovered(client))


def resource_of(api_version: str, kind: str, client: OneShot) -> Resource[Body] | None:
    """Return the resource that serves objects of this apiVersion and kind."""

    def serves(resource: Resource[Body]) -> bool:
        return resource.api_version == api_version and resource.kind == kind

    known = next((r for r in ALL if serves(r.untyped())), None)
    if known is not None:
        return known.untyped()
    return next((r for r in discovered(client) if serves(r)), None)


def _match(kind: str, resources: Iterable[Resource[Body]]) -> Resource[Body] | None:
    name, _, group = kind.lower().partition(".")
    for resource in resources:
        names = {resource.plural, resource.kind.lower(), *resource.short_names}
        if name in names and (not group or group == resource.group):
            return resource
    return None


def discovered(client: OneShot) -> Iterator[Resource[Body]]:
    """Yield every resource that the server serves, in its order."""
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
