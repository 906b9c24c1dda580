"""Lists the optional fields of the built-in kinds that keep a zero value, and writes it as data.

Run from the top of the tree: `python -m tools.list_pointer_fields`. An API server drops an optional
field that holds its type's zero value (`""`, `0`, `false`, an empty list) unless the field is a
pointer in its Go type, which no OpenAPI document says. The types are read from the Go modules that
`make testbed` downloads.
"""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

DATA_DIR = Path("src/swell/cluster/embedded/data")
TYPES = {
    "io.k8s.api.": ("k8s.io/api", "{group}/{version}/types.go"),
    "io.k8s.apimachinery.pkg.apis.meta.": ("k8s.io/apimachinery", "pkg/apis/meta/v1/types.go"),
    "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.": (
        "k8s.io/apiextensions-apiserver",
        "pkg/apis/apiextensions/v1/types*.go",
    ),
}
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r'^\t\w+\s+(\S+)\s+`[^`]*json:"([\w$-]+)(,[^"]*)?"', re.MULTILINE)


def pointer_fields(sources: list[str]) -> dict[str, list[str]]:
    """By Go type name: JSON names of pointer fields that may be left out."""
    found: dict[str, list[str]] = {}
    for source in sources:
        for name, body in STRUCT.findall(source):
            fields = [
                json_name
                for go_type, json_name, options in FIELD.findall(body)
                if go_type.startswith("*") and "omitempty" in options
            ]
            found[name] = sorted(fields)
    return found


def module_dir(module: str) -> Path:
    command = ["go", "list", "-m", "-f", "{{.Dir}}", module]
    done = subprocess.run(command, cwd="testbed/kubernetes", check=True, capture_output=True)
    return Path(done.stdout.decode().strip())


def sources_of(definition: str) -> list[str]:
    for prefix, (module, pattern) in TYPES.items():
        if definition.startswith(prefix):
            group, version = definition.removeprefix(prefix).split(".")[:2]
            path = pattern.format(group=group, version=version)
            return [file.read_text() for file in sorted(module_dir(module).glob(path))]
    return []


def main() -> None:
    document = json.loads((DATA_DIR / "builtin-schemas.json").read_text())
    parsed: dict[str, dict[str, list[str]]] = {}
    kept: dict[str, list[str]] = {}
    for definition in sorted(document["definitions"]):
        package, _, name = definition.rpartition(".")
        if package not in parsed:
            parsed[package] = pointer_fields(sources_of(definition))
        if fields := parsed[package].get(name):
            kept[definition] = fields
    text = json.dumps(kept, indent=0, sort_keys=True)
    (DATA_DIR / "pointer-fields.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
