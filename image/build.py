"""`make image`: writes dist/swell-image.tar, an image that any container runtime imports.

The same sources give the same bytes. There are two layers: Swell, and what it stands on, which is
kept in dist/ until what it is made of changes; remove it there to get Debian's newest packages.
`--root FOLDER` writes the file system alone, which is how the Dockerfile comes to the same content.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import platform
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Collection
from pathlib import Path

from image import root
from image.debian import PackagesError
from image.oci import Image, write_images

SOURCE = Path(__file__).resolve().parent.parent
FILE = SOURCE / "dist" / "swell-image.tar"
BIGGEST = 12
# Everything that the image's programs may load, and not only the entry.
VERSION = """
import importlib, importlib.metadata, pkgutil
import swell
parts = [found.name for found in pkgutil.walk_packages(swell.__path__, "swell.")]
for name in parts:
    if not name.startswith(("swell.train", "swell.demo", "swell.__main__")):
        importlib.import_module(name)
print(importlib.metadata.version("swell"), "with", len(parts), "modules")
"""


def main() -> int:
    parser = argparse.ArgumentParser(prog="image", description=__doc__)
    parser.add_argument("--root", type=Path, help="write the file system to this empty folder")
    only_root: Path | None = parser.parse_args().root
    try:
        with tempfile.TemporaryDirectory(prefix="swell-image-") as scratch:
            if only_root is not None:
                root.make_base(only_root.resolve(), SOURCE, Path(scratch), _say)
                root.add_swell(only_root.resolve(), SOURCE, Path(scratch))
            else:
                _build(Path(scratch))
    except PackagesError as error:
        _say(f"{error}\nOn a machine without Debian's packages use image/Dockerfile.")
        return 1
    except root.RootError as error:
        _say(str(error))
        return 1
    return 0


def reference() -> str:
    """The name that the manifests under deploy/ use."""
    project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
    return f"localhost/swell:{project['version']}"


def _build(scratch: Path) -> None:
    FILE.parent.mkdir(exist_ok=True)
    base = _base(scratch)
    tree = scratch / "root"
    with tarfile.open(base) as tar:
        tar.extractall(tree, filter="fully_trusted")
    below = set(tree.rglob("*"))
    root.add_swell(tree, SOURCE, scratch)
    version = root.run_inside(tree, ["-c", VERSION], SOURCE)
    _say(f"its own Python imports swell {version.strip()}")
    image = Image(
        reference(),
        [base.read_bytes(), layer(tree, below)],
        entrypoint=("swell",),
        environment=("PATH=/usr/bin", f"PYTHONPATH=/{root.LIBRARY}", "HOME=/tmp"),
        user=f"{root.USER}:{root.USER}",
    )
    write_images(FILE, [image])
    _show(tree)


def _base(scratch: Path) -> Path:
    """The layer that Swell stands on, made unless there is one of the same."""
    made_by = [SOURCE / "image" / name for name in ("root.py", "debian.py", "build.py")]
    parts = [file.read_text() for file in (*made_by, SOURCE / root.CORE)]
    parts.append(platform.machine())
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    kept = FILE.parent / f"base-{digest[:12]}.tar"
    if not kept.exists():
        tree = scratch / "base"
        tree.mkdir()
        root.make_base(tree, SOURCE, scratch, _say)
        unfinished = kept.with_suffix(".part")
        unfinished.write_bytes(layer(tree))
        for older in FILE.parent.glob("base-*.tar"):
            older.unlink()
        unfinished.rename(kept)
    return kept


def layer(tree: Path, below: Collection[Path] = ()) -> bytes:
    """The folder, but for what is below already, as a tar: root's, no times, in order of names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for path in sorted(set(tree.rglob("*")).difference(below)):
            tar.add(path, str(path.relative_to(tree)), recursive=False, filter=_plain)
    return content.getvalue()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    entry.mtime = 0
    return entry


def _show(tree: Path) -> None:
    parts = {
        f"/{part.relative_to(tree)}": _size(part)
        for folder in (tree / root.LIBRARY, tree / "usr/lib")
        for part in folder.iterdir()
    }
    total = _size(tree)
    print(f"{reference()}  {total / 2**20:.0f} MiB  {FILE.relative_to(SOURCE)}")
    biggest = sorted(parts.items(), key=lambda entry: (-entry[1], entry[0]))[:BIGGEST]
    for name, size in biggest:
        print(f"{size / 2**20:8.1f} MiB  {name}")
    rest = total - sum(size for _, size in biggest)
    print(f"{rest / 2**20:8.1f} MiB  everything else")


def _size(path: Path) -> int:
    if path.is_symlink() or not path.is_dir():
        return path.lstat().st_size
    return sum(file.lstat().st_size for file in path.rglob("*") if not file.is_dir())


def _say(text: str) -> None:
    print(f"image: {text}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
