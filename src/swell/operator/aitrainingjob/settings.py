"""Choices of the operator for AITrainingJobs, with their defaults."""

from __future__ import annotations

from dataclasses import dataclass

from swell.operator.framework.settings import OperatorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class AITrainingJobSettings(OperatorSettings):
    """The settings of the AITrainingJob operator.

    A pod whose container cannot be created is replaced after `creating_duration_period_s`, while
    its job has been Creating for less than `creating_restart_period_s`. After that the job fails
    if `enable_creating_failed` is set. `creating_restart_limit` bounds the number of replacements
    of a role's pods since the job last ran, beside that time; None is no bound.
    """

    node_lost_after_s: float = 30.0  # without a ready node, its pods count as lost after this
    creating_duration_period_s: float = 900.0
    creating_restart_period_s: float = 3600.0
    creating_restart_limit: int | None = None
    enable_creating_failed: bool = False
    # New pods of a job avoid a node with a broken GPU for this long: a repair takes a while, and
    # a node is not lost to the job for good.
    node_avoid_s: float = 3600.0
    # After a change of the membership so many pods of a job are touched, by an annotation, for
    # their kubelets to renew the members folder at once instead of within a minute. The programs
    # tell each other what the first of them has read. A node agent of ours needs none of it.
    touched_pods_max: int = 32
    # A member whose steps take so many times the median of all, over so many steps, is a straggler.
    straggler_ratio: float = 1.5
    straggler_steps: int = 50
    # A pod that is asked to save is deleted after this long, whatever its job says.
    save_seconds_max: float = 120.0
