"""Lists how the built-in kinds are written in protobuf, and writes it as data.

Run from the top of the tree: `python -m tools.list_protobuf_fields [--check]`. Each message gets
its fields by number: the name in JSON (empty for a message whose fields belong to its parent), the
type (`repeated T` for a list, `map T` for a map from texts), and `zero` where the zero of the type
is a value of its own and not the same as no field at all.

Numbers and types are facts of the published API (Apache-2.0). They are read from the Go modules
that `make testbed` downloads: types from `generated.proto`, JSON names and pointers from the tags
in the Go sources beside it.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tools.list_zero_values import DATA_DIR, STRUCT, module_dir

SCHEMAS = DATA_DIR / "builtin-schemas.json"
OUTPUT = DATA_DIR / "protobuf-fields.json"
META = "io.k8s.apimachinery.pkg.apis.meta.v1"
SCALARS = frozenset({"bool", "bytes", "double", "int32", "int64", "string"})
# One DeleteOptions is published under every group; its message is in the group of metadata.
ELSEWHERE = {"io.k8s.api.core.v1.DeleteOptions": f"{META}.DeleteOptions"}

MESSAGE = re.compile(r"^message (\w+) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(
    r"^  (?:(optional|repeated) (\S+)|map<string, (\S+)>) (\w+) = (\d+);", re.MULTILINE
)
TAGGED = re.compile(
    r'^\t(?:\w+\s+)?(\S+)\s+`(?:json:"([\w$-]*)([^"]*)" )?[^`]*?protobuf:"\w+,(\d+)', re.MULTILINE
)


class Tag(NamedTuple):
    """The tags of one field in Go. A name of None says that they give none in JSON."""

    name: str | None
    keeps_zero: bool


class ExtractionError(Exception):
    """The Go modules are not what this program understands; the text says where."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="List the fields of messages in protobuf.")
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if it differs")
    flags = parser.parse_args(arguments)
    text = protobuf_data()
    same = OUTPUT.is_file() and OUTPUT.read_text() == text
    if not same and not flags.check:
        OUTPUT.write_text(text)
    state = "unchanged" if same else "differs" if flags.check else "written"
    print(f"{OUTPUT}: {len(text)} bytes, {state}", file=sys.stderr)
    return 1 if flags.check and not same else 0


def protobuf_data() -> str:
    """The data file: the message of every kind, and the fields of all messages they reach."""
    document = json.loads(SCHEMAS.read_text())
    kinds = {
        kind: ELSEWHERE.get(definition, definition)
        for kind, definition in document["kinds"].items()
        if not kind.endswith(("List", "/Status"))  # no client sends them
    }
    messages: dict[str, dict[str, list[str]]] = {}
    pending = sorted(set(kinds.values()))
    while pending:
        name = pending.pop()
        if name not in messages:
            messages[name] = fields_of(name)
            pending += [kind for kind in map(_item_type, messages[name].values()) if "." in kind]
    data = {"kinds": kinds, "messages": messages}
    # One line a message, so that a difference between releases can be read.
    return json.dumps(data, sort_keys=True, separators=(",", ":")).replace("},", "},\n") + "\n"


def fields_of(name: str) -> dict[str, list[str]]:
    """The fields of a message by their number."""
    package, _, short = name.rpartition(".")
    fields = _messages(package).get(short)
    if fields is None:
        raise ExtractionError(f"{name} is in no generated.proto")
    tags = _tags(package).get(short, {})
    found: dict[str, list[str]] = {}
    for label, single, value, proto_name, number in fields:
        kind = _resolved(single or value, package)
        tag = tags.get(number, Tag(None, keeps_zero=False))
        entry = [proto_name if tag.name is None else tag.name]
        entry.append(
            f"map {kind}" if value else f"repeated {kind}" if label == "repeated" else kind
        )
        if tag.keeps_zero and entry[1] in SCALARS:
            entry.append("zero")
        found[number] = entry
    return found


@cache
def _messages(package: str) -> dict[str, list[tuple[str, str, str, str, str]]]:
    text = (_folder(package) / "generated.proto").read_text()
    return {name: FIELD.findall(body) for name, body in MESSAGE.findall(text)}


@cache
def _tags(package: str) -> dict[str, dict[str, Tag]]:
    """The tags of every struct of a package, by field number."""
    found: dict[str, dict[str, Tag]] = {}
    for file in sorted(_folder(package).glob("*.go")):
        if file.name.startswith("generated") or file.name.endswith("_test.go"):
            continue
        for name, body in STRUCT.findall(file.read_text()):
            found[name] = dict(_struct_tags(body))
    return found


def _struct_tags(body: str) -> Iterator[tuple[str, Tag]]:
    for kind, name, options, number in TAGGED.findall(body):
        inline = "inline" in options
        keeps_zero = kind.startswith("*") or "omit" not in options
        # A field without a JSON name has code of its own for JSON; its messages keep their names.
        yield number, Tag(name if inline or name not in {"", "-"} else None, keeps_zero)


def _folder(package: str) -> Path:
    """The folder of a Go package, from the name that OpenAPI gives it."""
    module, _, path = package.removeprefix("io.k8s.").partition(".")
    return module_dir(f"k8s.io/{module}") / path.replace(".", "/")


def _resolved(kind: str, package: str) -> str:
    """A type as a scalar's name or as the name of a definition in OpenAPI."""
    if kind in SCALARS:
        return kind
    if kind.startswith("."):
        return "io.k8s." + kind.removeprefix(".k8s.io.").replace("_", "-")
    if "." in kind or not kind[0].isupper():
        raise ExtractionError(f"{package}: the type {kind} is not understood")
    return f"{package}.{kind}"


def _item_type(entry: list[str]) -> str:
    return entry[1].rpartition(" ")[2]


if __name__ == "__main__":
    raise SystemExit(main())
