"""What a release consists of: one manifest of everything, and the plugin that krew installs."""

from __future__ import annotations

import hashlib
import io
import subprocess
import tarfile
from pathlib import Path

import pytest
import yaml

from tools.kustomize import FILE, KustomizationError, Object, render, to_yaml
from tools.release import ARCHIVE, PLUGIN, krew_manifest, one_file, plugin_archive
from tools.write_version import SOURCE, version


def test_one_file_has_everything_in_order() -> None:
    """Namespace and definitions come before what needs them; the image is of this version."""
    objects = list(yaml.safe_load_all(one_file()))
    kinds = [found["kind"] for found in objects]
    images = {
        container["image"]
        for found in objects
        if found["kind"] == "Deployment"
        for container in found["spec"]["template"]["spec"]["containers"]
    }

    assert kinds[0] == "Namespace"
    assert set(kinds[1:6]) == {"CustomResourceDefinition"}
    assert images == {f"localhost/swell:{version()}"}


def test_objects_and_accounts_get_the_namespace(tmp_path: Path) -> None:
    """Objects of the cluster stay out of it; the accounts that their bindings name do not."""
    account = {"kind": "ServiceAccount", "name": "a"}
    objects: list[Object] = [
        {"kind": "ClusterRoleBinding", "metadata": {"name": "a"}, "subjects": [account]},
        {"kind": "ServiceAccount", "metadata": {"name": "a"}},
    ]
    (tmp_path / "all.yaml").write_text(to_yaml(objects))
    (tmp_path / FILE).write_text("namespace: here\nresources: [all.yaml]\n")

    binding, placed = render(tmp_path)

    assert "namespace" not in binding["metadata"]
    assert binding["subjects"][0]["namespace"] == "here"
    assert placed["metadata"]["namespace"] == "here"


def test_what_is_not_known_is_refused(tmp_path: Path) -> None:
    """A field that would be passed over in silence is named instead."""
    (tmp_path / FILE).write_text("resources: []\npatches: []\n")

    with pytest.raises(KustomizationError, match="patches"):
        render(tmp_path)


def test_manifest_names_the_archive() -> None:
    """krew checks the digest, and finds the program in the archive; both are made anew the same."""
    archive = plugin_archive()
    (platform,) = yaml.safe_load(krew_manifest(archive, "https://here.example/v1/"))["spec"][
        "platforms"
    ]

    assert archive == plugin_archive()
    assert platform["sha256"] == hashlib.sha256(archive).hexdigest()
    assert platform["uri"] == f"https://here.example/v1/{ARCHIVE}"
    with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
        assert tar.getmember(platform["bin"]).mode == 0o755
        assert tar.getmember("LICENSE").size == (SOURCE / "LICENSE").stat().st_size


@pytest.mark.parametrize("is_installed", [True, False])
def test_plugin_runs_swell(tmp_path: Path, *, is_installed: bool) -> None:
    """With the arguments as they came, or it says what to install."""
    with tarfile.open(fileobj=io.BytesIO(plugin_archive())) as tar:
        tar.extractall(tmp_path, filter="data")
    if is_installed:
        (tmp_path / "swell").write_text('#!/bin/sh\nprintf "<%s>" "$@"\n')
        (tmp_path / "swell").chmod(0o755)

    done = subprocess.run(
        [str(tmp_path / PLUGIN), "get", "a b"],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == (0 if is_installed else 1)
    assert done.stdout == ("<get><a b>" if is_installed else "")
    assert done.stderr.endswith("" if is_installed else "  install it: pip install swell\n")
