"""Parts of the schemas of both kinds of job: reports in the status, and who manages a job."""

from __future__ import annotations

from swell.api.report import TrainingState
from swell.api.schemas.model import (
    INT64_MAX,
    Pattern,
    Schema,
    ValidationRule,
    boolean,
    choice,
    integer,
    mapping,
    moment,
    table,
    text,
)
from swell.api.training import MANAGER

# As many sizes of the group as a status keeps rates for.
RATES_MAX = 16
NUMBER_SIZE_MAX = 32
BATCHES_SIZE_MAX = 64

_COUNT = integer(maximum=INT64_MAX)

MANAGED_BY = text(
    "Another controller that the job is left to; nothing is written about it then.",
    pattern=Pattern(
        r"([a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_./]*[A-Za-z0-9])?)?",
        "must be a domain, a slash and a path",
        MANAGER,
    ),
    size_max=63,
    example=MANAGER,
)
# Pods and services would be left to nobody, or to two.
MANAGER_STAYS = ValidationRule(
    "has(self.managedBy) == has(oldSelf.managedBy)"
    " && (!has(self.managedBy) || self.managedBy == oldSelf.managedBy)",
    "managedBy must not change",
    ".managedBy",
)


def training_status() -> Schema:
    number = text(size_max=NUMBER_SIZE_MAX)
    return table(
        {
            "reportedAt": moment(),
            "state": choice(TrainingState),
            "progress": text("Samples used of all samples.", size_max=NUMBER_SIZE_MAX),
            "rate": text("Samples a second.", size_max=NUMBER_SIZE_MAX),
            "eta": moment("When all samples are used, at this rate."),
            "generation": _COUNT,
            "size": _COUNT,
            "step": _COUNT,
            "samples": _COUNT,
            "totalSamples": _COUNT,
            "rates": mapping(number, size_max=RATES_MAX),
            "stepTimes": mapping(
                number,
                size_max=RATES_MAX,
                description="Seconds of a step and its synchronisation, by replicas/nodes/batch.",
            ),
            "batchRange": text(
                "First and largest batch, and the least and most samples of one replica.",
                size_max=BATCHES_SIZE_MAX,
            ),
            "globalBatch": _COUNT,
            "noise": number,
            "loss": number,
            "lastSave": table({"step": _COUNT, "time": moment(), "seconds": number}),
            "saves": boolean(),
            "lastPauseSeconds": number,
            "slowest": table({"index": _COUNT, "ratio": number}),
        },
        description="The last report of the job's program: its own words, within bounds.",
    )
