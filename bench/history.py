"""What a history costs: the operator's rate with it and without, and how fast 10,000 jobs are read.

The operator runs whole lives of small jobs on the embedded API server, in this process; the rounds
with a history and without take turns. CPU time counts, because nothing else is waited for. Both go
on for as long after the last end, so that records are written, and nothing else is in between.
"""

from __future__ import annotations

import asyncio
import random
import time
from contextlib import suppress
from statistics import median

from bench.budgets import Budget, at_most
from swell.api.aitrainingjob import FINAL_PHASES
from swell.api.core import ConfigMap
from swell.api.kinds import AI_TRAINING_JOBS, CONFIG_MAPS, NODES, PODS
from swell.api.meta import Body
from swell.api.times import format_time
from swell.cli.command_line import collect_seldom
from swell.cluster.embedded.assembly import new_api_server
from swell.cluster.embedded.client import InProcessCluster
from swell.cluster.embedded.storage import Storage
from swell.history.ledger import ledger_of
from swell.history.life import JobLife, PhaseChange, PodRun, RoleShape
from swell.history.pods import cost_of
from swell.history.reading import ended_lives
from swell.history.settings import HistorySettings
from swell.history.shards import HISTORY_LABEL, ShelfName
from swell.history.shelf import Shelf
from swell.history.summary import summary_of
from swell.operator.aitrainingjob.kind import ai_training_job_kind
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.program import operate
from swell.runtime.clock import SystemClock
from swell.runtime.cluster import EventType, Selection, merge_patch
from swell.runtime.errors import ClusterError

N_ROUNDS = 7
N_JOBS = 120
N_PODS = 4
N_HISTORY = 10_000
WAIT_S = 300.0
SETTLE_S = 1.0  # records are written a fifth of a second after the end
NODE = "bench"
BINDINGS = PODS.sub("binding", dict)
T0 = 1_700_000_000.0
ADDED = "history_added_percent"
ASKED: dict[str, Budget] = {ADDED: at_most(3), "history_query_10000_s": at_most(0.3)}


def run() -> dict[str, object]:
    with_s, without_s = [], []
    for _ in range(N_ROUNDS):
        without_s.append(asyncio.run(_lives(None)))
        with_s.append(asyncio.run(_lives(HistorySettings())))
    figures = asyncio.run(_query())
    return {
        "history_cpu_ms_per_job_without": 1000 * median(without_s) / N_JOBS,
        "history_cpu_ms_per_job_with": 1000 * median(with_s) / N_JOBS,
        ADDED: 100 * (median(with_s) / median(without_s) - 1),
        **figures,
    }


def _cluster() -> InProcessCluster:
    clock = SystemClock()
    return InProcessCluster(new_api_server(Storage(clock.now), clock, random.Random(1)), "bench")


async def _lives(history: HistorySettings | None) -> float:
    """The CPU seconds of all jobs' lives, from their creation to their records."""
    collect_seldom()  # as the operator's own program does
    cluster, clock = _cluster(), SystemClock()
    await cluster.create(NODES, {"metadata": {"name": NODE}})
    settings = AITrainingJobSettings(gang=False, history=history)
    operator = asyncio.create_task(
        operate(ai_training_job_kind(settings), cluster, clock=clock, random=random.Random(2))
    )
    kubelet = asyncio.create_task(_run_pods(cluster))
    began = time.process_time()
    try:
        for number in range(N_JOBS):
            await cluster.create(AI_TRAINING_JOBS, _job(f"job-{number}"))
        async with asyncio.timeout(WAIT_S):
            while not await _all_ended(cluster):
                await clock.sleep(0.1)
        await clock.sleep(SETTLE_S)
        spent_s = time.process_time() - began
        n_records = len(ended_lives(await _shards(cluster)))
        if n_records != (N_JOBS if history is not None else 0):
            raise RuntimeError(f"{n_records} records of {N_JOBS} jobs")
        return spent_s
    finally:
        for task in (operator, kubelet):
            task.cancel()
        await asyncio.gather(operator, kubelet, return_exceptions=True)


