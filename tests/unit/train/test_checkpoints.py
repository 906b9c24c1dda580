"""A checkpoint is complete or not there at all, wherever a save breaks off."""

from __future__ import annotations

import tracemalloc
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest

from swell.train.amounts import seconds_of
from swell.train.checkpoints.file import read_state
from swell.train.checkpoints.folder import CheckpointFolder, RealDisk
from swell.train.checkpoints.saver import Saver
from swell.train.errors import CheckpointError, TrainError
from swell.train.state.tree import PackedState, TreeCodec

CODEC = TreeCodec()


class CrashError(Exception):
    """The machine stops here."""


class FailingDisk:
    """A disk that stops at its n-th operation; every block and every byte after it is lost."""

    def __init__(self, operations: int) -> None:
        self.left, self.real = operations, RealDisk()

    def write(self, path: Path, blocks: Iterable[bytes | memoryview]) -> None:
        with path.open("xb") as file:
            for block in blocks:
                half = len(block) // 2
                file.write(block[:half])
                self._tick()
                file.write(block[half:])
                self._tick()

    def rename(self, old: Path, new: Path) -> None:
        self._tick()
        self.real.rename(old, new)
        self._tick()

    def sync_folder(self, path: Path) -> None:
        self._tick()

    def remove(self, path: Path) -> None:
        self._tick()
        self.real.remove(path)

    def _tick(self) -> None:
        if not self.left:
            raise CrashError
        self.left -= 1


def state(step: int) -> PackedState:
    tree = {"step": step, "w": np.full(1000, float(step)), "v": np.arange(7), "e": np.empty(0)}
    return CODEC.pack(tree)


def newest_tree(path: Path) -> dict[str, object]:
    warnings: list[str] = []
    folder = CheckpointFolder(path, warn=warnings.append)
    found = folder.newest()
    assert found is not None, warnings
    step, files = found
    tree: dict[str, object] = CODEC.unpack(folder.load(files)[0][1])
    assert tree["step"] == step
    return tree


def test_a_crash_at_every_operation_leaves_a_complete_checkpoint(tmp_path: Path) -> None:
    """A crash anywhere in the second or third save leaves that one or the one before."""
    completed = False
    for operations in range(200):
        path = tmp_path / str(operations)
        CheckpointFolder(path).save(state(1), step=1)
        folder = CheckpointFolder(path, keep=1, disk=FailingDisk(operations))
        reached = 1
        try:
            for step in (2, 3):
                folder.save(state(step), step=step)
                reached = step
            completed = True
        except CrashError:
            pass
        tree = newest_tree(path)
        assert tree["step"] in {reached, reached + 1}
        assert np.asarray(tree["w"]).tolist() == [float(tree["step"])] * 1000
        if completed:
            break

    assert completed
    assert operations > 10


@pytest.mark.parametrize("cut", [0, 10, 25, 200, 5000])
def test_a_torn_file_is_skipped_with_a_sentence(tmp_path: Path, cut: int) -> None:
    """A file that lost its end is named, and the one before it is taken."""
    folder = CheckpointFolder(tmp_path)
    folder.save(state(1), step=1)
    torn = folder.save(state(2), step=2)
    torn.write_bytes(torn.read_bytes()[:cut])
    warnings: list[str] = []

    found = CheckpointFolder(tmp_path, warn=warnings.append).newest()

    assert found is not None
    assert found[0] == 1
    assert len(warnings) == 1
    assert "is torn" in warnings[0]
    assert str(torn) in warnings[0]


@pytest.mark.parametrize("mapped", [False, True])
def test_a_damaged_tensor_is_found_when_it_is_read(tmp_path: Path, mapped: bool) -> None:
    """A flipped byte is no weight: that checkpoint is never offered again."""
    folder = CheckpointFolder(tmp_path)
    folder.save(state(1), step=1)
    path = folder.save(state(2), step=2)
    data = bytearray(path.read_bytes())
    data[-5] ^= 1
    path.write_bytes(data)
    found = folder.newest()
    assert found is not None
    with pytest.raises(CheckpointError, match="has another checksum"):
        folder.load(found[1], mapped=mapped)

    again = folder.newest()

    assert again is not None
    assert again[0] == 1


