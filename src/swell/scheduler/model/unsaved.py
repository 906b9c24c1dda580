"""The price of an eviction: the work of its victims since they last saved, in seconds by GPUs.

A victim's program reports its last checkpoint. A pod whose program reports none loses everything
since it started. The amount is of GPUs; among victims without GPUs it is of processors.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import NamedTuple

from swell.api.times import parse_time
from swell.scheduler.model.resources import CPU, Dimensions
from swell.scheduler.model.tasks import Task

# Extended resources are counted in milli, as processors are.
_MILLI = 1000.0
_SUFFIX = "/gpu"
# Slices of a GPU that NVIDIA's device plugin offers; each counts as one.
_SLICE = "nvidia.com/mig-"


class UnsavedWork(NamedTuple):
    """Work that would be lost: GPU-seconds first, then processor-seconds."""

    gpu_s: float = 0.0
    cpu_s: float = 0.0

    @property
    def text(self) -> str:
        """The amount for people, of GPUs if there are any."""
        if self.gpu_s:
            return f"{self.gpu_s:.0f} GPU-seconds"
        return f"{self.cpu_s:.0f} CPU-seconds"


def gpu_places(dimensions: Dimensions) -> list[int]:
    """Returns the places of GPUs in all vectors."""
    return [
        place
        for place, name in enumerate(dimensions.names)
        if name.endswith(_SUFFIX) or name.startswith(_SLICE)
    ]


def unsaved_s(task: Task, now: float) -> float:
    """Returns how long ago the pod's state was last safe: its last save, or its start.

    A save from before the pod's start is the one that it went on from. Moments in the future are
    of another clock, and count as now.
    """
    text = task.pod.status.start_time
    started = moment(text) if text else None
    if started is None:
        return 0.0  # it has not run
    saved = task.elastic.saved_at if task.elastic is not None else None
    since = started if saved is None else max(started, saved)
    return max(0.0, now - since)


def unsaved_work(tasks: Iterable[Task], now: float, gpus: list[int]) -> UnsavedWork:
    """Returns what the pods lose together if they end now."""
    gpu_s = cpu_s = 0.0
    for task in tasks:
        seconds = unsaved_s(task, now)
        if seconds:
            request = task.request
            gpu_s += seconds * sum(float(request[place]) for place in gpus) / _MILLI
            cpu_s += seconds * float(request[CPU]) / _MILLI
    return UnsavedWork(gpu_s, cpu_s)


def price_text(tasks: Iterable[Task], now: float, gpus: list[int]) -> str:
    """Returns the price of an eviction as a part of a sentence; empty if nothing is lost."""
    victims = list(tasks)
    work = unsaved_work(victims, now, gpus)
    if work == UnsavedWork():
        return ""
    longest = max(unsaved_s(task, now) for task in victims)
    has_saved = any(task.elastic is not None and task.elastic.saved_at for task in victims)
    since = "the last save was" if has_saved else "no save is reported since the start"
    return f"costs {work.text} of work: {since} {longest:.0f} s ago"


@lru_cache(maxsize=4096)  # pods of a gang start in the same seconds, and are asked about often
def moment(text: str) -> float | None:
    """Returns the seconds of a timestamp; None of a text that is none."""
    try:
        return parse_time(text)
    except (ValueError, OverflowError):
        return None
