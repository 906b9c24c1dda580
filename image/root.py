"""The file system of the image: Debian's Python, Swell and what it imports, and nothing else.

No shell, no package manager, no pip. Everything belongs to root and is read-only to the user that
the image runs as; modules are compiled beforehand, since a read-only root cannot keep them. Of what
Swell stands on only the compiled form is there, without debugging symbols (ADR 153).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from image.debian import unpack
from image.sbom import write_sbom

PYTHON = "3.11"
PACKAGES = (
    *("libc6", "libgcc-s1", "libstdc++6", "zlib1g", "libbz2-1.0", "liblzma5", "libexpat1"),
    *("libffi8", "libsqlite3-0", "libssl3", "libuuid1"),
    *(f"python{PYTHON}-minimal", f"libpython{PYTHON}-minimal", f"libpython{PYTHON}-stdlib"),
)
LIBRARY = "opt/swell"
CORE = "requirements/core.txt"  # exact versions of what Swell imports, with digests
USER = 65532
PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")
COMMAND = f"#!/usr/bin/python{PYTHON}\nfrom swell.cli.main import main\n\nmain()\n"
FILES = {
    "etc/passwd": f"root:x:0:0::/:/sbin/nologin\nswell:x:{USER}:{USER}::/tmp:/sbin/nologin\n",
    "etc/group": f"root:x:0:\nswell:x:{USER}:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
# Merged as Debian installs it; the packages themselves still name both places.
MERGED = ("bin", "sbin", "lib", "lib64")
NEEDLESS = (
    *("usr/share/man", "usr/share/lintian", "usr/share/doc-base", "usr/share/bug"),
    *("usr/share/gcc", "usr/share/gdb", "usr/lib/valgrind", "usr/share/binfmts"),
    "usr/lib/*-linux-gnu/gconv",  # Python has codecs of its own
    *("usr/share/applications", "usr/share/pixmaps", "usr/sbin", "etc/init.d", "etc/ld.so.conf.d"),
    # Nothing in the image is linked with these.
    *("usr/lib/*-linux-gnu/libmvec.so*", "usr/lib/*-linux-gnu/libexpatw.so*"),
)
# Parts of Python's library for developers and desktops, and encodings of text that is not Unicode.
NEEDLESS_MODULES = (
    *(
        "distutils",
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "test",
        "tkinter",
        "turtledemo",
    ),
    *("turtle.py", "unittest", "venv"),
    *("lib-dynload/_codecs_*.so", "lib-dynload/_multibytecodec.*.so"),
    *("lib-dynload/_test*.so", "lib-dynload/_ctypes_test.*.so", "lib-dynload/_xx*.so"),
    "lib-dynload/xxlimited*.so",
)
# Of packages: what others compile against, parts of numpy that it loads only when they are named,
# and what writes coloured help, which typer does without.
NEEDLESS_PARTS = (
    *("numpy/_core/include", "numpy/_core/lib", "numpy/f2py"),
    *("numpy/_core/_simd.*.so", "numpy/_core/*_tests.*.so"),  # for numpy's own tests
    *("numpy/distutils", "numpy/fft", "numpy/polynomial", "numpy/random", "numpy/testing"),
    *(
        "cffi",
        "pycparser",
        "pycparser-*",
    ),  # cryptography needs no more than cffi's extension module
    *("markdown_it", "markdown_it_py-*", "mdurl", "mdurl-*", "pygments", "pygments-*"),
    *("rich", "rich-*"),
)
NEEDLESS_SUFFIXES = frozenset({".a", ".c", ".h", ".pxd", ".pyi", ".pyx"})
# The newest glibc of a wheel that Debian's can run, and the older ones, newest first.
GLIBC = (36, 35, 34, 31, 28, 27, 26, 24, 17, 12, 5)


class RootError(Exception):
    """The file system cannot be made; the text says why."""


def make_base(root: Path, source: Path, scratch: Path, say: Callable[[str], None]) -> None:
    """Write what Swell stands on into an empty folder: Debian's Python, and what Swell imports."""
    for name in MERGED:
        (root / "usr" / name).mkdir(parents=True, exist_ok=True)
        (root / name).symlink_to(f"usr/{name}")
    say("fetching Debian's Python")
    unpacked = scratch / "unpacked"
    unpack(PACKAGES, scratch / "debian", unpacked)
    _merge(unpacked, root)
    say("installing what Swell imports")
    _install(root, ["--require-hashes", "--requirement", str(source / CORE)], scratch)
    _add_files(root)
    _remove_needless(root)
    say("compiling modules")
    modules = root / f"usr/lib/python{PYTHON}"
    _compile(root, root / LIBRARY, modules, in_place=True)
    for source in [*(root / LIBRARY).rglob("*.py"), *modules.rglob("*.py")]:
        source.unlink()
    _strip(root)


