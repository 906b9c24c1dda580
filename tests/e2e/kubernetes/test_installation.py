"""The installation guide, followed word by word on a cluster with real nodes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.kubernetes.installed import image
from tests.e2e.up.test_tutorial import missing, steps
from tests.testbed.binaries import binary
from tests.testbed.cluster import BUSYBOX, ROOT, RealCluster, running_cluster

STEP_S_MAX = 300.0
IMAGE_SIZE_MAX = 120_000_000


@pytest.fixture
def fresh(testbed_binaries: None, tmp_path: Path) -> Iterator[RealCluster]:
    """A cluster that never saw Swell, but for its image."""
    with running_cluster(tmp_path / "cluster") as cluster:
        cluster.load_images(image())
        yield cluster


@pytest.fixture
def reader(fresh: RealCluster, tmp_path: Path) -> dict[str, str]:
    """Somebody with the files of this repository, and the programs that the guide uses."""
    for name in ("deploy", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name)
    example = tmp_path / "examples" / "containers.yaml"
    example.write_text(example.read_text().replace("busybox:1", BUSYBOX))
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("kubectl", "helm"):
        (programs / name).symlink_to(binary(name))
    swell = programs / "swell"
    swell.write_text(f'#!/bin/sh\nexec {sys.executable} -m swell.cli.main "$@"\n')
    swell.chmod(0o755)
    path = f"{programs}:{os.environ.get('PATH', '')}"
    return {"PATH": path, "HOME": str(tmp_path), "KUBECONFIG": str(fresh.kubeconfig)}


def test_image_is_small() -> None:
    """Nodes pull it before the first pod starts; layers are not compressed."""
    assert image().stat().st_size <= IMAGE_SIZE_MAX


def test_guide_is_true(reader: dict[str, str], tmp_path: Path) -> None:
    """Every command works, and prints what the guide shows."""
    for step in steps((ROOT / "docs" / "installation.md").read_text()):
        ended = subprocess.run(
            ["bash", "-c", step.script],
            env=reader,
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=STEP_S_MAX,
            check=False,
        )

        assert ended.returncode == 0, f"{step.script}\n{ended.stdout}"
        assert not missing(step.lines, ended.stdout), f"{step}\n{ended.stdout}"
