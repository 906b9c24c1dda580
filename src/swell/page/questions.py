"""Questions about one cluster as it is: why a job waits, and what would happen to another.

Everything is read with the user's own credentials, and worked out by `swell.outlook` on a copy. One
answer may read the whole cluster, so the server lets a few be worked out at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from swell.api.aitrainingjob import AITrainingJob
from swell.api.codec import convert
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.manifest.composer import ManifestSyntaxError
from swell.api.manifest.yamldata import YamlBudget, read_documents
from swell.api.meta import Body
from swell.api.trainingjob import TrainingJob
from swell.api.validation.kinds import validate
from swell.autoscaler.policies import DEFAULT as DEFAULT_POLICY
from swell.autoscaler.policies.interface import Parameters
from swell.outlook.explaining import report_on
from swell.outlook.reading import gather_input
from swell.outlook.sizing import OutlookRules
from swell.outlook.target import of_job, of_training_job
from swell.outlook.variants import OutlookError, Variant, variants_of, without_job
from swell.outlook.whatif import what_if
from swell.runtime.cluster import Cluster
from swell.scheduler.config import DEFAULT as DEFAULT_CONFIG

T = TypeVar("T")
# A pasted manifest; the request's own bound is above it.
_BUDGET = YamlBudget(text_bytes=48 * 1024, values=10_000, aliases=False)
# A job of more pods would keep the server from everybody else for seconds.
PODS_MAX = 2000
_PROBLEMS_SHOWN = 5
# Answers that are worked out at a time. They read whole clusters, and share one processor.
AT_A_TIME = 2


class QuestionError(ValueError):
    """A question that cannot be answered; the text is for the user."""

    def __init__(self, text: str, status: int = 422) -> None:
        super().__init__(text)
        self.status = status


class PageQuestions:
    """Answers the questions of all sessions, a few at a time."""

    def __init__(self) -> None:
        self._turns = asyncio.Semaphore(AT_A_TIME)

    async def explained(
        self, cluster: Cluster, job: AITrainingJob | TrainingJob, now: float
    ) -> Body:
        """Returns why a job waits, or what became of it, as `swell explain -o json` does."""
        target = of_job(job) if isinstance(job, AITrainingJob) else of_training_job(job)
        async with self._turns:
            found = await gather_input(cluster, target)
            return await _aside(lambda: report_on(target, found, DEFAULT_CONFIG, (), now).body())

    async def what_if(
        self, cluster: Cluster, job: AITrainingJob, asked: Variant, now: float, *, is_there: bool
    ) -> list[Body]:
        """Returns what would happen to a job, as it is and with changes: `swell plan job`."""
        _refuse_large(job, asked)
        rules = OutlookRules(DEFAULT_CONFIG, DEFAULT_POLICY, Parameters(now=now))
        async with self._turns:
            found = await gather_input(cluster)
            if not found.is_whole:
                raise QuestionError("; ".join(found.notes), status=403)

            def answers() -> list[Body]:
                objects = found.objects
                if is_there:
                    objects = without_job(objects, job.metadata.key)
                found_by_variant = what_if(objects, job, variants_of(asked), rules)
                return [one.body() for one in found_by_variant]

            try:
                return await _aside(answers)
            except OutlookError as error:
                text = f"{error} ({error.hint})" if error.hint else str(error)
                raise QuestionError(text) from error


async def _aside(work: Callable[[], T]) -> T:
    """Work in a thread, so that changes go on reaching open pages."""
    return await asyncio.to_thread(work)


def pasted_job(text: str) -> AITrainingJob:
    """Returns the job in a manifest; raises QuestionError with the first problems of a bad one."""
    try:
        documents = [one for one in read_documents(text, _BUDGET) if one is not None]
    except ManifestSyntaxError as error:
        raise QuestionError(f"line {error.line}: {error.message}") from error
    jobs = [one for one in documents if _kind(one) == AI_TRAINING_JOBS.kind]
    if len(jobs) != 1:
        n_jobs = len(jobs)
        raise QuestionError(f"paste one AITrainingJob: there are {n_jobs} of it in this text")
    problems = validate(jobs[0])
    if problems:
        more = len(problems) - _PROBLEMS_SHOWN
        shown = [str(one) for one in problems[:_PROBLEMS_SHOWN]]
        raise QuestionError("; ".join([*shown, *([f"and {more} more"] if more > 0 else [])]))
    try:
        return convert(jobs[0], AITrainingJob)
    except msgspec.ValidationError as error:
        raise QuestionError(str(error)) from error


def asked_variant(body: Mapping[str, object]) -> Variant:
    """Returns the changes that a request asks about; raises QuestionError for wrong ones."""
    replicas = body.get("replicas")
    if replicas in (None, ""):
        replicas = None
    elif not isinstance(replicas, int) or isinstance(replicas, bool) or replicas < 1:
        raise QuestionError("replicas must be a whole number, 1 or more")
    texts = {}
    for field, name in (
        ("priority", "priority"),
        ("queue", "queue"),
        ("node_pool", "nodePool"),
        ("without", "without"),
        ("drain", "drain"),
    ):
        value = body.get(name) or ""
        if not isinstance(value, str):
            raise QuestionError(f"{name} must be a text")
        texts[field] = value.strip()
    return Variant(replicas=replicas, **texts)


def _refuse_large(job: AITrainingJob, asked: Variant) -> None:
    largest = sum(spec.size for spec in job.spec.replica_specs.values())
    n_pods = max(largest, asked.replicas or 0)
    if n_pods > PODS_MAX:
        raise QuestionError(
            f"the job has {n_pods:,} pods; the page answers for {PODS_MAX:,} at most: "
            "ask swell plan job"
        )


def _kind(document: object) -> object:
    return document.get("kind") if isinstance(document, Mapping) else None
