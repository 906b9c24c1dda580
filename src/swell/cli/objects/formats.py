"""The formats that objects are printed in: `-o json`, `yaml`, `wide`, `name`, and by paths."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from swell.api.meta import Body
from swell.cli.command_line import USAGE, CommandError
from swell.cli.objects.jsonpath import JsonPathError, find_all, render, text_of
from swell.cli.options import text_of_file
from swell.cli.output import aligned, print_list, print_names, print_object

MISSING = "<none>"


class ObjectFormat(Enum):
    """The name of a format, as it is written after -o."""

    TABLE = ""
    WIDE = "wide"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"
    JSON_PATH = "jsonpath"
    CUSTOM_COLUMNS = "custom-columns"


_FROM_FILES = {
    "jsonpath-file": ObjectFormat.JSON_PATH,
    "custom-columns-file": ObjectFormat.CUSTOM_COLUMNS,
}
_GO_TEMPLATES = frozenset({"go-template", "go-template-file", "template", "templatefile"})


@dataclass(frozen=True, slots=True)
class OutputChoice:
    """The format that was asked for, with its template if it has one."""

    format: ObjectFormat
    template: str = ""
    has_headers: bool = True

    @property
    def is_table(self) -> bool:
        return self.format in {ObjectFormat.TABLE, ObjectFormat.WIDE}


def parse_output(text: str, *, has_headers: bool = True) -> OutputChoice:
    """Parse the value of -o; CommandError if it is none."""
    name, equals, template = text.partition("=")
    if name in _FROM_FILES and template:
        return OutputChoice(_FROM_FILES[name], _read_template(name, template), has_headers)
    if name in _GO_TEMPLATES:
        hint = "write -o jsonpath={.metadata.name}"
        raise CommandError(
            "templates of Go are not understood here, those of jsonpath are", hint, USAGE
        )
    known = {one.value: one for one in ObjectFormat if one is not ObjectFormat.TABLE}
    found = known.get(name)
    takes_template = found in {ObjectFormat.JSON_PATH, ObjectFormat.CUSTOM_COLUMNS}
    if not text:
        return OutputChoice(ObjectFormat.TABLE, has_headers=has_headers)
    if found is None or (equals and not takes_template):
        names = ", ".join(f"'{one}'" for one in known)
        message = f"Invalid value for '-o' / '--output': '{text}' is not one of {names}"
        raise CommandError(message, "for example: -o json, -o jsonpath={.metadata.name}", USAGE)
    if takes_template and not template:
        example = (
            "{.metadata.name}"
            if found is ObjectFormat.JSON_PATH
            else "NAME:.metadata.name,PHASE:.status.phase"
        )
        raise CommandError(f"-o {name} needs a template", f"write -o {name}={example}", USAGE)
    return OutputChoice(found, template, has_headers)


def _read_template(name: str, path: str) -> str:
    """Return the template in a file. Columns are a line of headings and one of paths there."""
    text = text_of_file(path)
    if _FROM_FILES[name] is ObjectFormat.JSON_PATH:
        return text
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if len(lines) != 2 or len(lines[0]) != len(lines[1]):
        hint = "for example: NAME PHASE, and below it: .metadata.name .status.phase"
        raise CommandError(f"{path}: write a line of headings, and one of paths", hint, USAGE)
    return ",".join(f"{heading}:{path}" for heading, path in zip(*lines, strict=True))


def print_objects(items: Sequence[Body], choice: OutputChoice, *, is_single: bool) -> None:
    """Print objects in a format that is no table; one that was named is no list."""
    whole: Body = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    match choice.format:
        case ObjectFormat.NAME:
            print_names(items)
        case ObjectFormat.JSON | ObjectFormat.YAML:
            as_yaml = choice.format is ObjectFormat.YAML
            if is_single:
                print_object(items[0], as_yaml=as_yaml)
            else:
                print_list(list(items), as_yaml=as_yaml)
        case ObjectFormat.JSON_PATH:
            sys.stdout.write(_templated(choice.template, items[0] if is_single else whole))
        case ObjectFormat.CUSTOM_COLUMNS:
            rows = column_rows(items, choice)
            sys.stdout.write(aligned(rows) + "\n" if rows else "")
        case ObjectFormat.TABLE | ObjectFormat.WIDE:
            raise AssertionError("tables are the server's")


def without_owners(item: Body) -> Body:
    """Return an object without its managedFields, which few people ever want to see."""
    metadata = item.get("metadata")
    if not isinstance(metadata, dict) or "managedFields" not in metadata:
        return item
    return {**item, "metadata": {k: v for k, v in metadata.items() if k != "managedFields"}}


def column_rows(items: Sequence[Body], choice: OutputChoice) -> list[list[str]]:
    """Return heading and rows of custom columns."""
    pairs = [part.partition(":") for part in choice.template.split(",")]
    wrong = [name for name, _, path in pairs if not name or not path]
    if wrong:
        hint = "write them as NAME:.metadata.name,PHASE:.status.phase"
        raise CommandError(f"not a column: {wrong[0]!r}", hint, USAGE)
    rows = [[name for name, _, _ in pairs]] if choice.has_headers else []
    rows += [[_cell(path, item) for _, _, path in pairs] for item in items]
    return rows


def sort_key(path: str, item: Body) -> tuple[int, float, str]:
    """Return the key by which objects sort: missing values first, then numbers, then texts."""
    found = _path(path, item)
    if not found:
        return 0, 0.0, ""
    value = found[0]
    if isinstance(value, int | float):
        return 1, float(value), ""
    return 2, 0.0, text_of(value)


def _cell(path: str, item: Body) -> str:
    return ",".join(map(text_of, _path(path, item))) or MISSING


def _path(path: str, item: Body) -> list[object]:
    try:
        return find_all(path, item)
    except JsonPathError as error:
        raise CommandError(f"{path}: {error}", "write it as .metadata.name", USAGE) from error


def _templated(template: str, value: Body) -> str:
    try:
        return render(template, value)
    except JsonPathError as error:
        raise CommandError(f"{template}: {error}", "write it as {.metadata.name}", USAGE) from error
