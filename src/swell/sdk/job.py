"""A job that was submitted: what became of it, and what can be done with it."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from swell.api.aitrainingjob import StartEstimate
from swell.api.codec import convert
from swell.api.kinds import EVENTS
from swell.api.meta import Body
from swell.api.times import parse_time
from swell.cli.job_kinds import FoundJob
from swell.cli.jobs.logs import ContainerFilter, LogLine, check_filter, logs_of
from swell.cli.jobs.scaling import scale_job
from swell.cli.jobs.stopping import StopPhase, stop_job
from swell.cli.objects.deleting import delete_one, wait_until_gone
from swell.cli.objects.events import event_order, last_seen
from swell.cli.objects.listing import is_about
from swell.cluster.kube import calls
from swell.cluster.kube.watching import WatchedObjects
from swell.runtime.cluster import Selection
from swell.sdk.errors import SwellError, as_swell_errors

if TYPE_CHECKING:
    from swell.cli.connection import ClusterConnection
    from swell.scheduler.explain.positions import QueuePosition
    from swell.sdk.cluster import ClusterHandle

POLL_S = 0.2
_NOT_STARTED = frozenset({"", "Pending"})
MESSAGE = "stopped by Job.stop"


class PrintedLine(NamedTuple):
    """A line that a pod has printed; as a text it has the prefix that `swell logs` gives it."""

    source: str
    text: str

    def __str__(self) -> str:
        return f"[{self.source}] {self.text}"


class JobEvent(NamedTuple):
    """Something that happened to a job, or to one of its pods; `time` is in seconds (Unix)."""

    time: float
    type: str
    reason: str
    object: str
    message: str
    times: int


class JobHandle:
    """A job as it was when it was last read; `refresh` and `wait` read it again."""

    def __init__(self, cluster: ClusterHandle, found: FoundJob) -> None:
        self._cluster = cluster
        self._found = found

    def __repr__(self) -> str:
        return f"<swell.Job {self._found.title} {self.phase or 'just created'}>"

    @property
    def name(self) -> str:
        return self._found.key.name

    @property
    def namespace(self) -> str:
        return self._found.key.namespace

    @property
    def kind(self) -> str:
        return self._found.resource.kind

    @property
    def uid(self) -> str:
        return self._found.uid

    @property
    def phase(self) -> str:
        """The phase; empty until the operator has seen the job."""
        return self._found.phase

    @property
    def message(self) -> str:
        """The text about the phase: why it waits, or how it ended."""
        return self._found.message

    @property
    def has_ended(self) -> bool:
        return self._found.has_ended

    @property
    def body(self) -> Body:
        """The object, as the API has it."""
        return self._found.body

    def refresh(self) -> JobHandle:
        """Read the job again, and return it."""
        self._found = self._cluster.read_again(self._found)
        return self

    def wait(self, timeout: float | None = None, *, check: bool = False) -> JobHandle:
        """Wait until the job has ended, and return it.

        With `check` a job that did not succeed is a SwellError. After `timeout` seconds it is a
        TimeoutError.

        >>> import swell
        >>> job = swell.connect().submit(["sh", "-c", "exit 3"], name="breaks")
        >>> job.wait().phase
        'Failed'
        >>> job.wait(check=True)
        Traceback (most recent call last):
            ...
        swell.sdk.errors.SwellError: breaks: Failed: ...
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        with (
            as_swell_errors(),
            self._cluster.opened() as connection,
            self._watched(connection) as seen,
        ):
            while not self.has_ended:
                if deadline is not None and time.monotonic() > deadline:
                    raise TimeoutError(f"{self.name} has not ended after {timeout} s: {self.phase}")
                seen.poll(POLL_S)
                self._take(seen)
        if check and self.phase != "Succeed":
            hint = f"see: swell describe {self.name}"
            raise SwellError(f"{self.name}: {self.phase}: {self.message}", hint)
        return self

    def logs(
        self, *, follow: bool = False, role: str = "", index: int | None = None, container: str = ""
    ) -> Iterator[PrintedLine]:
        """Yield what the containers have printed; with `follow`, until the job has ended."""
        filter_ = ContainerFilter(role, index, container)
        with as_swell_errors(), self._cluster.opened() as connection:
            check_filter(self._found, filter_)
            source = logs_of(connection, self._found, filter_)
            if not follow:
                yield from map(_printed, source.current_lines())
                return
            with self._watched(connection) as seen:
                while not self.has_ended:
                    seen.poll(POLL_S)
                    self._take(seen)
                    yield from map(_printed, source.new_lines())
                yield from map(_printed, source.last_lines())

    def scale(self, **sizes: int) -> JobHandle:
        """Set the sizes of roles, as `scale(trainer=3)`, and return the job as it is then."""
        with as_swell_errors(), self._cluster.opened(writes=True) as connection:
            self._found = scale_job(connection, self._found, sizes)
        return self

    def stop(self, reason: str = MESSAGE, *, ending: str = "Failed") -> JobHandle:
        """End the job. Its record and logs stay; `wait` waits for its end.

        >>> import swell
        >>> job = swell.connect().submit(["sleep", "1000"], name="endless")
        >>> job.stop("enough").wait().message
        'enough'
        """
        try:
            phase = StopPhase(ending)
        except ValueError as error:
            known = ", ".join(one.value for one in StopPhase)
            raise SwellError(f"a job cannot be stopped as {ending}", f"one of {known}") from error
        self.refresh()
        with as_swell_errors(), self._cluster.opened(writes=True) as connection:
            stop_job(connection, self._found, phase, reason)
        return self

    def delete(self) -> None:
        """Remove the job with its record, and return when it is gone."""
        with as_swell_errors(), self._cluster.opened(writes=True) as connection:
            delete_one(self._found.resource, self._found.body, connection)
            wait_until_gone(self._found.resource, self._found.body, connection)

    def explain(self) -> str:
        """Return why the job waits, and what would help, as `swell explain` prints it."""
        with as_swell_errors(), self._cluster.opened() as connection:
            from swell.cli.explain.target import parse_target_name, read_target
            from swell.cli.explain.text import render
            from swell.cli.plan.input import read_config
            from swell.outlook.explaining import report_on
            from swell.outlook.reading import read_input

            name = parse_target_name([f"{self._found.resource.plural}/{self.name}"])
            target = read_target(name, self.namespace, connection.client)
            found = read_input(connection.client, target)
            report = report_on(target, found, read_config(""), connection.scheduler_names)
        return render(report, time.time())

    def position(self) -> QueuePosition | None:
        """Return the job's position among those that wait in its queue; None if it does not wait.

        >>> import swell
        >>> cluster = swell.connect()
        >>> huge = cluster.submit(["true"], name="huge", cpu="100000")
        >>> while not huge.refresh().message:
        ...     pass
        >>> huge.position()
        QueuePosition(queue='default', position=1, n_waiting=1)
        >>> huge.delete()
        """
        with as_swell_errors(), self._cluster.opened() as connection:
            from swell.cli.positions import read_positions

            found = read_positions(connection.client)
        return found.of(self.uid, self.namespace, self.name)

    @property
    def start_estimate(self) -> StartEstimate | None:
        """When the job will start, as three percentiles; None where that is not known."""
        status = self.body.get("status") or {}
        held = status.get("startEstimate")
        return convert(held, StartEstimate) if held and self.phase in _NOT_STARTED else None

    def events(self) -> list[JobEvent]:
        """Return what has happened to the job and its pods, the oldest first."""
        with as_swell_errors(), self._cluster.opened() as connection:
            page = connection.client.send(
                calls.list_page(EVENTS.untyped(), Selection(self.namespace))
            )
        # Events name a kind, and an object of a list does not.
        body = {**self.body, "kind": self.kind}
        return [_event(one) for one in sorted(page.items, key=event_order) if is_about(one, body)]

    def history(self) -> list[Body]:
        """Return the records of jobs of this name, as `swell history JOB -o json` prints them.

        The living one comes first, then those that have ended, the last one first.

        >>> import swell
        >>> job = swell.connect().submit(["true"], name="recorded").wait()
        >>> job.history()[0]["phase"]
        'Succeed'
        """
        from swell.cli.history.lives import read_lives
        from swell.history.reading import HistoryFilter
        from swell.history.summary import details_of

        now = time.time()
        with as_swell_errors(), self._cluster.opened() as connection:
            lives = read_lives(connection, self.namespace, HistoryFilter(name=self.name), now)
        return [details_of(life, now) for life in lives]

    def _watched(self, connection: ClusterConnection) -> WatchedObjects[Body]:
        selection = Selection(self.namespace, fields=f"metadata.name={self.name}")
        rng = random.Random()  # noqa: S311
        return WatchedObjects(connection.client, self._found.resource, selection, rng)

    def _take(self, seen: WatchedObjects[Body]) -> None:
        """Take over the job's latest state; SwellError if it is gone."""
        body = seen.objects.get(self._found.key)
        if body is None or body["metadata"]["uid"] != self.uid:
            raise SwellError(f"{self.name} was deleted meanwhile", "see: swell get")
        self._found = FoundJob(self._found.resource, body)


def _printed(line: LogLine) -> PrintedLine:
    return PrintedLine(line.source, line.text.decode(errors="replace"))


def _event(event: Body) -> JobEvent:
    about = event.get("involvedObject") or {}
    return JobEvent(
        time=parse_time(last_seen(event)),
        type=event.get("type", ""),
        reason=event.get("reason", ""),
        object=f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}",
        message=event.get("message", ""),
        times=(event.get("series") or {}).get("count") or event.get("count") or 1,
    )
