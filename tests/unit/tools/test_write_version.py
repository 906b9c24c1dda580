"""The version is decided in one place, and the same in all others."""

from __future__ import annotations

import pytest

from tools.write_version import PLACES, SOURCE, changed, version


@pytest.mark.parametrize(("name", "before"), PLACES)
def test_place_has_the_version(name: str, before: str) -> None:
    """`python -m tools.write_version` changes nothing, and finds the place at all."""
    text = (SOURCE / name).read_text()

    assert changed(text, before, version()) == text
    assert changed(text, before, "9.9.9") != text


def test_no_other_manifest_names_a_version() -> None:
    """A kustomization that is new has to be listed."""
    naming = {
        str(file.relative_to(SOURCE))
        for file in (SOURCE / "deploy").rglob("kustomization.yaml")
        if "newTag:" in file.read_text() and file == file.resolve()
    }

    assert naming == {name for name, before in PLACES if before == "newTag: "}
