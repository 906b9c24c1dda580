"""Lists how the built-in kinds show zero values, and writes it as data.

Run from the top of the tree: `python -m tools.list_zero_values`. An API server drops an optional
field that holds its type's zero value (`""`, `0`, `false`, an empty list) unless the field is a
pointer in its Go type, and shows an unset time as null unless the field says otherwise; no OpenAPI
document tells. The types are read from the Go modules that `make testbed` downloads.
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
TIMES = ("metav1.Time", "metav1.MicroTime", "Time", "MicroTime")
STRUCT = re.compile(r"^type (\w+) struct \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)
FIELD = re.compile(r'^\t\w+\s+(\S+)\s+`[^`]*json:"([\w$-]+)(,[^"]*)?"', re.MULTILINE)


def shown_zeros(sources: list[str]) -> dict[str, dict[str, list[str]]]:
    """By Go type name: fields that keep a zero value, and times that are shown as null."""
    found: dict[str, dict[str, list[str]]] = {}
    for source in sources:
        for name, body in STRUCT.findall(source):
            fields = FIELD.findall(body)
            pointers = [n for kind, n, options in fields if kind[0] == "*" and options]
            times = [n for kind, n, options in fields if kind in TIMES and "zero" not in options]
            lists = {"pointers": sorted(pointers), "nullTimes": sorted(times)}
            found[name] = {key: names for key, names in lists.items() if names}
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
    parsed: dict[str, dict[str, dict[str, list[str]]]] = {}
    kept: dict[str, dict[str, list[str]]] = {}
    for definition in sorted(document["definitions"]):
        package, _, name = definition.rpartition(".")
        if package not in parsed:
            parsed[package] = shown_zeros(sources_of(definition))
        if fields := parsed[package].get(name):
            kept[definition] = fields
    text = json.dumps(kept, indent=0, sort_keys=True)
    (DATA_DIR / "zero-values.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
