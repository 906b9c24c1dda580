"""Uninstalling leaves the history of jobs where it is, unless the user says otherwise."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from swell.history.shards import HISTORY_LABEL
from tests.contract.swell_command import Swell
from tests.contract.targets import embedded_server


@pytest.fixture(scope="module")
def kubeconfig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    home = tmp_path_factory.mktemp("uninstall")
    with embedded_server(home):
        yield home / "kubeconfig"


def test_the_history_stays_unless_it_is_named(
    kubeconfig: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    swell = Swell("lab", tmp_path, capsys)
    at = ("--kubeconfig", str(kubeconfig))
    shard = {"name": "swell-history-aitrainingjob-ended-00000", "namespace": "lab"}
    bodies = [
        {"kind": "Namespace", "metadata": {"name": "lab"}},
        {"kind": "Namespace", "metadata": {"name": "swell-system"}},
        {"kind": "ConfigMap", "metadata": {**shard, "labels": {HISTORY_LABEL: "ended"}}},
        {"kind": "ConfigMap", "metadata": {"name": "own", "namespace": "lab"}},
        {
            "kind": "ConfigMap",
            "metadata": {"name": "swell-operator", "namespace": "swell-system"},
        },
    ]
    manifest = swell.file(yaml.safe_dump_all([{"apiVersion": "v1", **one} for one in bodies]))
    assert swell("apply", "-f", manifest, *at).code == 0

    first = swell("uninstall", "--yes", *at)
    assert (first.code, "the history of jobs stays, in 1 ConfigMap" in first.out) == (0, True)
    assert shard["name"] in swell("get", "configmaps", "-n", "lab", *at).out

    second = swell("uninstall", "--history", "--yes", *at)
    assert (second.code, shard["name"] in second.out) == (0, True)
    left = swell("get", "configmaps", "-n", "lab", *at).out
    assert (shard["name"] in left, "own" in left) == (False, True)
