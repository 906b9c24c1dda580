"""The cluster that a program talks to: chosen as the command line chooses it."""

from __future__ import annotations

import os
import random
import shlex
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Unpack

from swell.api import codec
from swell.api.kinds import AI_TRAINING_JOBS
from swell.api.manifest import Document, read
from swell.api.meta import Body
from swell.cli.choice import ClusterChoice, NoClusterError, choose
from swell.cli.connection import (
    ClusterConnection,
    access_of,
    current_environment,
    opened,
    refuse_rival,
)
from swell.cli.job_kinds import JOB_KINDS, FoundJob, parse_job_name, read_job
from swell.cli.jobs.command_job import CommandOptions, add_caller, command_job
from swell.cli.jobs.run import job_among, submit_job, with_embedded_cluster
from swell.cli.jobs.submission import find_warnings
from swell.cli.manifests import problems_in, read_valid, refuse_problems
from swell.cli.objects.apply import apply_one, resolve
from swell.cli.options import ClusterOptions
from swell.cluster.kube import calls
from swell.cluster.kube.access import Access
from swell.cluster.kube.watching import WatchedObjects
from swell.runtime.cluster import EventType, Selection
from swell.runtime.errors import NotFoundError
from swell.sdk.errors import SwellError, SwellWarning, as_swell_errors
from swell.sdk.functions import function_command
from swell.sdk.job import JobHandle
from swell.sdk.options import JobKeywords, command_options
from swell.sdk.sweep import Rows, SweepHandle, new_sweep

# A manifest as an object or a file, a command, or a function.
Work = Mapping[str, Any] | os.PathLike[str] | str | Sequence[str] | Callable[..., object]
POLL_S = 0.2


class JobChange(NamedTuple):
    """A job as it is after a change; `type` is added, modified or deleted."""

    type: str
    job: JobHandle


