"""Report files: what of them the node agent takes, and hands on."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from swell.api.injection import (
    RELEASE_ANNOTATION,
    REPORT_VOLUME,
    SAVED_ANNOTATION,
    SAVED_FILE,
)
from swell.api.kinds import PODS
from swell.api.meta import Body, Key
from swell.node.pods import BOUND_PODS
from swell.node.process.folders import Folders
from swell.node.process.reports import ReportFiles, read_report_file
from swell.runtime.cluster import merge_patch
from swell.sim.chance import Chance
from swell.sim.loop import VirtualClock, run
from swell.sim.server import SimulatedServer


def test_text_is_read(tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text('{"step": 1}\n')

    assert read_report_file(path) == '{"step": 1}'


@pytest.mark.parametrize("kind", ["missing", "long", "binary", "link", "pipe", "folder", "closed"])
def test_anything_else_is_nothing(tmp_path: Path, kind: str) -> None:
    """A program must not make its node read another file, or wait."""
    path, other = tmp_path / "report.json", tmp_path / "other"
    other.write_text("secret")
    match kind:
        case "long":
            path.write_text("x" * 1025)
        case "binary":
            path.write_bytes(b"\xff\xfe")
        case "link":
            path.symlink_to(other)
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "closed":
            path = tmp_path / "other" / "report.json"

    assert read_report_file(path) == ""


def test_answer_to_a_request_to_leave_is_handed_on_soon(tmp_path: Path) -> None:
    """Within a second, also from an empty file; without a request nobody asks for it."""

    async def play() -> tuple[list[str | None], float]:
        clock = VirtualClock()
        user = SimulatedServer(clock, Chance(1), ()).connect("user")
        volumes = [{"name": REPORT_VOLUME, "emptyDir": {}}]
        spec = {"containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        body: Body = {"apiVersion": "v1", "kind": "Pod", "spec": spec}
        body["metadata"] = {"name": "p", "namespace": "default"}
        await user.create(PODS.untyped(), body)
        key, folders = Key("default", "p"), Folders(tmp_path)
        held = [await user.get(BOUND_PODS, key)]
        files = ReportFiles(user, folders, clock=clock, pods=lambda: held)
        running = asyncio.create_task(files.run())
        folder = folders.volume(held[0].metadata.uid, REPORT_VOLUME)
        folder.mkdir(parents=True)
        (folder / SAVED_FILE).touch()
        seen: list[str | None] = []
        await clock.sleep(30)
        seen.append((await user.get(PODS, key)).metadata.annotations.get(SAVED_ANNOTATION))
        note = {"metadata": {"annotations": {RELEASE_ANNOTATION: "{}"}}}
        await user.patch(PODS.untyped(), key, merge_patch(note))
        held[0] = await user.get(BOUND_PODS, key)
        began = clock.monotonic()
        while SAVED_ANNOTATION not in (await user.get(PODS, key)).metadata.annotations:
            await clock.sleep(0.1)
        seen.append((await user.get(PODS, key)).metadata.annotations[SAVED_ANNOTATION])
        took_s = clock.monotonic() - began
        running.cancel()
        return seen, took_s

    seen, took_s = run(play())

    assert seen == [None, "saved"]
    assert took_s < 1  # of virtual time
