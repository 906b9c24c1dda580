"""The measured speed and learning of training programs, by which replayed jobs run. Values only.

A folder of profiles has `apps.json` with the constants of each program, and for each program a
folder with `placements.csv`, `scalability.csv` (step times) and `validation-<batch>.csv` (progress
and gradient noise by epoch), as the Pollux simulator reads them.
"""

from __future__ import annotations

import csv
import json
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path

import numpy as np

from swell.autoscaler.goodput.batches import BatchRange
from swell.autoscaler.goodput.stepmodel import Floats
from swell.replay.interpolation import Mesh

# Placements over more nodes than this were not measured; they are taken as this many.
_NODES_MAX = 16
Placement = tuple[int, ...]


@dataclass(eq=False)
class TrainedProgram:
    """One training program: what it needs to finish, and how fast it is where."""

    name: str
    batches: BatchRange
    fixed_batch: int | None
    size_max: int
    n_epochs: int
    restart_s: Mapping[str, float]
    ideal_s: Mapping[int, float]
    placements: Mapping[Placement, tuple[Floats, Floats, Floats]]
    shapes: Mesh
    # By total batch size: the progress after each epoch, the squared norm and the variance.
    validation: Mapping[int, tuple[Floats, Floats, Floats]]

    def __post_init__(self) -> None:
        self._times: dict[tuple[Placement, int], tuple[float, float]] = {}

    @cached_property
    def progress_by_epoch(self) -> Floats:
        """The progress at which each epoch is complete: the least of all batch sizes."""
        table = np.stack([progress[: self.n_epochs] for progress, _, _ in self.validation.values()])
        least: Floats = table.min(axis=0)
        return least

    @property
    def total_progress(self) -> float:
        return float(self.progress_by_epoch[-1])

    def step_times(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        """Returns the time of a step and its synchronisation part, for replicas by node."""
        key = (normal(placement), local_batch)
        found = self._times.get(key)
        if found is None:
            found = self._times[key] = self._step_times(*key)
        return found

    def _step_times(self, placement: Placement, local_batch: int) -> tuple[float, float]:
        measured = self.placements.get(placement)
        if measured is not None:
            batches, step, sync = measured
            return (
                float(np.interp(local_batch, batches, step)),
                float(np.interp(local_batch, batches, sync)),
            )
        return self.shapes.at(min(len(placement), _NODES_MAX), sum(placement), local_batch)

    def gradient(self, batch: float, epoch: int) -> tuple[float, float]:
        """Returns squared norm and variance in an epoch, between the two nearest batch sizes."""
        # Plain numbers: this is asked at every event of every job, for one batch at a time.
        sizes = self._batch_sizes
        high = min(max(bisect_left(sizes, batch), 1), len(sizes) - 1)
        low = high - 1
        share = min(max((batch - sizes[low]) / (sizes[high] - sizes[low]), 0.0), 1.0)
        norm, variance = self._noise
        # Some batch sizes were measured for fewer epochs; the last measured one stands for later.
        at = min(epoch, len(norm[0]) - 1)
        return (
            norm[low][at] * (1 - share) + norm[high][at] * share,
            variance[low][at] * (1 - share) + variance[high][at] * share,
        )

    @cached_property
    def _batch_sizes(self) -> list[float]:
        return [float(size) for size in sorted(self.validation)]

    @cached_property
    def _noise(self) -> tuple[list[list[float]], list[list[float]]]:
        ordered = [self.validation[int(size)] for size in self._batch_sizes]
        shortest = min(len(norm) for _, norm, _ in ordered)
        return (
            [norm[:shortest].tolist() for _, norm, _ in ordered],
            [variance[:shortest].tolist() for _, _, variance in ordered],
        )


@lru_cache(maxsize=4096)
def normal(placement: Placement) -> Placement:
    """Returns the lexicographically smallest rotation of a placement without empty nodes."""
    held = tuple(n for n in placement if n)
    return min(held[at:] + held[:at] for at in range(len(held)))


class ProfileError(ValueError):
    """A folder that holds no profiles, or malformed ones."""


def read_profiles(folder: Path) -> dict[str, TrainedProgram]:
    """Returns all programs of a folder by name. Raises ProfileError, and OSError."""
    try:
        return _read_programs(folder)
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise ProfileError(f"the profiles in {folder} are malformed: {error!r}") from error


def _read_programs(folder: Path) -> dict[str, TrainedProgram]:
    constants = json.loads((folder / "apps.json").read_text())
    return {
        name: _read_program(folder / "profiles" / name, name, constants[name]) for name in constants
    }


def _read_program(folder: Path, name: str, facts: dict[str, object]) -> TrainedProgram:
    placements: dict[Placement, list[tuple[float, float, float]]] = {}
    shapes: dict[tuple[int, int, int], list[tuple[float, float]]] = {}
    for row in _rows(folder / "placements.csv"):
        placement = normal(tuple(map(int, row["placement"])))
        times = (float(row["step_time"]), float(row["sync_time"]))
        placements.setdefault(placement, []).append((float(row["local_bsz"]), *times))
        key = (len(placement), sum(placement), int(row["local_bsz"]))
        shapes.setdefault(key, []).append(times)
    for row in _rows(folder / "scalability.csv"):
        key = (int(row["num_nodes"]), int(row["num_replicas"]), int(row["local_bsz"]))
        shapes.setdefault(key, []).append((float(row["step_time"]), float(row["sync_time"])))
    validation = {}
    for path in folder.glob("validation-*.csv"):
        table = [
            (float(r["progress"]), float(r["grad_sqr"]), float(r["grad_var"])) for r in _rows(path)
        ]
        progress, norm, variance = np.array(table).T
        validation[int(path.stem.rpartition("-")[2])] = (progress, norm, variance)
    return TrainedProgram(
        name=name,
        batches=BatchRange(
            *(
                int(str(facts[key]))
                for key in ("init_batch_size", "max_batch_size", "min_local_bsz", "max_local_bsz")
            )
        ),
        fixed_batch=None
        if facts["fixed_batch_size"] is None
        else int(str(facts["fixed_batch_size"])),
        size_max=int(str(facts["max_replicas"])),
        n_epochs=int(str(facts["max_epochs"])),
        restart_s={
            "pollux": float(str(facts["rescale_s_pollux"])),
            "sia": float(str(facts["rescale_s_sia"])),
            "slowdown_sia": float(str(facts["slowdown_sia"])),
        },
        ideal_s={int(n): float(s) for n, s in facts["ideal_runtime_s_by_gpus"].items()},  # type: ignore[attr-defined]
        placements={key: _columns(rows) for key, rows in placements.items()},
        shapes=Mesh({key: tuple(np.mean(rows, axis=0)) for key, rows in shapes.items()}),
        validation=validation,
    )


def _columns(rows: list[tuple[float, float, float]]) -> tuple[Floats, Floats, Floats]:
    batches, step, sync = np.array(sorted(rows)).T
    return batches, step, sync


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="") as file:
        yield from csv.DictReader(file)
