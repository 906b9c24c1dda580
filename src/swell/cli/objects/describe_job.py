"""The first lines of `swell describe JOB`: its state and the reason, its sizes, its pods."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from swell.api.kinds import PODS
from swell.api.meta import Body
from swell.api.pod import Pod, PodPhase
from swell.cli.job_kinds import JOB_KINDS, FoundJob
from swell.cli.jobs.follow import DOES_ONE_RUN
from swell.cli.jobs.job_pods import pod_selector, replica_of
from swell.cli.objects.top import report_rows, size_rows, trainer_rows
from swell.cli.output import aligned, indented
from swell.cluster.kube import calls
from swell.cluster.kube.oneshot import OneShot
from swell.runtime.cluster import Selection

_HEADING_WIDTH = 14
# As wide as a terminal usually is.
_WIDTH = 100


def job_standing(body: Body, client: OneShot) -> str:
    """Return the state of a job with its reason first, then its sizes, pods and conditions."""
    kind = next(kind for kind in JOB_KINDS if kind.kind == body["kind"])
    job = FoundJob(kind, body)
    selection = Selection(job.key.namespace, labels=pod_selector(job))
    bodies = client.send(calls.list_page(PODS.untyped(), selection)).items
    own = [pod for pod in bodies if replica_of(job, pod) is not None]
    names = {pod["metadata"]["name"] for pod in own}
    listed = client.send(calls.list_page(PODS, selection)).items
    pods = [pod for pod in listed if pod.metadata.name in names]
    if job.is_ai_training_job:
        first = job.as_ai_training_job()
        rows, reported = size_rows([first], pods), report_rows([first])
    else:
        older = job.as_training_job()
        rows = [SIZE_HEADING, *trainer_rows([older], pods)]
        reported = report_rows([older])
    parts = [_state(job)]
    parts.append(f"Sizes:\n{indented(aligned([row[1:2] + row[3:] for row in rows]))}")
    if reported:
        parts.append(f"Training:\n{indented(aligned([row[1:] for row in reported]))}")
    if pods:
        parts.append(f"Pods:\n{indented(aligned([POD_HEADING, *map(_pod_row, _sorted(pods))]))}")
    conditions = (body.get("status") or {}).get("conditions") or ()
    if conditions:
        rows = [["TYPE", "STATUS", "REASON", "SINCE"]]
        rows += [
            [c["type"], c["status"], c.get("reason", ""), str(c.get("lastTransitionTime") or "")]
            for c in conditions
        ]
        parts.append(f"Conditions:\n{indented(aligned(rows))}")
    return "\n".join(parts)


SIZE_HEADING = ["JOB", "ROLE", "PHASE", "MIN", "NOW", "TARGET", "MAX"]
POD_HEADING = ["NAME", "PHASE", "NODE", "RESTARTS", "WHY"]


def _state(job: FoundJob) -> str:
    status = job.body.get("status") or {}
    state = " ".join(filter(None, (job.phase or "not looked at yet", job.ready)))
    reason = str(status.get("reason", "")) if job.is_ai_training_job else ""
    lines = [_line("State", state)]
    if not job.phase:
        lines += _block("Why", f"no operator has looked at the job; {DOES_ONE_RUN}")
    lines += _block("Why", f"{reason}: {job.message}" if reason and job.message else job.message)
    for one in status.get("conditions") or ():
        if (one.get("type"), one.get("status")) == ("Straggler", "True"):
            lines += _block("Straggler", str(one.get("message", "")))
    last = (status.get("scaleRecords") or status.get("scale_records") or [{}])[-1]
    if last:
        for_ = f" for {last['for']}" if last.get("for") else ""
        why = f" ({last['reason']})" if last.get("reason") else ""
        text = f"from {last.get('from', 0)} to {last.get('to', 0)} by {last.get('by', '')}"
        lines += _block("Last resize", f"{text}{for_}{why}")
    return "\n".join(lines)


def _pod_row(pod: Pod) -> list[str]:
    status = pod.status
    n_restarts = sum(one.restart_count for one in status.container_statuses)
    why = " ".join((status.message or status.reason or next(_troubles(pod), "")).split())
    phase = "Terminating" if pod.metadata.deletion_timestamp else status.phase.value
    return [pod.metadata.name, phase, pod.spec.node_name or "-", str(n_restarts), why]


def _troubles(pod: Pod) -> Iterator[str]:
    """Yield why a pod does not run, as its containers and its conditions say it."""
    for one in (*pod.status.init_container_statuses, *pod.status.container_statuses):
        waiting, ended = one.state.waiting, one.state.terminated
        if waiting is not None and waiting.reason:
            yield f"{waiting.reason}: {waiting.message}" if waiting.message else waiting.reason
        elif ended is not None and ended.exit_code:
            yield f"exit code {ended.exit_code}"
    if pod.status.phase is PodPhase.PENDING:
        for condition in pod.status.conditions:
            if condition.type == "PodScheduled" and condition.status == "False":
                yield condition.message


def _sorted(pods: Iterable[Pod]) -> list[Pod]:
    return sorted(pods, key=lambda pod: (len(pod.metadata.name), pod.metadata.name))


def _line(heading: str, value: str) -> str:
    label = f"{heading}:" if heading else ""
    return f"{label:<{_HEADING_WIDTH}}{value}" if value else ""


def _block(heading: str, text: str) -> list[str]:
    """Return a text behind its heading; several lines become a block of their own."""
    paragraphs = text.strip().splitlines()
    if not paragraphs:
        return []
    if len(paragraphs) > 1:
        return [_line(heading, paragraphs[0]), indented("\n".join(paragraphs[1:]))]
    wrapped = textwrap.wrap(paragraphs[0], _WIDTH - _HEADING_WIDTH)
    return [_line(heading if at == 0 else "", part) for at, part in enumerate(wrapped)]
