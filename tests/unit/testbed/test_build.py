"""The builder's decisions, with a stand-in for the Go toolchain that writes what it was asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from image.debian import PackagesError
from testbed import build, packages

FAKE_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go{version}; exit 0; fi
if [ "$1" = list ]; then echo {folder}/module; exit 0; fi
for package; do :; done
echo "$package" >> {calls}
case "$package$FAKE_GO_FAILS" in *kubectl1) exit 1;; */kueue2) exit 1;; esac
said="$* $CGO_ENABLED"
while [ "$1" != -o ]; do shift; done
echo "$said" > "$2"
chmod 755 "$2"
"""


class FakeGo:
    """A `go` on PATH that records the packages it was asked to build."""

    def __init__(self, folder: Path, version: str) -> None:
        self._calls = folder / "calls"
        go = folder / "go"
        text = FAKE_GO.format(version=version, calls=self._calls, folder=folder)
        go.write_text(text, encoding="utf-8")
        go.chmod(0o755)

    def packages(self) -> list[str]:
        return self._calls.read_text(encoding="utf-8").split() if self._calls.exists() else []


@pytest.fixture
def go(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeGo:
    monkeypatch.setenv("SWELL_TESTBED", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(packages, "fetch", lambda *_arguments: None)
    return FakeGo(tmp_path, "1.26.8")


def test_build_makes_what_tests_start(go: FakeGo) -> None:
    """A first run builds control plane, nodes, DNS, a driver, helm and Kueue, in order."""
    assert build.main([]) == 0
    assert [package.rpartition("/")[2] for package in go.packages()] == [
        "v3",
        "kube-apiserver",
        "kube-controller-manager",
        "kubectl",
        "kube-scheduler",
        "kubelet",
        "containerd",
        "containerd-shim-runc-v2",
        "ctr",
        "coredns",
        "dradriver",
        "helm",
        "kueue",
        "kueue",
    ]


def test_build_keeps_what_kueue_is_installed_by(go: FakeGo, tmp_path: Path) -> None:
    """Definitions and webhooks come from the module; those of an earlier version go."""
    for source in build.KUEUE_MANIFESTS:
        folder = tmp_path / "module" / source
        folder.mkdir(parents=True)
        (folder / "new.yaml").write_text("new", encoding="utf-8")
        (folder / "new.yaml").chmod(0o400)
    old = build.kueue_dir() / "crds" / "old.yaml"
    old.parent.mkdir(parents=True)
    old.write_text("old", encoding="utf-8")

    assert build.main(["--only", "kueue"]) == 0
    kept = {str(file.relative_to(build.kueue_dir())) for file in build.kueue_dir().rglob("*.yaml")}
    assert kept == {"crds/new.yaml", "webhooks/new.yaml"}


def test_build_without_packages_says_what_is_missing(
    go: FakeGo, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """A machine without Debian's packages still gets all that is built."""

    def refuse(*_arguments: object) -> None:
        raise PackagesError("apt-get is not on this machine")

    monkeypatch.setattr(packages, "fetch", refuse)

    assert build.main([]) == 0
    said = "no real nodes on this machine: apt-get is not on this machine"
    assert said in capfd.readouterr().err


def test_build_without_kueue_has_all_the_rest(go: FakeGo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its modules may not be had everywhere; nodes do not need them."""
    fetched: list[object] = []
    monkeypatch.setattr(packages, "fetch", lambda *arguments: fetched.append(arguments))
    monkeypatch.setenv("FAKE_GO_FAILS", "2")

    assert build.main([]) == 1
    assert fetched
    names = {one.name for one in build.COMMANDS if one.module != "kueue"}
    assert {path.name for path in build.bin_dir().iterdir()} == names


def test_build_leaves_finished_binaries_alone(go: FakeGo) -> None:
    """A second run has nothing to do, and one removed binary is the only one built again."""
    build.main([])
    build.main([])
    assert len(go.packages()) == len(build.COMMANDS)

    (build.bin_dir() / "kubectl").unlink()
    build.main([])
    assert go.packages()[len(build.COMMANDS) :] == ["k8s.io/kubernetes/cmd/kubectl"]


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
    assert asked.endswith(" 0\n"), "cgo is off"


def test_build_refuses_an_old_toolchain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, go: FakeGo
) -> None:
    """Go older than needed is as good as none: another one is installed beside the binaries."""
    FakeGo(tmp_path, "1.26.7")
    asked: list[str] = []

    def install() -> Path:
        asked.append("install")
        raise build.BuildError("no network")

    monkeypatch.setattr(build, "_install_go", install)

    assert build.main(["--only", "etcd"]) == 1
    assert asked == ["install"]
    assert go.packages() == []
