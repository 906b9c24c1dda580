"""Writes deploy/chart/README.md: every value of the chart, with its default and its comment.

`python -m tools.write_values` after a change of values.yaml; a test fails while they differ.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

CHART = Path(__file__).resolve().parent.parent / "deploy" / "chart"
_LINE = re.compile(r"^(?P<indent> *)(?P<name>\w+):\s*(?P<value>.*?)\s*(?:(?<=\s)# (?P<says>.*))?$")

HEAD = """\
# Chart of Swell

Installs the operator, the scheduler and, if asked to, the page. It renders the manifests that
`kubectl apply -k deploy/` applies, with what the values below change.

```
helm install swell deploy/chart --namespace swell-system --create-namespace --wait
helm test swell --namespace swell-system
```

Definitions of kinds (`crds/`) are installed when they are missing; `--skip-crds` leaves them out.
Helm never changes or removes them. After an upgrade of Swell:

```
kubectl apply --server-side -k deploy/crds
```

All names begin with `swell`, whatever the release is called: one cluster has one Swell.
[Installation](../../docs/installation.md) has the rest.

## Values

`values.schema.json` refuses names that are not here. `python -m tools.write_values` writes this.

| value | default | says |
| --- | --- | --- |
"""


def values(text: str) -> Iterator[tuple[str, str, str]]:
    """The path, default and comment of every value; one with parts only if it has a comment."""
    lines = [found for line in text.splitlines() if (found := _LINE.match(line))]
    path: list[str] = []
    for at, line in enumerate(lines):
        depth = len(line["indent"]) // 2
        path[depth:] = [line["name"]]
        following = lines[at + 1] if at + 1 < len(lines) else None
        is_group = following is not None and len(following["indent"]) > len(line["indent"])
        if not is_group or line["says"]:
            yield ".".join(path), "" if is_group else line["value"], line["says"] or ""


def page() -> str:
    rows = [
        f"| `{name}` | {f'`{value}`' if value else ''} | {says} |\n"
        for name, value, says in values((CHART / "values.yaml").read_text())
    ]
    return HEAD + "".join(rows)


def main() -> int:
    (CHART / "README.md").write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
