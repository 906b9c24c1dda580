"""Parts of the schemas of both kinds of job: reports, and when jobs begin, pause, end and go."""

from __future__ import annotations

from swell.api.aitrainingjob import AfterPolicy
from swell.api.report import TrainingState
from swell.api.schemas.model import (
    INT32_MAX,
    INT64_MAX,
    Pattern,
    Schema,
    ValidationRule,
    boolean,
    choice,
    integer,
    listing,
    mapping,
    moment,
    table,
    text,
)
from swell.api.schemas.shared import NAME_SIZE_MAX
from swell.api.training import MANAGER

# As many sizes of the group as a status keeps rates for.
RATES_MAX = 16
NUMBER_SIZE_MAX = 32
BATCHES_SIZE_MAX = 64
# As many jobs as one may come after.
AFTER_MAX = 64


def _count(description: str) -> Schema:
    return integer(description, maximum=INT64_MAX)


def _number(description: str) -> Schema:
    """A number with a fraction, as a text: not all clients round alike."""
    return text(description, size_max=NUMBER_SIZE_MAX)


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

NOT_AFTER_ITSELF = ValidationRule(
    "!has(self.spec.after) || !(self.metadata.name in self.spec.after)",
    "a job must not come after itself",
    ".spec.after",
)

SCALE_STATUS = table(
    {
        "replicas": _count("The target of the role that it is about."),
        "selector": text("The labels of that role's pods.", size_max=512),
    },
    description="Read by the scale subresource.",
)
DEPENDENCIES = mapping(
    text(),
    size_max=AFTER_MAX,
    description="Of each job in after: Waiting, Gone, or the phase it ended in.",
)
SUSPENSION = table(
    {"startedAt": moment("When it began to give them back.")},
    description="Since when the job gives back its pods, while it does or has none.",
)


def life(job_names: Pattern) -> dict[str, Schema]:
    """The fields about when a job begins, pauses, is due, and goes."""
    return {
        "suspend": boolean(
            "Whether the job gives back all its pods and waits; false lets it queue anew."
        ),
        "ttlSecondsAfterFinished": integer(
            "Seconds after its end at which the job is deleted; without it, never.",
            maximum=INT32_MAX,
            example="3600",
        ),
        "deadline": moment("When it should be done; a later end is told, and stops nothing."),
        "after": listing(
            text(pattern=job_names, size_max=NAME_SIZE_MAX, example="prepare"),
            size_max=AFTER_MAX,
            description="Jobs of the namespace that must have succeeded before this one.",
        ),
        "afterPolicy": choice(
            AfterPolicy,
            "What becomes of the job when one of these fails or goes.",
            default=AfterPolicy.FAIL,
        ),
    }


def training_status() -> Schema:
    return table(
        {
            "reportedAt": moment("When it was received."),
            "state": choice(TrainingState, "What the program does."),
            "progress": _number("Samples used of all samples."),
            "rate": _number("Samples a second."),
            "eta": moment("When all samples are used, at this rate."),
            "generation": _count("How often the members have agreed on a group."),
            "size": _count("Members of the group."),
            "step": _count("Steps done."),
            "samples": _count("Samples used."),
            "totalSamples": _count("All samples, if the program knows."),
            "rates": mapping(
                _number(""), size_max=RATES_MAX, description="Samples a second, by size."
            ),
            "stepTimes": mapping(
                _number(""),
                size_max=RATES_MAX,
                description="Seconds of a step and its synchronisation, by replicas/nodes/batch.",
            ),
            "batchRange": text(
                "First and largest batch, and the least and most samples of one replica.",
                size_max=BATCHES_SIZE_MAX,
            ),
            "globalBatch": _count("Samples of one step of all members."),
            "noise": _number("Variance of the gradient by the square of its mean."),
            "loss": _number("The loss."),
            "lastSave": table(
                {
                    "step": _count("The step it holds."),
                    "time": moment("When it was complete."),
                    "seconds": _number("How long it took."),
                },
                description="The last checkpoint.",
            ),
            "saves": boolean("Whether the program saves when it is asked to leave."),
            "lastPauseSeconds": _number("How long the last change of the group held it up."),
            "slowest": table(
                {
                    "index": _count("Its index in the role."),
                    "ratio": _number("Its step time by the median of all."),
                    "steps": _count("For how many steps on end it has been the slowest."),
                },
                description="The slowest member.",
            ),
        },
        description="The last report of the job's program: its own words, within bounds.",
    )
