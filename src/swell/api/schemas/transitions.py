"""The fields of an AITrainingJob that are frozen once it has begun, as a rule for the API server.

`swell.api.validation.transitions` checks two manifests by the same fields, with a hint for each.
"""

from __future__ import annotations

from swell.api.aitrainingjob import EdlPolicy
from swell.api.schemas.model import ValidationRule

FROZEN_JOB_FIELDS = (
    "frameworkType",
    "faultTolerant",
    "priority",
    "schedulerName",
    "queue",
    "failPolicy",
    "completePolicy",
    "restartingExitCode",
    "reporting",
    "networkTopology",
    "after",
    "afterPolicy",
    "requeuePolicy",
    "maxRetriesOnPreemption",
)
FROZEN_ROLE_FIELDS = (
    "restartPolicy",
    "restartScope",
    "failPolicy",
    "completePolicy",
    "replicaType",
    "networkTopology",
)
# Frozen as well, but while the job is suspended.
TEMPLATE = "template"
CHANGEABLE = (
    "replicas (of a Manual role), minReplicas, maxReplicas, edlPolicy, restartLimit, timeLimit,"
    " cleanPodPolicy, suspend, ttlSecondsAfterFinished, saveSeconds, deadline, scale"
    " and, while it is suspended, template and replicas of every role"
)

FIELDS_FROZEN = f"once a job is under way only {CHANGEABLE} may change"
ROLES_FROZEN = "roles must not be added or removed once a job is under way"
REPLICAS_FROZEN = (
    "replicas may be changed only in a role whose edlPolicy is Manual, or of a suspended job, once"
    " it is under way"
)

# A job that is suspended from the beginning, or waits for others, has a phase and not started.
_NOT_STARTED = (
    "!has(oldSelf.status) || !has(oldSelf.status.phase) || oldSelf.status.phase == ''"
    " || (oldSelf.status.phase == 'Pending' && !has(oldSelf.status.startTime)) || "
)
# A write of the status changes nothing else, and it changes this time. Comparing two times is
# cheaper than comparing two specs.
_TIME = "status.lastReconcileTime"
_IS_OF_STATUS = (
    f"(has(self.status) && has(self.{_TIME}) && has(oldSelf.{_TIME})"
    f" && self.{_TIME} != oldSelf.{_TIME}) || "
)
# A suspended job loses all pods before it gets new ones, so these may be made of another template,
# and be more or fewer. Kueue writes where the pods may go, and how many it admits, as it lets a job
# run, and takes that back as it stops the job: both in one write with `suspend`.
_IS_SUSPENDED = (
    "(has(self.spec.suspend) && self.spec.suspend)"
    " || (has(oldSelf.spec.suspend) && oldSelf.spec.suspend)"
)
_ROLES = "self.spec.replicaSpecs"
_OLD_ROLES = "oldSelf.spec.replicaSpecs"


def freeze_rule() -> ValidationRule:
    """Returns one rule for all frozen fields, which first rules out that anything has changed.

    A server evaluates it at every write of a status. As four rules it took as long as all the rest
    of such a write.
    """
    role = "spec.replicaSpecs[role]"
    job_fields = " && ".join(f"({_unchanged('spec', name)})" for name in FROZEN_JOB_FIELDS)
    role_fields = " && ".join(f"({_unchanged(role, name)})" for name in FROZEN_ROLE_FIELDS)
    templates = f"{_IS_SUSPENDED} || {_ROLES}.all(role, {_unchanged(role, TEMPLATE)})"
    checks = {
        f"size({_ROLES}) == size({_OLD_ROLES}) && {_ROLES}.all(role, role in {_OLD_ROLES})": (
            ROLES_FROZEN
        ),
        f"{_IS_SUSPENDED} || {_ROLES}.all(role, (has({_ROLES}[role].edlPolicy)"
        f" && {_ROLES}[role].edlPolicy == '{EdlPolicy.MANUAL.value}')"
        f" || ({_unchanged(role, 'replicas')}))": REPLICAS_FROZEN,
        f"{job_fields} && {_ROLES}.all(role, {role_fields}) && ({templates})": FIELDS_FROZEN,
    }
    every = " && ".join(f"({check})" for check in checks)
    first = " : ".join(f"!({check}) ? '{message}'" for check, message in checks.items())
    return ValidationRule(
        f"{_NOT_STARTED}{_IS_OF_STATUS}self.spec == oldSelf.spec || ({every})",
        FIELDS_FROZEN,
        ".spec",
        f"{first} : '{FIELDS_FROZEN}'",
    )


def _unchanged(parent: str, name: str) -> str:
    """Returns CEL for a field that is equal in both versions, or missing in both."""
    new, old = f"self.{parent}.{name}", f"oldSelf.{parent}.{name}"
    return f"has({new}) == has({old}) && (!has({new}) || {new} == {old})"
