"""Options that several commands share, and the way a command takes a group of them.

A group is a dataclass whose fields are annotated as options of typer. Fields are named as their
flags are: `--lease-name` is the field `lease_name`, and configuration files use the same names.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass, replace
from enum import StrEnum
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, cast, get_type_hints

import typer

from swell.cli.command_line import USAGE, CommandError

_UNITS_S = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_DAY_S = 86400.0
DURATION_HINT = "write it like 15s, 10m or 1h30m"
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


def text_of_file(file: str | Path) -> str:
    """Return the text in a file that the user named; CommandError if it is none.

    A byte order mark, which some editors write first, is left out.
    """
    return text_of_bytes(Path(file).read_bytes(), str(file))


def text_of_bytes(content: bytes, name: str) -> str:
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise CommandError(f"{name}:{line}: is not UTF-8", "save the file as UTF-8") from error


class OutputFormat(StrEnum):
    """Formats in which objects are printed; without one they are a table."""

    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"
    NAME = "name"


class JsonFormat(StrEnum):
    """The one format of commands that otherwise print text for people."""

    JSON = "json"


Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig file.", show_default=False)
]
Context = Annotated[
    str, typer.Option("--context", metavar="NAME", help="Kubeconfig context.", show_default=False)
]
Namespace = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace.", show_default=False)
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Every namespace.")]
Labels = Annotated[
    str, typer.Option("-l", "--selector", metavar="LABELS", help="Label selector, as key=value.")
]
FieldSelector = Annotated[
    str, typer.Option("--field-selector", metavar="FIELDS", help="Such as status.phase=Running.")
]
ObjectOutput = Annotated[
    str,
    typer.Option(
        "-o",
        "--output",
        metavar="FORMAT",
        help="json, yaml, wide, name, jsonpath=TEMPLATE or custom-columns=NAME:PATH,...",
        show_default=False,
    ),
]
OutputOption = Annotated[
    OutputFormat | None, typer.Option("-o", "--output", help="Format; a table without it.")
]
JsonOption = Annotated[JsonFormat | None, typer.Option("-o", "--output")]
Files = Annotated[
    list[str], typer.Option("-f", "--filename", metavar="FILE", help="Manifest; - is stdin.")
]
FilesAndFolders = Annotated[
    list[str],
    typer.Option("-f", "--filename", metavar="FILE", help="Manifest or folder; - is stdin."),
]
ObjectFiles = Annotated[
    list[str] | None,
    typer.Option("-f", "--filename", metavar="FILE", help="The objects of a manifest."),
]
EveryObject = Annotated[bool, typer.Option("--all", help="All objects of the kind.")]
Recursive = Annotated[
    bool, typer.Option("-R", "--recursive", help="Also the folders inside a folder.")
]


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """The flags by which a user chooses a cluster; `choice` decides what they mean."""

    kubeconfig: Kubeconfig = ""
    context: Context = ""
    embedded: Annotated[bool, typer.Option("--embedded", help="The embedded cluster.")] = False


def option_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Make every field of a command's dataclass parameters an option of its own.

    Typer reads signatures, so the returned function has one in which each dataclass parameter is
    replaced by its fields, in their order. When it is called it builds the dataclasses again. The
    default of such a parameter, an instance, gives the defaults of its options; without one the
    dataclass's own defaults hold.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, Any] = {}
    parameters: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        hint = hints[parameter.name]
        if is_dataclass(hint):
            is_given = parameter.default is not Parameter.empty
            groups[parameter.name] = parameter.default if is_given else cast("Any", hint)()
            parameters += _options_in(groups[parameter.name])
        else:
            parameters.append(parameter.replace(annotation=hint))

    @wraps(command)
    def expanded(**values: object) -> None:
        for name, defaults in groups.items():
            names = [field.name for field in fields(defaults) if field.name in values]
            values[name] = replace(defaults, **{field: values.pop(field) for field in names})
        command(**values)

    # Typer looks at both: the signature for the order, the annotations for the types.
    expanded.__signature__ = signature(command).replace(parameters=parameters)  # type: ignore[attr-defined]
    expanded.__annotations__ = {one.name: one.annotation for one in parameters}
    return expanded


def _options_in(defaults: Any) -> list[Parameter]:
    hints = get_type_hints(type(defaults), include_extras=True)
    return [
        Parameter(
            field.name,
            Parameter.KEYWORD_ONLY,
            default=getattr(defaults, field.name),
            annotation=hints[field.name],
        )
        for field in fields(defaults)
    ]


def option(flags: str, text: str, *, is_duration: bool = False) -> object:
    """Declare a flag that is also an environment variable: SWELL_ and its first name.

    `flags` are its names, by commas; the form `--x/--no-x` declares a pair.
    """
    names = flags.split(",")
    variable = "SWELL_" + names[0].split("/")[0].lstrip("-").replace("-", "_").upper()
    if is_duration:
        return typer.Option(
            *names, help=text, envvar=variable, parser=seconds_of, metavar="DURATION"
        )
    return typer.Option(*names, help=text, envvar=variable)


def seconds_of(text: str | float) -> float:
    """Return the seconds of a duration such as 15s, 10m, 1h30m or 500ms; ValueError if it is none.

    A bare number counts seconds, as text or as a number: configuration files hold numbers.
    """
    if not isinstance(text, str):
        return float(text)
    if text.replace(".", "", 1).isdecimal():
        return float(text)
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"not a duration: {text!r}; {DURATION_HINT}")
    return sum(float(number) * _UNITS_S[unit] for number, unit in parts)


def days_or_seconds_of(text: str | float) -> float:
    """Return the seconds of a duration, which may also be whole days, such as 7d."""
    days = text.removesuffix("d") if isinstance(text, str) else text
    if days != text and isinstance(days, str) and days.isdecimal():
        return float(days) * _DAY_S
    return seconds_of(text)


def check_amounts(*, cpu: str, memory: str, gpu: str) -> None:
    """Refuse a resource amount that is none; the message names the flag it was given with."""
    # Imported here: most commands have no amounts and should not load the node agent's package.
    from swell.node.machine import GPU, CapacityError, canonical

    given = {"cpu": cpu, "memory": memory, GPU: gpu}
    try:
        canonical({name: text for name, text in given.items() if text})
    except CapacityError as error:
        raise CommandError(str(error), "write it as 4, 500m or 2Gi", USAGE) from error


def names_in(text: str) -> tuple[str, ...]:
    """Return the names in a comma-separated text; blanks and empty names are dropped."""
    return tuple(filter(None, (name.strip() for name in text.split(","))))