async def _all_ended(cluster: InProcessCluster) -> bool:
    jobs = (await cluster.list(AI_TRAINING_JOBS)).items
    return sum(job.status.phase in FINAL_PHASES for job in jobs) == N_JOBS


async def _shards(cluster: InProcessCluster) -> list[ConfigMap]:
    return list((await cluster.list(CONFIG_MAPS, Selection(labels=HISTORY_LABEL))).items)


async def _run_pods(cluster: InProcessCluster) -> None:
    """Every pod is bound, runs at once, and succeeds at once."""
    version = (await cluster.list(PODS)).resource_version
    async with cluster.watch(PODS, resource_version=version) as events:
        async for event in events:
            pod = event.object
            if event.type is not EventType.ADDED or pod is None:
                continue
            key = pod.metadata.key if hasattr(pod, "metadata") else pod.key
            meta = {"namespace": key.namespace, "name": key.name}
            now = format_time(time.time())
            ended = {"exitCode": 0, "startedAt": now, "finishedAt": now, "reason": "Completed"}
            containers = [{"name": "aitj-trainer", "state": {"terminated": ended}}]
            status = {"phase": "Succeeded", "startTime": now, "containerStatuses": containers}
            with suppress(ClusterError):  # the operator may have deleted it by now
                await cluster.create(BINDINGS, {"metadata": meta, "target": {"name": NODE}})
                running = merge_patch({"status": {"phase": "Running", "startTime": now}})
                await cluster.patch(PODS.status, key, running)
                await cluster.patch(PODS.status, key, merge_patch({"status": status}))


def _job(name: str) -> Body:
    container = {"name": "aitj-trainer", "image": "local"}
    role = {"replicas": N_PODS, "template": {"spec": {"containers": [container]}}}
    return {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": AI_TRAINING_JOBS.kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"cleanPodPolicy": "None", "replicaSpecs": {"trainer": role}},
    }


async def _query() -> dict[str, object]:
    """How long it takes to read 10,000 lives out of their shards, and how large those are."""
    cluster = _cluster()
    shelf = Shelf(cluster, "aitrainingjob", ShelfName.ENDED, "")
    lives = [_life(number) for number in range(N_HISTORY)]
    for at in range(0, N_HISTORY, 200):
        await shelf.put(lives[at : at + 200])
    times: list[float] = []
    shown: list[float] = []
    for _ in range(N_ROUNDS):
        began = time.process_time()
        found = ended_lives(await _shards(cluster))
        answers = [(ledger_of(life, T0), cost_of(life, T0)) for life in found]
        times.append(time.process_time() - began)
        summaries = [summary_of(life, T0) for life in found]
        shown.append(time.process_time() - began)
        if not len(summaries) == len(answers) == N_HISTORY:
            raise RuntimeError(f"{len(summaries)} of {N_HISTORY} lives")
    shards = await _shards(cluster)
    size = sum(len(text) for shard in shards for text in shard.binary_data.values())
    return {
        "history_query_10000_s": median(times),  # read, with ledger and cost of each
        "history_query_and_json_10000_s": median(shown),
        "history_10000_mib": size / (1 << 20),
        "history_10000_shards": len(shards),
    }


def _life(number: int) -> JobLife:
    noise = random.Random(number)
    created = T0 + 60 * number
    times = sorted(created + noise.uniform(1, 5000) for _ in range(6))
    names = ("Pending", "Creating", "Running", "Restarting", "Running", "Terminating")
    return JobLife(
        uid=f"{noise.getrandbits(128):032x}",
        kind="AITrainingJob",
        namespace="default",
        name=f"train-{number}",
        created=created,
        ended=times[-1] + 3,
        phase="Succeed",
        reason="RolesCompleted",
        message="completed: trainer",
        queue=f"queue-{number % 7}",
        labels={"team": f"team-{number % 11}"},
        roles={"trainer": RoleShape(1, 8, 4, 2000, 4 << 30, 1)},
        phases=tuple(
            PhaseChange(float(int(at)), name) for at, name in zip(times, names, strict=True)
        ),
        pods=tuple(
            PodRun("trainer", index, f"node-{noise.randrange(500)}", int(times[1]), int(times[-1]))
            for index in range(4)
        ),
    )
