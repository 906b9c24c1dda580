"""Swell inside the cluster with real nodes: its image, from its own deploy files."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.e2e.kubernetes.machine import RealMachine
from tests.testbed.cluster import ROOT

NAMESPACE = "swell-system"
DEPLOYMENTS = ("swell-operator", "swell-scheduler")
OVERLAY = Path(__file__).parent / "overlay"
IMAGE = ROOT / "dist" / "swell-image.tar"
# What an image is made of.
SOURCES = ("src", "image", "pyproject.toml", "requirements")
BUILD_S_MAX = 600.0
ROLLOUT_S_MAX = 180


class NotInstalledError(Exception):
    """A Deployment does not get ready; the text is what can be seen of it."""


def install(machine: RealMachine) -> None:
    """Give the nodes the image of what is in this tree, apply the files, and wait."""
    machine.cluster.load_images(image())
    machine.kubectl.ok("apply", "--server-side", "-k", str(OVERLAY))
    for name in DEPLOYMENTS:
        wait_for(machine, name)


def wait_for(machine: RealMachine, name: str) -> None:
    """Return when every replica of a Deployment is ready; one that never is says why."""
    rollout = ("rollout", "status", f"deployment/{name}", f"--timeout={ROLLOUT_S_MAX}s")
    done = machine.kubectl.run("-n", NAMESPACE, *rollout, timeout_s=ROLLOUT_S_MAX + 10)
    if done.exit_code != 0:
        looks = (("get", "pods", "-o", "wide"), ("logs", f"deployment/{name}", "--tail=20"))
        seen = [machine.kubectl.run("-n", NAMESPACE, *look) for look in looks]
        said = "\n".join(f"{one.stdout}{one.stderr}" for one in (done, *seen))
        raise NotInstalledError(f"{name} is not ready:\n{said}")


def image() -> Path:
    """The image's file, built anew unless nothing it is made of has changed since."""
    chosen = os.environ.get("SWELL_IMAGE")
    if chosen:
        return Path(chosen)
    if not IMAGE.exists() or IMAGE.stat().st_mtime < max(map(_changed, _sources())):
        subprocess.run(
            [sys.executable, "-m", "image.build"], cwd=ROOT, check=True, timeout=BUILD_S_MAX
        )
    return IMAGE


def _sources() -> list[Path]:
    """The files that are kept in version control or will be; not what running them leaves."""
    listing = ["git", "ls-files", "--cached", "--others", "--exclude-standard", "--", *SOURCES]
    listed = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


def _changed(file: Path) -> float:
    return file.stat().st_mtime
