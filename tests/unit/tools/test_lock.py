"""Everything that is installed is pinned to an exact version, with the digests of its files."""

from __future__ import annotations

import re
import tomllib

import pytest

from tools.lock import ALONE, FOLDER, LAYERS, SOURCE

PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^ ;]+)", re.MULTILINE)
DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z0-9._-]+")
PROJECT = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]


def pinned(layer: str) -> dict[str, str]:
    """Packages and versions of a list and of the lists below it."""
    text = (FOLDER / f"{layer}.txt").read_text()
    found = {match["name"]: match["version"] for match in PIN.finditer(text)}
    below = re.search(r"^-r (\w+)\.txt$", text, re.MULTILINE)
    return found | (pinned(below[1]) if below else {})


@pytest.mark.parametrize("layer", [*LAYERS, *ALONE])
def test_every_pin_has_digests(layer: str) -> None:
    """Pip installs no file whose digest is not in the list."""
    entries = re.split(r"\n(?=[a-z0-9])", (FOLDER / f"{layer}.txt").read_text())
    bare = [entry for entry in entries if "==" in entry and not DIGEST.search(entry)]

    assert bare == []


@pytest.mark.parametrize(("layer", "extras"), LAYERS.items(), ids=LAYERS)
def test_every_requirement_is_pinned(layer: str, extras: tuple[str, ...]) -> None:
    """What pyproject.toml asks for is in the list: `make lock` was run after the last change."""
    wanted = [*PROJECT["dependencies"]]
    for extra in extras:
        wanted += PROJECT["optional-dependencies"][extra]
    names = {re.sub(r"[_.]", "-", NAME.match(one)[0]).lower() for one in wanted}  # type: ignore[index]

    assert names - pinned(layer).keys() == set()


@pytest.mark.parametrize("name", ALONE)
def test_every_requirement_of_its_own_environment_is_pinned(name: str) -> None:
    """Every line of the list's source is in the list."""
    lines = (FOLDER / f"{name}.in").read_text().splitlines()
    wanted = {NAME.match(line)[0] for line in lines if not line.startswith("#")}  # type: ignore[index]

    assert wanted - pinned(name).keys() == set()
