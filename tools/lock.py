"""`make lock`: pins everything that Swell installs, with the digests of all its files.

Three lists, each on top of the one before: `core` is what Swell imports and what the image holds,
`dev` adds what `make test` and `make check` need, `examples` what the examples train with. Lists
of their own are for environments of their own: `docs` for the site, `paddle`, since PaddlePaddle
pins other versions, and `torch`, since it is large. Pip refuses a file whose digest is not listed,
so a release that was replaced cannot get in unseen. Versions that are pinned already stay;
`--upgrade` takes the newest ones that have been out for a week: most releases with something bad in
them are found out and withdrawn sooner.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent
FOLDER = SOURCE / "requirements"
# Extras of the package, then groups of pyproject.toml, in each layer.
LAYERS: dict[str, tuple[str, ...]] = {"core": (), "dev": ("dev",), "examples": ("dev", "examples")}
EXTRA = "up"
# What each list is made from: a file, or a group.
ALONE = {
    "docs": ("--group", "docs"),
    "paddle": (str(FOLDER / "paddle.in"),),
    "torch": (str(FOLDER / "torch.in"),),
}
WAITING_TIME = "7 days"  # of a new release, before it is taken
OLDEST_PYTHON = "3.11"
HEADER = "# Written by `make lock`: exact versions, and the SHA-256 of every file of each.\n"


def main() -> int:
    parser = argparse.ArgumentParser(prog="make lock", description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions")
    upgrade: bool = parser.parse_args().upgrade
    FOLDER.mkdir(exist_ok=True)
    below: dict[str, str] = {}
    previous = ""
    for layer, groups in LAYERS.items():
        pins = _pins(layer, groups, below, upgrade)
        text = HEADER + (f"-r {previous}.txt\n" if previous else "")
        # What the list below has for some Pythons only may be needed for others here.
        text += "".join(entry for name, entry in pins.items() if below.get(name) != entry)
        (FOLDER / f"{layer}.txt").write_text(text)
        below, previous = below | pins, layer
    for name, sources in ALONE.items():
        kept = FOLDER / f"{name}.txt"
        pinned = kept.read_text() if kept.exists() and not upgrade else ""
        kept.write_text(HEADER + "".join(_compiled(pinned, [*sources]).values()))
    return 0


def _pins(
    layer: str, groups: tuple[str, ...], below: dict[str, str], upgrade: bool
) -> dict[str, str]:
    """Every package of a layer by name, with its entry as it stands in a requirements file."""
    with tempfile.TemporaryDirectory() as scratch:
        fixed, build = Path(scratch, "fixed.txt"), Path(scratch, "build.in")
        fixed.write_text("".join(below.values()))
        # Swell itself is built with what is pinned, too, except in the image's core.
        build.write_text("" if layer == "core" else "\n".join(_build_requirements()))
        kept = FOLDER / f"{layer}.txt"
        pinned = ""
        if kept.exists() and not upgrade:
            pinned = kept.read_text().replace("-r ", f"-r {FOLDER}/")
        options = ["--constraint", str(fixed), "--extra", EXTRA]
        options += [part for group in groups for part in ("--group", group)]
        return _compiled(pinned, [*options, "pyproject.toml", str(build)])


def _compiled(pinned: str, arguments: list[str]) -> dict[str, str]:
    """What is asked for by these arguments, with what is pinned already kept."""
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch, "output.txt")
        output.write_text(pinned)
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal"]
        command += ["--generate-hashes", "--no-annotate", "--no-header"]
        command += ["--python-version", OLDEST_PYTHON, "--exclude-newer", WAITING_TIME]
        command += ["--output-file", str(output), *arguments]
        subprocess.run(command, cwd=SOURCE, check=True)
        return _entries(output.read_text())


def _build_requirements() -> list[str]:
    system = tomllib.loads((SOURCE / "pyproject.toml").read_text())["build-system"]
    return list(system["requires"])


def _entries(text: str) -> dict[str, str]:
    """The entries of a requirements file: a line with the pin, then indented ones with digests."""
    entries: dict[str, str] = {}
    name = ""
    for line in text.splitlines(keepends=True):
        if not line.startswith(" "):
            name = line.partition("==")[0]
        entries[name] = entries.get(name, "") + line
    return entries


if __name__ == "__main__":
    sys.exit(main())
