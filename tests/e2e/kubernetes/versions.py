"""The version of Swell before this one: its image, made by its own sources."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from image.oci import add_file
from tests.e2e.kubernetes.installed import BUILD_S_MAX, IMAGE, SOURCES
from tests.testbed.cluster import ROOT

PREVIOUS = "localhost/swell:previous"
PRODUCT = "src/swell"
# What building a package needs besides what an image is made of.
EXPORTED = (*SOURCES, "README.md", "LICENSE")
NAME = "io.containerd.image.name"


class NoHistoryError(Exception):
    """There is no older version to be had here."""


def previous_image(folder: Path) -> Path:
    """An image of what the product was before the last change of it, under a name of its own."""
    source = folder / "previous"
    (source / "dist").mkdir(parents=True)
    exported = _git("archive", _commit_before(), "--", *EXPORTED)
    with tarfile.open(fileobj=io.BytesIO(exported)) as tar:
        tar.extractall(source, filter="data")
    for base in IMAGE.parent.glob("base-*.tar"):
        os.link(base, source / "dist" / base.name)  # used if it is the same
    build = [sys.executable, "-m", "image.build"]
    subprocess.run(build, cwd=source, check=True, timeout=BUILD_S_MAX)
    return _renamed(source / "dist" / IMAGE.name, folder / "previous.tar")


def _commit_before() -> str:
    last = _git("log", "-1", "--format=%H", "--", PRODUCT).decode().strip()
    try:
        return _git("rev-parse", "--verify", "--quiet", f"{last}^").decode().strip()
    except subprocess.CalledProcessError as error:
        raise NoHistoryError(
            f"no version of {PRODUCT} before {last or 'the first commit'}: this clone has too "
            "little history, `git fetch --unshallow` brings the rest"
        ) from error


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    return done.stdout


def _renamed(image: Path, file: Path) -> Path:
    """The same image under the other name."""
    with tarfile.open(image) as old, tarfile.open(file, "w") as new:
        for member in old:
            content = old.extractfile(member)
            assert content is not None
            if member.name == "index.json":
                index = json.load(content)
                index["manifests"][0]["annotations"][NAME] = PREVIOUS
                add_file(new, member.name, json.dumps(index).encode())
            else:
                new.addfile(member, content)
    return file
