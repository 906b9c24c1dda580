"""`make image`: writes dist/swell-image.tar, an image that any container runtime imports.

The same sources give the same bytes. `--root FOLDER` writes the file system alone, which is how
the Dockerfile comes to the same content.
"""

from __future__ import annotations

import argparse
import io
import sys
import tarfile
import tempfile
import tomllib
from pathlib import Path

from image import root
from image.debian import PackagesError
from image.oci import Image, write_images

SOURCE = Path(__file__).resolve().parent.parent
FILE = SOURCE / "dist" / "swell-image.tar"
BIGGEST = 12
VERSION = "import swell.cli.main, importlib.metadata as m; print(m.version('swell'))"


def main() -> int:
    parser = argparse.ArgumentParser(prog="image", description=__doc__)
    parser.add_argument("--root", type=Path, help="write the file system to this empty folder")
    only_root: Path | None = parser.parse_args().root
    try:
        with tempfile.TemporaryDirectory(prefix="swell-image-") as scratch:
            if only_root is not None:
                root.make(only_root.resolve(), SOURCE, Path(scratch), _say)
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
    tree = scratch / "root"
    tree.mkdir()
    root.make(tree, SOURCE, scratch, _say)
    version = root.run_inside(tree, ["-c", VERSION], SOURCE)
    _say(f"its own Python imports swell {version.strip()}")
    FILE.parent.mkdir(exist_ok=True)
    image = Image(
        reference(),
        layer(tree),
        entrypoint=("swell",),
        environment=("PATH=/usr/bin", f"PYTHONPATH=/{root.LIBRARY}", "HOME=/tmp"),
        user=f"{root.USER}:{root.USER}",
    )
    write_images(FILE, [image])
    _show(tree)


def layer(tree: Path) -> bytes:
    """The folder as a tar: everything root's, no times, in order of names."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for path in sorted(tree.rglob("*")):
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
