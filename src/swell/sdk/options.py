"""The options of a job as keywords, and what the command line calls them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict, Unpack

from swell.cli.jobs.command_job import CommandOptions
from swell.cli.options import seconds_of
from swell.sdk.errors import SwellError

# The options that are texts on the command line, whatever they are here.
_TEXTS = frozenset(
    {"cpu", "memory", "gpu", "image", "queue", "priority", "framework"}
    | {"nproc_per_node", "checkpoints", "workdir"}
)


class JobKeywords(TypedDict, total=False):
    """The keywords that describe the job of a command or a function.

    They mean what the flags of `swell run` of these names mean. With `max` above `min` the job is
    elastic. `time_limit` is a number of seconds, or a text such as "2h".
    """

    min: int
    max: int
    cpu: str | float
    memory: str
    gpu: str | int
    image: str
    queue: str
    priority: str
    framework: str
    restart: int
    after: Sequence[str]
    time_limit: float | str
    labels: Mapping[str, str]
    env: Mapping[str, str]
    nproc_per_node: str | int
    checkpoints: str
    workdir: str
    clean_env: bool
    reporting: bool


def command_options(**given: Unpack[JobKeywords]) -> CommandOptions:
    """Return keywords as the flags of `swell run`; SwellError for a duration that is none."""
    limit = given.get("time_limit")
    try:
        limit_s = None if limit is None else seconds_of(limit)
    except ValueError as error:
        raise SwellError(f"time_limit: {error}") from error
    return CommandOptions(
        least=given.get("min"),
        most=given.get("max"),
        restart=given.get("restart"),
        after=list(given.get("after", ())),
        time_limit=limit_s,
        label=[f"{name}={value}" for name, value in given.get("labels", {}).items()],
        env=[f"{name}={value}" for name, value in given.get("env", {}).items()],
        clean_env=given.get("clean_env", False),
        reporting=given.get("reporting"),
        **{name: str(value) for name, value in given.items() if name in _TEXTS},
    )
