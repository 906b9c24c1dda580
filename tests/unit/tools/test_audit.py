"""An audit without data is not a clean one."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from tools import audit
from tools.audit import NO_DATA, verdict


def _answer(*packages: Mapping[str, object]) -> str:
    return json.dumps({"dependencies": list(packages)})


SOUND = {"name": "rich", "version": "15.0.0", "vulns": []}
UNKNOWN = {"name": "numpy", "skip_reason": "not found"}
FLAWED = {
    "name": "aiohttp",
    "version": "3.0",
    "vulns": [{"id": "PYSEC-1", "fix_versions": ["3.1"]}],
}


def test_sound_packages_pass() -> None:
    assert verdict([(_answer(SOUND), "")]) == (0, "1 of 1 packages checked, 0 known flaws")


def test_flaws_are_named_with_the_version_that_mends_them() -> None:
    code, text = verdict([(_answer(SOUND, FLAWED), "")])

    assert code == 1
    assert "aiohttp 3.0: PYSEC-1 (mended in 3.1)" in text


def test_packages_without_data_are_named() -> None:
    """Nothing is known about them: the audit has not succeeded."""
    code, text = verdict([(_answer(SOUND, UNKNOWN), "")])

    assert code == NO_DATA
    assert "no data on 1: numpy" in text


def test_service_that_cannot_be_reached_is_said() -> None:
    code, text = verdict([("", "Traceback\nConnectionError: no route\n")])

    assert (code, text) == (NO_DATA, "no data, nothing was checked: ConnectionError: no route")


def test_every_list_is_audited(monkeypatch: pytest.MonkeyPatch) -> None:
    """A list that another one includes is not found through it."""
    asked: list[str] = []

    def ask(file: Path) -> tuple[str, str]:
        asked.append(file.name)
        return _answer(SOUND), ""

    monkeypatch.setattr(audit, "_ask", ask)

    assert audit.main() == 0
    assert {"core.txt", "dev.txt", "docs.txt", "examples.txt", "paddle.txt", "torch.txt"} <= {
        *asked
    }


def test_package_of_two_lists_counts_once() -> None:
    """The lists of other environments have packages of the core, too."""
    code, text = verdict([(_answer(SOUND), ""), (_answer(SOUND, FLAWED), "")])

    assert code == 1
    assert "2 packages checked, 1 known flaws" in text
