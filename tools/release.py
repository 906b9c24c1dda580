"""`make release`: writes to dist/ what a release consists of, besides the image.

- `swell.yaml`: all of `deploy/` in one file, for `kubectl apply --server-side -f`.
- the wheel and the source archive, for pip.
- `kubectl-swell.tar.gz` and `krew/swell.yaml`: `kubectl swell` for krew, and its manifest.
- `SHA256SUMS`: digests of all these.

The same sources give the same bytes. `--url` is where the files are going to be served from.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import yaml

from tools.kustomize import render, to_yaml
from tools.write_version import SOURCE, version

DIST = SOURCE / "dist"
MANIFEST = "swell.yaml"
PLUGIN = "kubectl-swell"
ARCHIVE = f"{PLUGIN}.tar.gz"
KREW = "krew/swell.yaml"
SUMS = "SHA256SUMS"
NOWHERE = "https://swell.example"
# Swell is a Python package, which krew cannot install: its plugin runs the one that is installed.
SCRIPT = """\
#!/bin/sh
if ! command -v swell >/dev/null 2>&1; then
    echo "error: kubectl swell runs the command swell, which is not on the PATH" >&2
    echo "  install it: pip install swell" >&2
    exit 1
fi
exec swell "$@"
"""
CAVEATS = "It runs the command `swell`, which has to be on the PATH: pip install swell"
DESCRIPTION = """\
Submits elastic deep-learning jobs and shows them: jobs, why they wait, their logs, their queues.
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.release", description=__doc__)
    parser.add_argument("--url", default=NOWHERE, help="where the files will be served from")
    url: str = parser.parse_args().url
    made = [_write(MANIFEST, one_file().encode()), *_packages()]
    archive = plugin_archive()
    made.append(_write(ARCHIVE, archive))
    made.append(_write(KREW, krew_manifest(archive, url).encode()))
    sums = "".join(f"{_digest(path.read_bytes())}  {path.relative_to(DIST)}\n" for path in made)
    for path in (*made, _write(SUMS, sums.encode())):
        print(path.relative_to(SOURCE))
    return 0


def one_file() -> str:
    """Return all that `kubectl apply -k deploy/` applies, as one file."""
    head = f"# Swell {version()}: kubectl apply --server-side -f {MANIFEST}\n"
    return head + to_yaml(render(SOURCE / "deploy"))


def plugin_archive() -> bytes:
    """Return the archive that krew unpacks: the plugin and the license."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for name, data, mode in (
            ("LICENSE", (SOURCE / "LICENSE").read_bytes(), 0o644),
            (PLUGIN, SCRIPT.encode(), 0o755),
        ):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return gzip.compress(content.getvalue(), mtime=0)


def krew_manifest(archive: bytes, url: str) -> str:
    """Return krew's description of the plugin, which names the archive with its digest."""
    systems = {"key": "os", "operator": "In", "values": ["darwin", "linux"]}
    platform: dict[str, Any] = {
        "selector": {"matchExpressions": [systems]},
        "uri": f"{url.rstrip('/')}/{ARCHIVE}",
        "sha256": _digest(archive),
        "bin": PLUGIN,
    }
    spec = {
        "version": f"v{version()}",
        "homepage": url,
        "shortDescription": "Elastic deep-learning jobs",
        "description": DESCRIPTION,
        "caveats": CAVEATS,
        "platforms": [platform],
    }
    plugin = {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "swell"},
        "spec": spec,
    }
    return yaml.safe_dump(plugin, sort_keys=False, width=100)


def _packages() -> list[Path]:
    """Build the source archive and the wheel, by the backend that pip would call."""
    build = "import sys; from hatchling import build as b; print(getattr(b, sys.argv[1])('dist'))"
    return [
        DIST / _run([sys.executable, "-c", build, step]).splitlines()[-1]
        for step in ("build_sdist", "build_wheel")
    ]


def _run(command: list[str]) -> str:
    return subprocess.run(command, cwd=SOURCE, check=True, stdout=subprocess.PIPE, text=True).stdout


def _write(name: str, data: bytes) -> Path:
    path = DIST / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
