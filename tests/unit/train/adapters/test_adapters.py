"""Adapters without their libraries: the agreed end, the report, and a clear sentence."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
from pathlib import Path

import pytest

from swell import train
from swell.api.report import TrainingReport
from swell.train.adapters.departure import AgreedDeparture
from swell.train.adapters.progress import progress_file
from swell.train.bus.plan import NOTHING, GroupPlan, Member
from swell.train.errors import TrainError
from swell.train.launch.reports import ReportFile


class SharedStore:
    """As torch's store: a value that is there is not replaced, and is returned."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)

    def compare_set(self, key: str, expected: str, desired: str) -> bytes:
        if not expected:
            self.values.setdefault(key, desired)
        return self.values[key].encode()


def test_all_workers_end_after_the_same_step() -> None:
    """The one that is asked first names the step after its own, whoever is ahead by one."""
    store = SharedStore()
    workers = [AgreedDeparture(store) for _ in range(3)]
    assert [worker.is_last(7) for worker in workers] == [False] * 3
    assert not workers[0].is_last(8)  # it is one step ahead
    workers[1]._asked(signal.SIGTERM, None)

    assert not workers[1].is_last(8)
    workers[2]._asked(signal.SIGTERM, None)
    assert not workers[2].is_last(8)
    assert [worker.is_last(9) for worker in workers] == [True] * 3


def test_process_alone_ends_at_once() -> None:
    """It has nobody to agree with; the program's own handler runs as before."""
    seen: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: seen.append(number))
    try:
        alone = AgreedDeparture()
        alone.catch_sigterm()
        assert not alone.is_last(1)
        os.kill(os.getpid(), signal.SIGTERM)
        assert alone.is_last(2)
    finally:
        signal.signal(signal.SIGTERM, before)

    assert seen == [signal.SIGTERM]
    with pytest.raises(SystemExit) as ended:
        alone.leave()
    assert ended.value.code == 143


def test_report_is_one_that_the_launcher_reads(tmp_path: Path) -> None:
    """The same words on both sides."""
    path = tmp_path / "report.json"
    progress = progress_file({"SWELL_REPORT": str(path), "RANK": "0"})
    progress.loss(0.25)
    progress.step(3, batch=8, total_steps=100)
    progress.saved(3, 1.5)
    members = tuple(Member(i, 1, i, "h", 1, NOTHING) for i in range(2))
    report = ReportFile(path).read(GroupPlan(5, 4, members, "p", 0, ()), 0.0)

    assert isinstance(report, TrainingReport)
    assert (report.generation, report.epoch, report.size, report.step) == (5, 4, 2, 3)
    assert (report.samples, report.total_samples, report.loss) == (24, 800, 0.25)
    assert report.saves
    assert report.last_save is not None
    assert report.last_save.step == 3


def test_only_the_first_worker_reports(tmp_path: Path) -> None:
    """And none where the job has no reports, or no folder for them."""
    path = tmp_path / "report.json"
    for environ in ({"SWELL_REPORT": str(path), "RANK": "1"}, {}):
        progress_file(environ).step(1, batch=1)
    progress_file({"SWELL_REPORT": str(tmp_path / "no" / "x"), "RANK": "0"}).step(1, batch=1)
    assert list(tmp_path.iterdir()) == []

    progress_file({"SWELL_REPORT": str(path)}).step(1, batch=1)
    assert json.loads(path.read_text())["step"] == 1


@pytest.mark.parametrize(
    ("name", "library"), [("HFCallback", "transformers"), ("LightningPlugin", "lightning")]
)
def test_missing_library_is_one_sentence(name: str, library: str) -> None:
    """Nothing of it is imported before."""
    if importlib.util.find_spec(library) is None:
        with pytest.raises(TrainError, match=f"train.{name} needs {library}"):
            getattr(train, name)
    else:
        assert getattr(train, name).__name__ == name