def add_swell(root: Path, source: Path, scratch: Path) -> None:
    """Add Swell to what it stands on."""
    wheels = scratch / "wheels"
    # A build of before may have modules that are gone by now.
    shutil.rmtree(source / "build", ignore_errors=True)
    _run([*PIP, "wheel", "--no-deps", "--wheel-dir", str(wheels), str(source)], scratch)
    _install(root, ["--no-deps", str(next(wheels.glob("swell-*.whl")))], scratch)
    command = root / "usr/bin/swell"
    command.write_text(COMMAND)
    command.chmod(0o755)
    shutil.rmtree(root / LIBRARY / "bin")
    _compile(root, root / LIBRARY / "swell")
    write_sbom(root, LIBRARY)


def run_inside(root: Path, arguments: Sequence[str], folder: Path) -> str:
    """Run the image's own Python, by its own loader and libraries, without any privilege."""
    machine = f"{platform.machine()}-linux-gnu"
    loader = next((root / "usr").glob("lib*/ld-linux*.so.*"))
    libraries = f"{root}/usr/lib/{machine}"
    python = f"{root}/usr/bin/python{PYTHON}"
    command = [str(loader), "--library-path", libraries, python, "-B", *arguments]
    # -B and unchecked hashes: the same bytes whenever and wherever the image is made.
    return _run(command, folder, {"PYTHONHOME": f"{root}/usr", "PYTHONPATH": f"{root}/{LIBRARY}"})


def _merge(unpacked: Path, root: Path) -> None:
    for top in sorted(unpacked.iterdir()):
        target = root / "usr" / top.name if top.name in MERGED else root / top.name
        shutil.copytree(top, target, symlinks=True, dirs_exist_ok=True)


def _install(root: Path, wanted: Sequence[str], scratch: Path) -> None:
    tags = [f"--platform=manylinux_2_{minor}_{platform.machine()}" for minor in GLIBC]
    tags += [f"--platform=manylinux2014_{platform.machine()}"]
    target = [f"--python-version={PYTHON}", "--implementation=cp", "--only-binary=:all:", *tags]
    where = ["--target", str(root / LIBRARY), "--no-compile"]
    _run([*PIP, "install", *target, *where, *wanted], scratch)


def _add_files(root: Path) -> None:
    for name, text in FILES.items():
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)


def _remove_needless(root: Path) -> None:
    library = root / LIBRARY
    modules = root / f"usr/lib/python{PYTHON}"
    for folder, names in (
        (root, NEEDLESS),
        (modules, NEEDLESS_MODULES),
        (library, (*NEEDLESS_PARTS, "bin", "**/tests", "**/__pycache__")),
    ):
        for name in names:
            for found in sorted(folder.glob(name)):
                shutil.rmtree(found) if found.is_dir() else found.unlink()
    for file in library.rglob("*"):
        if file.suffix in NEEDLESS_SUFFIXES:
            file.unlink()
    for file in (root / "usr/share/doc").rglob("*"):
        if file.is_file() and file.name != "copyright":
            file.unlink()


def _compile(root: Path, *folders: Path, in_place: bool = False) -> None:
    """Compile the modules in some folders; in place they are found without their sources."""
    options = ["-s", str(root), "--invalidation-mode", "unchecked-hash", *(["-b"] * in_place)]
    run_inside(root, ["-m", "compileall", "-q", "-j", "2", *options, *map(str, folders)], root)


def _strip(root: Path) -> None:
    """Take debugging symbols out of extension modules and of Debian's libraries.

    Libraries that a wheel brings along stay as they are: their segments were moved when the wheel
    was made, and strip would put them where no loader takes them.
    """
    files = [file for file in root.rglob("*.so*") if file.is_file() and not file.is_symlink()]
    files = [file for file in files if not file.parent.name.endswith(".libs")]
    files.append(root / f"usr/bin/python{PYTHON}")
    _run(["strip", "--strip-unneeded", *map(str, sorted(files))], root)


def _run(command: Sequence[str], folder: Path, variables: dict[str, str] | None = None) -> str:
    environment = {"PATH": os.environ.get("PATH", ""), "HOME": os.environ.get("HOME", "/tmp")}
    kept = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    done = subprocess.run(
        command,
        cwd=folder,
        env=environment | kept | (variables or {}),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        reason = (done.stderr.strip().splitlines() or ["it gave no reason"])[-1]
        raise RootError(f"`{command[0]} …` failed: {reason}")
    return done.stdout
