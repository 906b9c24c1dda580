"""Writes container images as tar files, without any engine: layers, a manifest and an index.

Decides the bytes of an image from its files and configuration alone: the same input gives the same
digest. Never talks to a registry.
"""

from __future__ import annotations

import hashlib
import io
import json
import platform
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
INDEX = "application/vnd.oci.image.index.v1+json"


@dataclass(frozen=True, slots=True)
class Image:
    """What an image is called, what it runs, and its layers as tar files, the lowest first."""

    reference: str
    layers: Sequence[bytes]
    entrypoint: Sequence[str] = ()
    environment: Sequence[str] = (
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    )
    user: str = ""


def write_images(file: Path, images: Sequence[Image]) -> None:
    """Write one tar that `ctr images import` reads, with every image in it."""
    blobs: dict[str, bytes] = {}
    manifests = [_add_image(blobs, image) for image in images]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    with tarfile.open(file, "w") as tar:
        add_file(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        add_file(tar, "index.json", _json(index))
        for digest, content in sorted(blobs.items()):
            add_file(tar, f"blobs/sha256/{digest}", content)


def _add_image(blobs: dict[str, bytes], image: Image) -> Mapping[str, object]:
    layers = [_add_blob(blobs, LAYER, layer) for layer in image.layers]
    config = {
        "architecture": ARCHITECTURES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "Entrypoint": list(image.entrypoint),
            "Env": list(image.environment),
            "User": image.user,
        },
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _add_blob(blobs, CONFIG, _json(config)),
        "layers": layers,
    }
    described = _add_blob(blobs, MANIFEST, _json(manifest))
    return {**described, "annotations": {"io.containerd.image.name": image.reference}}


def _add_blob(blobs: dict[str, bytes], media_type: str, content: bytes) -> Mapping[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def add_file(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    """Add a file of root's with no time, so that the same content gives the same tar."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
