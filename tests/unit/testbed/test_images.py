"""Images written without an engine: everything in them has the digest that names it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from pathlib import Path
from typing import Any

from image.oci import write_images
from testbed.images import BUSYBOX, PAUSE, busybox_images


def read(file: Path) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    with tarfile.open(file) as tar:
        for member in tar.getmembers():
            content = tar.extractfile(member)
            assert content is not None
            found[member.name] = content.read()
    return found


def write(folder: Path) -> Path:
    program = folder / "busybox"
    program.write_bytes(b"a program")
    file = folder / "images.tar"
    write_images(file, busybox_images(program))
    return file


def test_images_are_found_by_digest(tmp_path: Path) -> None:
    """The index names both images; manifest, configuration and layer are where it says."""
    files = read(write(tmp_path))
    for name, content in files.items():
        if name.startswith("blobs/"):
            assert name == f"blobs/sha256/{hashlib.sha256(content).hexdigest()}"

    def blob(described: dict[str, Any]) -> bytes:
        content = files[f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"]
        assert len(content) == described["size"]
        return content

    index = json.loads(files["index.json"])
    names = [one["annotations"]["io.containerd.image.name"] for one in index["manifests"]]
    assert names == [PAUSE, BUSYBOX]
    for described in index["manifests"]:
        manifest = json.loads(blob(described))
        config = json.loads(blob(manifest["config"]))
        (layer,) = manifest["layers"]
        assert config["rootfs"]["diff_ids"] == [layer["digest"]]
        (tmp_path / "layer.tar").write_bytes(blob(layer))
        with tarfile.open(tmp_path / "layer.tar") as tar:
            assert tar.getmember("bin/sh").linkname == "busybox"
            assert tar.getmember("bin/busybox").mode == 0o755


def test_images_of_the_same_files_are_the_same(tmp_path: Path) -> None:
    """Nothing but the input decides a byte."""
    assert write(tmp_path).read_bytes() == write(tmp_path).read_bytes()
