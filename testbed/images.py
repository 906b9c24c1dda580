"""Writes container images as tar files, without any engine: one layer, one manifest, one index.

Decides the bytes of an image from its files and configuration alone: the same input gives the same
digest. Never talks to a registry.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

PAUSE = "localhost/swell-pause:1"
BUSYBOX = "localhost/busybox:1"
LAYER = "application/vnd.oci.image.layer.v1.tar"
CONFIG = "application/vnd.oci.image.config.v1+json"
MANIFEST = "application/vnd.oci.image.manifest.v1+json"
INDEX = "application/vnd.oci.image.index.v1+json"
NEVER_ENDS = ("/bin/sleep", "2147483647")


@dataclass(frozen=True, slots=True)
class Image:
    """What an image is called, what it runs, and the tar file that is its only layer."""

    reference: str
    layer: bytes
    entrypoint: Sequence[str] = ()
    environment: Sequence[str] = (
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    )


def write_images(file: Path, images: Sequence[Image]) -> None:
    """Write one tar that `ctr images import` reads, with every image in it."""
    blobs: dict[str, bytes] = {}
    manifests = [_add_image(blobs, image) for image in images]
    index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests}
    with tarfile.open(file, "w") as tar:
        _add_file(tar, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
        _add_file(tar, "index.json", _json(index))
        for digest, content in sorted(blobs.items()):
            _add_file(tar, f"blobs/sha256/{digest}", content)


def busybox_images(busybox: Path) -> list[Image]:
    """The image that every pod's sandbox runs, and the one that tests run."""
    layer = _busybox_layer(busybox.read_bytes())
    return [Image(PAUSE, layer, entrypoint=NEVER_ENDS), Image(BUSYBOX, layer)]


def _busybox_layer(program: bytes) -> bytes:
    """A file system with busybox under every name it answers to, and little else."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        _add_file(tar, "bin/busybox", program, mode=0o755)
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        _add_file(
            tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
        )
    return content.getvalue()


APPLETS = (
    *(
        "cat",
        "chmod",
        "cp",
        "cut",
        "date",
        "dd",
        "echo",
        "env",
        "false",
        "grep",
        "head",
        "hostname",
    ),
    *("id", "kill", "ln", "ls", "mkdir", "mv", "nc", "nslookup", "od", "printf", "ps", "pwd", "rm"),
    *("sed", "seq", "sh", "sleep", "sort", "stat", "tail", "tee", "test", "touch", "tr", "true"),
    *("wc", "wget", "yes"),
)


def _add_image(blobs: dict[str, bytes], image: Image) -> Mapping[str, object]:
    layer = _add_blob(blobs, LAYER, image.layer)
    config = {
        "architecture": "amd64",
        "os": "linux",
        "config": {"Entrypoint": list(image.entrypoint), "Env": list(image.environment)},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST,
        "config": _add_blob(blobs, CONFIG, _json(config)),
        "layers": [layer],
    }
    described = _add_blob(blobs, MANIFEST, _json(manifest))
    return {**described, "annotations": {"io.containerd.image.name": image.reference}}


def _add_blob(blobs: dict[str, bytes], media_type: str, content: bytes) -> Mapping[str, object]:
    digest = hashlib.sha256(content).hexdigest()
    blobs[digest] = content
    return {"mediaType": media_type, "digest": f"sha256:{digest}", "size": len(content)}


def _add_file(tar: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    tar.addfile(entry, io.BytesIO(content))


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True).encode()
