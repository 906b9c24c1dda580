"""Everything that is installed is pinned to an exact version, with the digests of its files."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tools.lock import ALONE, EXTRA, FOLDER, LAYERS, SOURCE

PIN = re.compile(r"^(?P<name>[a-z0-9][a-z0-9.-]*)==(?P<version>[^ ;]+)", re.MULTILINE)
DIGEST = re.compile(r"--hash=sha256:[0-9a-f]{64}")
NAME = re.compile(r"[A-Za-z0-9._-]+")
CONFIGURATION = tomllib.loads((SOURCE / "pyproject.toml").read_text())


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


def names_of(wanted: list[str]) -> set[str]:
    """The packages of requirements, as lists spell them."""
    return {re.sub(r"[_.]", "-", NAME.match(one)[0]).lower() for one in wanted}  # type: ignore[index]


@pytest.mark.parametrize(("layer", "groups"), LAYERS.items(), ids=LAYERS)
def test_every_requirement_is_pinned(layer: str, groups: tuple[str, ...]) -> None:
    """What pyproject.toml asks for is in the list: `make lock` was run after the last change."""
    project = CONFIGURATION["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"][EXTRA]]
    for group in groups:
        wanted += CONFIGURATION["dependency-groups"][group]

    assert names_of(wanted) - pinned(layer).keys() == set()


def test_whatever_builds_the_package_is_pinned() -> None:
    """The installation of `make` builds without a network of its own."""
    assert names_of(CONFIGURATION["build-system"]["requires"]) - pinned("dev").keys() == set()


@pytest.mark.parametrize(("name", "source"), ALONE.items(), ids=ALONE)
def test_every_requirement_of_its_own_environment_is_pinned(
    name: str, source: tuple[str, ...]
) -> None:
    """Every line of the list's source is in the list."""
    if source[0] == "--group":
        wanted = CONFIGURATION["dependency-groups"][source[1]]
    else:
        lines = Path(source[0]).read_text().splitlines()
        wanted = [line for line in lines if not line.startswith("#")]

    assert names_of(wanted) - pinned(name).keys() == set()
