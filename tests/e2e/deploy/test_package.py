"""The wheel and the source archive, installed outside the tree: light, and of use as they are."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from tests.testbed import binaries
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kubectl import Kubectl

pytestmark = pytest.mark.long
ROOT = Path(__file__).parents[3]
SIZE_MAX = 60_000_000
MANIFEST = ROOT / "examples" / "containers.yaml"
TOOLS = frozenset({"pip", "setuptools", "pkg_resources", "_distutils_hack"})  # every venv's own
BUILD_S_MAX = 600


class Installation:
    """A virtual environment with what `pip install swell` installs, and a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "venv" / "bin" / "python"
        run([sys.executable, "-m", "venv", str(folder / "venv")], folder)

    def install(self, *wanted: str) -> None:
        run([str(self.python), "-m", "pip", "install", "--quiet", "--no-compile", *wanted], ROOT)

    def swell(
        self, *arguments: str, program: str = "swell", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        command = [str(self.python.with_name(program)), *arguments]
        environment = {"HOME": str(self.folder), "PATH": os.environ["PATH"]} | variables
        return subprocess.run(
            command, cwd=self.folder, env=environment, capture_output=True, text=True, check=False
        )

    def size(self) -> int:
        """Bytes of all files that are not compiled and belong to no tool of the environment."""
        (library,) = (self.folder / "venv" / "lib").glob("python*/site-packages")
        kept = [part for part in library.iterdir() if part.name.split("-")[0] not in TOOLS]
        files = [file for part in kept for file in (part.rglob("*") if part.is_dir() else [part])]
        return sum(f.stat().st_size for f in files if f.is_file() and f.suffix != ".pyc")


def run(command: list[str], folder: Path) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "PYTHONWARNINGS"}
    subprocess.run(command, cwd=folder, env=environment, check=True, timeout=BUILD_S_MAX)


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The core, from a wheel that is built from a source archive, as an index would serve it."""
    folder = tmp_path_factory.mktemp("package")
    script = "from hatchling.build import build_sdist; print(build_sdist(%r))"
    run([sys.executable, "-c", script % str(folder)], ROOT)
    (archive,) = folder.glob("swell-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    run([*pip, "--wheel-dir", str(folder), str(source)], folder)
    (wheel,) = folder.glob("swell-*.whl")
    made = Installation(folder)
    pinned = ("--constraint", str(_pins(folder)))
    made.install(*pinned, str(wheel))
    return made


def _pins(folder: Path) -> Path:
    """The pinned versions without digests: pip would ask for those of the wheel, too."""
    lines = (ROOT / "requirements" / "core.txt").read_text().splitlines()
    file = folder / "constraints.txt"
    pins = [line.rstrip(" \\") for line in lines if line and not line.startswith((" ", "#", "-"))]
    file.write_text("\n".join(pins) + "\n")
    return file


def test_core_is_light(installed: Installation) -> None:
    """At most 60 MB, and neither numpy nor the official client is among them."""
    absent = "import importlib.util as u; print(list(map(u.find_spec, ('numpy', 'kubernetes'))))"
    found = subprocess.run(
        [str(installed.python), "-c", absent], capture_output=True, text=True, check=True
    )

    assert found.stdout == "[None, None]\n"
    assert installed.size() <= SIZE_MAX


def test_core_checks_manifests(installed: Installation) -> None:
    """The command line works, under both of its names, and by the interpreter."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert installed.swell("validate", str(MANIFEST)).returncode == 0
    for program, arguments in (("swell", ()), ("kubectl-swell", ()), ("python", ("-m", "swell"))):
        done = installed.swell(*arguments, "--version", program=program)
        assert project["version"] in done.stdout, done.stderr


def test_core_works_with_a_cluster(
    installed: Installation, control_plane: ControlPlane, kubectl: Kubectl
) -> None:
    """Jobs are submitted and seen, from the command line, by kubectl's plugin and by Python."""
    kubectl.ok("apply", "--server-side", "-k", str(ROOT / "deploy" / "crds"))
    kubectl.ok("create", "namespace", "light")
    at = ("--kubeconfig", str(control_plane.kubeconfig), "--namespace", "light")
    applied = installed.swell("apply", "-f", str(MANIFEST), *at)
    wide = installed.swell("get", "-o", "wide", *at)
    plugged = _plugin(installed, "get", *at)
    program = "import swell; print(swell.connect(namespace='light').job('hello').name)"
    from_python = installed.swell(
        "-c", program, program="python", KUBECONFIG=str(control_plane.kubeconfig)
    )

    assert applied.returncode == 0, applied.stderr
    assert "hello" in wide.stdout, wide.stderr
    assert "hello" in plugged.stdout, plugged.stderr
    assert from_python.stdout == "hello\n", from_python.stderr


def _plugin(installed: Installation, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`kubectl swell`, found on the PATH; kubectl takes no flags before a plugin's name."""
    path = os.pathsep.join((str(installed.python.parent), os.environ["PATH"]))
    return subprocess.run(
        [str(binaries.binary("kubectl")), "swell", *arguments],
        env={"HOME": str(installed.folder), "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.mark.parametrize("command", ["up --detach", "scheduler", "operator", "explain hello"])
def test_core_names_the_extra_that_is_missing(
    installed: Installation, control_plane: ControlPlane, command: str
) -> None:
    """One sentence and one command, and nothing was started."""
    done = installed.swell(*command.split(), KUBECONFIG=str(control_plane.kubeconfig))

    assert done.returncode == 1
    assert done.stderr.endswith(
        "error: deciding where pods go needs numpy, which is not installed\n"
        "  install it: pip install 'swell[up]'\n"
    )
