"""`swell uninstall` knows every object that `deploy/` creates."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from swell.cli.cluster import uninstall

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
FOLDERS = ("operator", "scheduler", "metrics", "roles", "page")
RESOURCES = {
    one.kind: names
    for kinds, names in (
        (uninstall.IN_NAMESPACE, uninstall.NAMES),
        (uninstall.IN_CLUSTER, uninstall.CLUSTER_NAMES),
    )
    for one in kinds
}


def created(folder: str) -> list[tuple[str, str]]:
    bodies = [
        body
        for path in sorted((DEPLOY / folder).glob("*.yaml"))
        for body in yaml.safe_load_all(path.read_text())
    ]
    return [(b["kind"], b["metadata"]["name"]) for b in bodies if b["kind"] != "Kustomization"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_object_is_known(folder: str) -> None:
    found = created(folder)

    assert found
    assert [one for one in found if one[1] not in RESOURCES.get(one[0], ())] == []
