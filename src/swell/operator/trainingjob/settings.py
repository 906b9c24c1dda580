"""Choices of the operator for TrainingJobs, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from swell.operator.framework.settings import OperatorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJobSettings(OperatorSettings):
    """The settings of the TrainingJob operator.

    With `autoclean` the pods of a job are deleted when it is over. `restart_limit` is how often
    a trainer of a fault tolerant job is replaced, and how many restarts of a pserver's container
    fail the job.
    """

    # Counts in `swell up` only: `swell operator --workers` sets the number for all kinds.
    workers: int = 4
    autoclean: bool = False
    restart_limit: int = 5
    # The etcd project's own image, as it publishes it.
    etcd_image: str = "quay.io/coreos/etcd:v3.5.17"
    # The longest that a trainer may take to save before it leaves.
    save_seconds_max: float = 120.0
    # Whether what the original controller left behind is collected.
    adopt_original: bool = False
