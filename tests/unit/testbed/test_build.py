"""The builder's decisions, with a stand-in for the Go toolchain that writes what it was asked."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from testbed import build

FAKE_GO = """#!{python}
import os, pathlib, sys
if sys.argv[1] == "env":
    print("go{version}")
    raise SystemExit(0)
calls = pathlib.Path({calls!r})
calls.open("a").write(sys.argv[-1] + "\\n")
if "kubectl" in sys.argv[-1] and os.environ.get("FAKE_GO_FAILS"):
    raise SystemExit(1)
output = pathlib.Path(sys.argv[sys.argv.index("-o") + 1])
output.write_text(" ".join(sys.argv[1:]) + os.environ["CGO_ENABLED"])
output.chmod(0o755)
"""


class FakeGo:
    """A `go` on PATH that records the packages it was asked to build."""

    def __init__(self, folder: Path, version: str) -> None:
        self._calls = folder / "calls"
        go = folder / "go"
        text = FAKE_GO.format(python=sys.executable, version=version, calls=str(self._calls))
        go.write_text(text, encoding="utf-8")
        go.chmod(0o755)

    def packages(self) -> list[str]:
        return self._calls.read_text(encoding="utf-8").split() if self._calls.exists() else []


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    monkeypatch.setenv("SWELL_TESTBED", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    return FakeGo(tmp_path, "1.26.1")


def test_build_makes_what_tests_start(go: FakeGo) -> None:
    """A first run builds the control plane, and kubelet only when asked for."""
    assert build.main([]) == 0
    assert [package.rpartition("/")[2] for package in go.packages()] == [
        "v3",
        "kube-apiserver",
        "kube-controller-manager",
        "kubectl",
        "kube-scheduler",
    ]

    assert build.main(["--with", "kubelet"]) == 0
    assert go.packages()[5:] == ["k8s.io/kubernetes/cmd/kubelet"]


def test_build_leaves_finished_binaries_alone(go: FakeGo) -> None:
    """A second run has nothing to do, and one removed binary is the only one built again."""
    build.main([])
    build.main([])
    assert len(go.packages()) == 5

    (build.bin_dir() / "kubectl").unlink()
    build.main([])
    assert go.packages()[5:] == ["k8s.io/kubernetes/cmd/kubectl"]


def test_build_of_another_recipe_is_made_anew(go: FakeGo) -> None:
    """A binary made from other pins than today's counts as missing."""
    build.main(["--only", "etcd"])
    recipe = build.bin_dir().parent / "recipes" / "etcd"
    recipe.write_text("of yesterday", encoding="ascii")
    build.main(["--only", "etcd"])

    assert len(go.packages()) == 2


def test_build_failure_keeps_the_old_binary(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A failed compilation is said in one line and changes nothing in the cache."""
    build.main(["--only", "kubectl"])
    before = (build.bin_dir() / "kubectl").read_text(encoding="utf-8")
    (build.bin_dir().parent / "recipes" / "kubectl").unlink()
    monkeypatch.setenv("FAKE_GO_FAILS", "1")

    assert build.main(["--only", "kubectl"]) == 1
    assert "failed: go build of kubectl ended with 1" in capfd.readouterr().err
    assert (build.bin_dir() / "kubectl").read_text(encoding="utf-8") == before
    assert [file.name for file in build.bin_dir().iterdir()] == ["kubectl"]


def test_build_stamps_the_version(go: FakeGo) -> None:
    """Clients refuse a server without a version, so both version packages get one."""
    build.main(["--only", "kubectl"])
    asked = (build.bin_dir() / "kubectl").read_text(encoding="utf-8")

    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        assert f"-X {package}.gitVersion=v1.36.3" in asked
        assert f"-X {package}.gitMajor=1 -X {package}.gitMinor=36" in asked
    assert asked.endswith("0"), "cgo is off"


def test_build_refuses_an_old_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, go: FakeGo
) -> None:
    """Go older than needed is as good as none: another one is installed beside the binaries."""
    FakeGo(tmp_path, "1.25.9")
    asked: list[str] = []

    def install() -> Path:
        asked.append("install")
        raise build.BuildError("no network")

    monkeypatch.setattr(build, "_install_go", install)

    assert build.main(["--only", "etcd"]) == 1
    assert asked == ["install"]
    assert go.packages() == []
