"""The image's bytes follow from its content alone."""

from __future__ import annotations

import io
import os
import tarfile
from pathlib import Path

from image.build import layer, reference

DEPLOY = Path(__file__).parents[3] / "deploy"


def _tree(folder: Path) -> Path:
    (folder / "usr/bin").mkdir(parents=True)
    (folder / "usr/bin/swell").write_text("#!python")
    (folder / "usr/bin/swell").chmod(0o755)
    (folder / "bin").symlink_to("usr/bin")
    return folder


def test_layer_is_the_same_for_the_same_content(tmp_path: Path) -> None:
    """Neither the time nor the maker of a file reaches the image."""
    first, second = _tree(tmp_path / "first"), _tree(tmp_path / "second")
    os.utime(second / "usr/bin/swell", (1, 1))
    assert layer(first) == layer(second)


def test_layer_belongs_to_root(tmp_path: Path) -> None:
    """Everything in the image is root's; links and modes stay as they are."""
    with tarfile.open(fileobj=io.BytesIO(layer(_tree(tmp_path / "tree")))) as tar:
        entries = {entry.name: entry for entry in tar}
    assert {(entry.uid, entry.gid, entry.mtime) for entry in entries.values()} == {(0, 0, 0)}
    assert entries["bin"].linkname == "usr/bin"
    assert entries["usr/bin/swell"].mode == 0o755


def test_reference_is_the_one_that_deploy_names() -> None:
    """What `make image` writes is what the manifests ask for."""
    name, tag = reference().split(":")
    text = "".join(file.read_text() for file in DEPLOY.rglob("kustomization.yaml"))
    assert f"newName: {name}" in text
    assert f"newTag: {tag}" in text


def test_layer_leaves_out_what_is_below(tmp_path: Path) -> None:
    """A layer on another holds only what was added since."""
    tree = _tree(tmp_path / "tree")
    below = set(tree.rglob("*"))
    (tree / "usr/lib").mkdir()
    (tree / "usr/lib/more.py").write_text("")

    with tarfile.open(fileobj=io.BytesIO(layer(tree, below))) as tar:
        assert tar.getnames() == ["usr/lib", "usr/lib/more.py"]
