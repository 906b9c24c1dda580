"""The progress of a training program in the status of its job, as its own reports tell it.

Numbers with a fraction are texts, as everywhere in Kubernetes: not all clients round alike.
"""

from __future__ import annotations

from swell.api.meta import ApiStruct
from swell.api.report import TrainingState

# `spec.managedBy` of a job that is ours; so is one that names nobody.
MANAGER = "elasticdeeplearning.ai/swell-operator"


class TrainingSave(ApiStruct, frozen=True):
    """The last checkpoint: the step it holds, when it was complete, how many seconds it took."""

    step: int = 0
    time: str = ""
    seconds: str = ""


class TrainingStraggler(ApiStruct, frozen=True):
    """The slowest member, its step time by the median of all, and for how many steps it is so."""

    index: int = 0
    ratio: str = ""
    steps: int = 0


class TrainingStatus(ApiStruct, frozen=True):
    """The last report of a job's leader. It is the user's word, within bounds."""

    reported_at: str = ""
    state: TrainingState = TrainingState.TRAINING
    progress: str = ""  # of all samples, such as 42%
    rate: str = ""  # samples a second at the present size
    eta: str | None = None  # when all samples are used, at the present rate
    generation: int = 0
    size: int = 0
    step: int = 0
    samples: int = 0
    total_samples: int | None = None
    rates: dict[str, str] = {}  # samples a second by size
    # Seconds of a step and of its synchronisation, by replicas, nodes and samples of one replica:
    # "8/2/64" to "0.31/0.04". The reader fits a model to them.
    step_times: dict[str, str] = {}
    # Of a program that adapts its batch: the first, the largest, and a replica's least and most.
    batch_range: str = ""
    global_batch: int | None = None
    noise: str = ""  # of the gradient: its variance over members by the square of its mean
    loss: str = ""
    last_save: TrainingSave | None = None
    saves: bool = False
    last_pause_seconds: str = ""
    slowest: TrainingStraggler | None = None