class ClusterHandle:
    """A cluster. Calls are independent of each other, and may come from several threads."""

    def __init__(self, choice: ClusterChoice, access: Access, namespace: str) -> None:
        self._choice = choice
        self._access = access
        self._namespace = namespace or access.namespace or "default"

    def __repr__(self) -> str:
        return f"<swell.Cluster {self._access.server} namespace {self.namespace}>"

    @property
    def namespace(self) -> str:
        """The namespace that jobs are submitted to and looked for in."""
        return self._namespace

    @property
    def is_embedded(self) -> bool:
        """Whether it is an embedded cluster, whose jobs are processes of this machine."""
        return self._choice.embedded

    def submit(
        self,
        work: Work,
        *,
        name: str = "",
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
        strict: bool = False,
        **options: Unpack[JobKeywords],
    ) -> JobHandle:
        """Submit a job and return it at once.

        The work is a manifest (a mapping, or the path of a file), a command (a list of words, or
        a text that is split as a shell does), or a function, called with `args` and `kwargs`. The
        options are those of `swell run`. Warnings are SwellWarning; `strict` refuses them.

        >>> import swell
        >>> job = swell.connect().submit(["echo", "hello"], name="greets", cpu="100m")
        >>> job.wait().phase
        'Succeed'
        >>> [str(line) for line in job.logs()]
        ['[trainer-0] hello']
        """
        with as_swell_errors():
            documents = self._documents(work, name, (args, kwargs or {}), options)
            job, others = job_among([document.body for document in documents], name)
            with self.opened(writes=True) as connection:
                found = find_warnings(documents, connection, is_strict=strict)
                for text in found.texts:
                    warnings.warn(text, SwellWarning, stacklevel=2)
                for other in others:
                    apply_one(resolve(other, connection, self.namespace), connection)
                return JobHandle(self, submit_job(job, connection, self.namespace))

    def sweep(
        self,
        work: str | Sequence[str] | Callable[..., object],
        rows: Rows,
        *,
        name: str = "",
        parallel: int | None = None,
        **options: Unpack[JobKeywords],
    ) -> SweepHandle:
        """Submit one job for every row of parameters.

        Rows are a grid (a mapping from names to values) or a sequence of mappings. A command has
        `{name}` in the places of values; a function is called with a row as keywords. With
        `parallel` only so many jobs run at a time, while `Sweep.wait` is called.

        >>> import swell
        >>> sweep = swell.connect().sweep(
        ...     ["echo", "{lr}", "{seed}"], {"lr": [0.1, 0.2], "seed": [1]}, name="tries"
        ... )
        >>> sweep.wait().counts
        {'Succeed': 2}
        >>> [str(line) for line in sweep.logs()]
        ['[tries-0-trainer-0] 0.1 1', '[tries-1-trainer-0] 0.2 1']
        """
        with as_swell_errors():
            return new_sweep(self, work, rows, (name, parallel), command_options(**options))

    def job(self, name: str) -> JobHandle:
        """Return a job by its name, or `aitj/NAME` or `tj/NAME`; SwellError if there is none."""
        with as_swell_errors(), self.opened() as connection:
            return JobHandle(self, read_job(connection, self.namespace, parse_job_name(name)))

    def jobs(self, labels: str = "") -> list[JobHandle]:
        """Return the jobs of the namespace, of both kinds, by their names."""
        found: list[FoundJob] = []
        with as_swell_errors(), self.opened() as connection:
            for kind in JOB_KINDS:
                try:
                    page = connection.client.send(
                        calls.list_page(kind, Selection(self.namespace, labels))
                    )
                except NotFoundError:
                    continue  # a cluster need not have both kinds
                found += [FoundJob(kind, body) for body in page.items]
        return [JobHandle(self, job) for job in sorted(found, key=lambda one: one.key)]

    def watch(self, labels: str = "") -> Iterator[JobChange]:
        """Yield every AITrainingJob as it is now, then every change, until the caller leaves.

        >>> import swell
        >>> cluster = swell.connect()
        >>> job = cluster.submit(["true"], name="watched")
        >>> for change in cluster.watch():
        ...     if change.job.name == "watched" and change.job.has_ended:
        ...         break
        >>> change.job.phase
        'Succeed'
        """
        jobs, rng = AI_TRAINING_JOBS.untyped(), random.Random()  # noqa: S311
        with (
            as_swell_errors(),
            self.opened() as connection,
            WatchedObjects(
                connection.client, jobs, Selection(self.namespace, labels), rng
            ) as watched,
        ):
            while True:
                watched.poll(POLL_S)
                for type_, body in watched.take_changes():
                    if type_ is not EventType.BOOKMARK:
                        yield JobChange(type_.value.lower(), JobHandle(self, FoundJob(jobs, body)))

    @contextmanager
    def opened(self, *, writes: bool = False) -> Iterator[ClusterConnection]:
        """Open the cluster for a few calls."""
        if writes:
            refuse_rival(self._choice)
        with opened(self._choice, self._access) as connection:
            yield connection

    def read_again(self, job: FoundJob) -> FoundJob:
        """Return a job as it is now; SwellError if it is gone, also if another took its name."""
        with as_swell_errors(), self.opened() as connection:
            try:
                body = connection.client.send(calls.get(job.resource, job.key))
            except NotFoundError:
                body = None
        if body is None or body["metadata"]["uid"] != job.uid:
            raise SwellError(f"{job.key.name} was deleted meanwhile", "see: swell get")
        return FoundJob(job.resource, body)

    def _documents(
        self,
        work: Work,
        name: str,
        call: tuple[Sequence[Any], Mapping[str, Any]],
        options: JobKeywords,
    ) -> list[Document]:
        """Return the checked manifests of some work; the first one with a job is submitted."""
        if isinstance(work, (Mapping, os.PathLike)):
            if options:
                message = "a manifest says itself how large its pods are"
                raise SwellError(message, "leave out: " + ", ".join(options))
            if isinstance(work, os.PathLike):
                readings = read_valid([os.fspath(work)])
            else:
                readings = [read(codec.encode(dict(work)), "job")]
                refuse_problems(problems_in(readings))
            return [document for reading in readings for document in reading.documents]
        asked = command_options(**options)
        document = command_job(name, self.command_of(work, *call), asked, os.environ)
        self.add_caller_to(document.body, asked)
        return [document]

    def command_of(
        self,
        work: str | Sequence[str] | Callable[..., object],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
    ) -> Sequence[str]:
        """Return the command that some work is; of a function, one that calls it."""
        if isinstance(work, str):
            return shlex.split(work)
        if callable(work):
            # Processes of this machine run in the very interpreter that has pickled the function.
            interpreter = sys.executable if self.is_embedded else "python"
            return function_command(work, args, kwargs, interpreter)
        return [str(word) for word in work]

    def add_caller_to(self, body: Body, asked: CommandOptions) -> None:
        """Give a job of the embedded cluster the caller's folder and environment."""
        if self.is_embedded:
            add_caller(body, asked, os.environ, Path.cwd())


def connect(
    *,
    kubeconfig: str = "",
    context: str = "",
    embedded: bool = False,
    namespace: str = "",
    start: bool = False,
) -> ClusterHandle:
    """Return the cluster that the command line would choose here, or the one that is named.

    With `start` the embedded cluster is started if it is the one to use and does not run, as
    `swell run` does.

    >>> import swell
    >>> swell.connect().namespace
    'default'
    """
    flags = ClusterOptions(kubeconfig=kubeconfig, context=context, embedded=embedded)
    with as_swell_errors():
        if start:
            flags = with_embedded_cluster(flags)
        try:
            choice = choose(flags, current_environment())
        except NoClusterError as error:
            raise SwellError(str(error), error.hint) from error
        return ClusterHandle(choice, access_of(choice), namespace)
