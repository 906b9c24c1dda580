"""The report of a training program: its progress and speed, as its leader tells them.

A report is the user's word. Whoever reads one checks its bounds, and never gives anybody else's
room away for it.
"""

from __future__ import annotations

import enum

import msgspec

# A report that is longer than this is no report.
REPORT_BYTES_MAX = 1024


class TrainingState(enum.StrEnum):
    """The activity of a training program. Only `TRAINING` promises steps."""

    LOADING = "loading"
    TRAINING = "training"
    SAVING = "saving"
    RESTORING = "restoring"
    EVALUATING = "evaluating"
    COMPILING = "compiling"


class SaveReport(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The last checkpoint: the step it holds, when it was complete, how long it took."""

    step: int
    time: str
    seconds: float = 0.0


class StragglerReport(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """The slowest member: its index in the role, and its step time by the median of all.

    It has been the slowest for `steps` steps on end, which the ratio is the mean of.
    """

    index: int
    ratio: float
    steps: int = 0


class TrainingReport(msgspec.Struct, frozen=True, omit_defaults=True, rename="camel"):
    """One report, as JSON of at most `REPORT_BYTES_MAX` bytes."""

    generation: int
    epoch: int
    size: int
    step: int
    state: TrainingState = TrainingState.TRAINING
    samples: int = 0
    total_samples: int | None = None
    # Samples a second, smoothed, by the group's size when they were measured.
    rates: dict[str, float] = {}
    # Seconds of a step and of its synchronisation, by "replicas/nodes/samples of one replica".
    step_times: dict[str, tuple[float, float]] = {}
    # Of a program that adapts its batch: the first, the largest, and a replica's least and most.
    batch_range: tuple[int, int, int, int] | None = None
    compute_seconds: float | None = None
    sync_seconds: float | None = None
    global_batch: int | None = None
    # Of the gradient of one step: the squared norm of its mean, and its variance over members.
    gradient_norm2: float | None = None
    gradient_variance: float | None = None
    loss: float | None = None
    state_bytes: int | None = None
    last_save: SaveReport | None = None
    # True: the program saves when it is asked to leave.
    saves: bool = False
    last_pause_seconds: float | None = None
    slowest: StragglerReport | None = None
