"""The images of the real nodes: a busybox to test with, and the sandbox that every pod has."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

from image.oci import Image, add_file

PAUSE = "localhost/swell-pause:1"
BUSYBOX = "localhost/busybox:1"
NEVER_ENDS = ("/bin/sleep", "2147483647")


def busybox_images(busybox: Path) -> list[Image]:
    """The image that every pod's sandbox runs, and the one that tests run."""
    layer = _busybox_layer(busybox.read_bytes())
    return [Image(PAUSE, [layer], entrypoint=NEVER_ENDS), Image(BUSYBOX, [layer])]


def _busybox_layer(program: bytes) -> bytes:
    """A file system with busybox under every name it answers to, and little else."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        add_file(tar, "bin/busybox", program, mode=0o755)
        for name in APPLETS:
            link = tarfile.TarInfo(f"bin/{name}")
            link.type, link.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(link)
        add_file(tar, "etc/passwd", b"root:x:0:0:root:/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
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
    *(
        "id",
        "kill",
        "ln",
        "ls",
        "mkdir",
        "mkfifo",
        "mv",
        "nc",
        "nslookup",
        "od",
        "printf",
        "ps",
        "pwd",
        "rm",
    ),
    *("sed", "seq", "sh", "sleep", "sort", "stat", "tail", "tee", "test", "touch", "tr", "true"),
    *("wc", "wget", "yes"),
)