def test_mapped_tensors_are_not_in_memory(tmp_path: Path) -> None:
    """Neither when checksums are verified nor after that; who changes one changes no file."""
    whole = np.arange(8 << 20, dtype=np.uint8)
    packed = CODEC.pack({"odd": np.zeros(3, np.uint8), "none": np.empty(0), "whole": whole})
    path = CheckpointFolder(tmp_path).save(packed, step=1)
    tracemalloc.start()
    try:
        tree = CODEC.unpack(read_state(path, mapped=True)[1])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 << 20
    assert tree["none"].shape == (0,)
    assert np.array_equal(tree["whole"], whole)
    tree["whole"][:] = 1
    assert np.array_equal(CODEC.unpack(read_state(path)[1])["whole"], whole)


def test_a_strange_file_is_no_checkpoint(tmp_path: Path) -> None:
    """A pickle or anything else is refused before it is read."""
    path = tmp_path / "step-000000000001.swell"
    path.write_bytes(b"\x80\x04" + b"x" * 100)

    with pytest.raises(CheckpointError, match="is no checkpoint"):
        read_state(path)


def test_parts_count_only_together(tmp_path: Path) -> None:
    """A sharded checkpoint is complete when every part is there."""
    folder = CheckpointFolder(tmp_path)
    folder.save(state(1), step=1)
    folder.save(state(2), step=2, part=(0, 2))
    incomplete = folder.newest()
    folder.save(state(2), step=2, part=(1, 2))
    complete = folder.newest()

    assert incomplete is not None
    assert incomplete[0] == 1
    assert complete is not None
    assert complete[0] == 2
    assert len(complete[1]) == 2


def test_only_the_newest_are_kept(tmp_path: Path) -> None:
    """Older checkpoints are removed once newer ones are complete."""
    folder = CheckpointFolder(tmp_path, keep=2)
    for step in range(1, 6):
        folder.save(state(step), step=step)

    assert sorted(p.name for p in tmp_path.iterdir()) == [
        "step-000000000004.swell",
        "step-000000000005.swell",
    ]


def test_a_save_copies_first_and_writes_later(tmp_path: Path) -> None:
    """The tree may change as soon as `start` has returned; the next save is due by time."""
    now = [0.0]
    saver = Saver(CheckpointFolder(tmp_path), CODEC, every_s=10.0, clock=lambda: now[0])
    tree = {"step": 1, "w": np.ones(100_000)}
    before = saver.is_due
    now[0] = 10.0
    due = saver.is_due
    saver.start(tree, 1)
    tree["w"][...] = 0  # type: ignore[index]
    saver.wait()

    assert (before, due, saver.is_due) == (False, True, False)
    assert np.asarray(newest_tree(tmp_path)["w"]).sum() == 100_000
    assert saver.last is not None
    assert saver.last.step == 1


def test_a_failed_save_stops_no_training_but_a_last_one_says_so(tmp_path: Path) -> None:
    """A full disk is a warning while there is another chance, and an error when there is none."""
    (tmp_path / "file").write_text("")
    warnings: list[str] = []
    saver = Saver(
        CheckpointFolder(tmp_path / "file" / "below"), CODEC, every_s=1.0, warn=warnings.append
    )
    saver.start({"a": 1}, 1)
    saver.start({"a": 1}, 2)

    assert "no checkpoint in" in warnings[0]
    with pytest.raises(CheckpointError, match="no checkpoint in"):
        saver.save({"a": 1}, 3)


@pytest.mark.parametrize(
    ("text", "seconds"), [("10m", 600.0), ("1.5h", 5400.0), ("30s", 30.0), (7, 7.0)]
)
def test_intervals(text: str | float, seconds: float) -> None:
    """Intervals have a unit; a bare number is seconds."""
    assert seconds_of(text) == seconds


def test_a_bad_interval_is_refused() -> None:
    """The message names the value and the units."""
    for bad in ("soon", "-1", -1, None, float("nan")):
        with pytest.raises(TrainError, match=f'save_every is "{bad}": give seconds'):
            seconds_of(bad)  # type: ignore[arg-type]
