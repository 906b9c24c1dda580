"""Finds the words that a command line could go on with, for the scripts of `swell completion`.

The parsers of the commands say which flags there are and which values they take; the cluster that
the line would ask says which objects there are. A cluster that does not answer has none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from swell.api.kinds import ALL, NAMESPACES, NODES, PODS, PRIORITY_CLASSES, QUEUES
from swell.api.meta import Body
from swell.api.resource import Resource
from swell.cli.arguments import find_kind
from swell.cli.command_line import END_OF_OPTIONS, CommandError
from swell.cli.connection import ClusterConnection, connected
from swell.cli.job_kinds import JOB_KINDS
from swell.cli.main import COMMANDS, parser_of
from swell.cli.options import ClusterOptions
from swell.cluster.kube import calls
from swell.runtime.cluster import Selection
from swell.runtime.errors import ClusterError

# Commands whose arguments are `[KIND] NAME...`, those of jobs, and those of jobs and sweeps.
_OF_OBJECTS = frozenset({"get", "describe", "delete", "label", "annotate", "wait", "edit", "patch"})
_OF_JOBS = frozenset({"explain", "scale", "fail", "preempt", "suspend", "resume"})
_OF_JOBS_AND_SWEEPS = frozenset({"attach", "logs", "retry", "stop"})
_OF_NODES = frozenset({"cordon", "uncordon", "drain", "taint"})
_OF_PODS = frozenset({"logs", "exec", "port-forward"})
_FORMATS = ("json", "yaml", "wide", "name", "jsonpath=", "custom-columns=")
_SWEEPS = "sweeps"


def print_candidates(line: Sequence[str]) -> int:
    """Print every word that could stand in the place of the last one; the exit code is 0."""
    for word in candidates(line):
        sys.stdout.write(f"{word}\n")
    return 0


def candidates(line: Sequence[str]) -> list[str]:
    """Return what the last word of a line, which may be empty, could be."""
    *before, word = line or [""]
    if not before:
        return _matching(word, [name for name, _, _ in COMMANDS])
    if before[0] not in {name for name, _, _ in COMMANDS} or END_OF_OPTIONS in before:
        return []
    parser = parser_of(before[0]).commands[before[0]]
    arguments = before[1:]
    inner = getattr(parser, "commands", None)
    if inner is not None:
        if not arguments:
            return _matching(word, list(inner))
        parser = inner.get(arguments[0])
        if parser is None:
            return []
        arguments = arguments[1:]
    flags = {name: one for one in parser.params for name in (*one.opts, *one.secondary_opts)}
    if word.startswith("-"):
        return _matching(word, [name for name in flags if name.startswith("--")])
    namespace = _value_of(("-n", "--namespace"), before)
    if arguments and (option := flags.get(arguments[-1])) is not None and not option.is_flag:
        return _matching(word, _values_of(arguments[-1], option, namespace))
    plain = _plain(arguments, flags)
    return _matching(word, _names_for(before, plain, word, namespace))


def _matching(word: str, found: Sequence[str]) -> list[str]:
    return sorted({one for one in found if one.startswith(word)})


def _plain(arguments: Sequence[str], flags: dict[str, Any]) -> list[str]:
    """Return the arguments that are neither flags nor their values."""
    plain, is_value = [], False
    for argument in arguments:
        option = flags.get(argument)
        if option is None and not is_value and not argument.startswith("-"):
            plain.append(argument)
        is_value = option is not None and not option.is_flag
    return plain


def _values_of(flag: str, option: Any, namespace: str) -> list[str]:
    """Return the values that an option takes; none for numbers, texts and files."""
    choices = getattr(option.type, "choices", None)
    if choices:
        return [str(getattr(one, "value", one)) for one in choices]
    kinds: dict[str, Resource[Any]] = {
        "--namespace": NAMESPACES,
        "-n": NAMESPACES,
        "--queue": QUEUES,
        "--parent": QUEUES,
        "--priority": PRIORITY_CLASSES,
    }
    if flag in kinds:
        return _listed(lambda connection: _names(connection, kinds[flag].untyped(), ""))
    if flag in {"-o", "--output"}:
        return list(_FORMATS)
    if flag in {"--after", "--for"}:
        return _listed(lambda connection: _jobs(connection, namespace))
    if flag == "--context":
        return _contexts()
    return []


def _names_for(line: Sequence[str], plain: Sequence[str], word: str, namespace: str) -> list[str]:
    """Return the arguments that a command takes in this place."""
    command = line[0]
    if command == "use":
        return ["embedded", "-", *_contexts()]
    if command == "completion":
        return ["bash", "zsh", "fish"]

    def look(connection: ClusterConnection) -> list[str]:
        found: list[str] = []
        if command in _OF_OBJECTS:
            return _objects(connection, plain, word, namespace)
        if command in _OF_JOBS | _OF_JOBS_AND_SWEEPS:
            found += _jobs(connection, namespace)
        if command in _OF_JOBS_AND_SWEEPS:
            found += _sweeps(connection, namespace)
        if command in _OF_PODS:
            found += _names(connection, PODS.untyped(), namespace)
        if command in _OF_NODES:
            found += _names(connection, NODES.untyped(), "")
        if command == "queue":
            found += _names(connection, QUEUES.untyped(), "")
        return found

    return _listed(look)


def _objects(
    connection: ClusterConnection, plain: Sequence[str], word: str, namespace: str
) -> list[str]:
    """Return kinds and jobs for the first argument, and names of the kind for the others."""
    kind, slash, _ = word.partition("/")
    if slash:
        return [f"{kind}/{name}" for name in _of_kind(connection, kind, namespace)]
    if plain:
        return _of_kind(connection, plain[0], namespace)
    kinds = [one.plural for one in ALL if not one.subresource]
    return [*kinds, _SWEEPS, "all", *_jobs(connection, namespace)]


def _of_kind(connection: ClusterConnection, kind: str, namespace: str) -> list[str]:
    if kind in {"sweep", _SWEEPS}:
        return [name.partition("/")[2] for name in _sweeps(connection, namespace)]
    if kind in {"job", "jobs"}:
        return _jobs(connection, namespace)
    found = find_kind(kind, connection.client)
    return [] if found is None else _names(connection, found, namespace)


def _jobs(connection: ClusterConnection, namespace: str) -> list[str]:
    return [name for kind in JOB_KINDS for name in _names(connection, kind, namespace)]


def _sweeps(connection: ClusterConnection, namespace: str) -> list[str]:
    from swell.cli.sweeps.state import read_sweeps

    scope = connection.namespace(namespace)
    return [f"sweep/{state.name}" for state in read_sweeps(connection, scope)]


def _names(connection: ClusterConnection, resource: Resource[Body], namespace: str) -> list[str]:
    scope = connection.namespace(namespace) if resource.namespaced else ""
    with suppress(ClusterError):  # one that may not be listed, or is not served, has no names
        page = connection.client.send(calls.list_page(resource, Selection(scope)))
        return [body["metadata"]["name"] for body in page.items]
    return []


def _listed(look: Callable[[ClusterConnection], list[str]]) -> list[str]:
    """Return what a cluster has; nothing if there is none, without a word of it."""
    try:
        with connected(ClusterOptions()) as connection:
            return look(connection)
    except CommandError:
        return []


def _contexts() -> list[str]:
    """Return the contexts of the kubeconfig files that the environment names."""
    import yaml

    named = os.environ.get("KUBECONFIG", os.path.expanduser("~/.kube/config"))  # noqa: PTH111
    found: list[str] = []
    for path in named.split(os.pathsep):
        with suppress(OSError, yaml.YAMLError), open(path, encoding="utf-8") as file:  # noqa: PTH123
            content = yaml.safe_load(file)
            contexts = content.get("contexts") if isinstance(content, dict) else None
            found += [str(one["name"]) for one in contexts or () if isinstance(one, dict)]
    return found


def _value_of(flags: Sequence[str], line: Sequence[str]) -> str:
    """Return the value of an option that is given on a line; empty if it is not."""
    for at, argument in enumerate(line):
        name, equals, value = argument.partition("=")
        if name in flags and equals:
            return value
        if argument in flags and at + 1 < len(line):
            return line[at + 1]
    return ""
