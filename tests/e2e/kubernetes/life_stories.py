"""Jobs in real containers that pause, save before they leave, are scaled, hang, or blame nodes."""

from __future__ import annotations

import asyncio

from image.build import reference
from image.root import PYTHON
from swell.api.kinds import NODES
from swell.api.meta import Body, Key
from swell.api.node_faults import read_faults
from tests.e2e.kubernetes.containers import pods
from tests.e2e.kubernetes.happenings import another, ends, log_of, of, whole_log_of
from tests.e2e.operator.actions import changes, deletes_job, scales_by_subresource
from tests.e2e.operator.checks import (
    becomes,
    is_reported,
    members_are,
    pods_are,
    restarts,
    runs,
    shows,
    stays,
)
from tests.e2e.operator.jobs import job
from tests.e2e.operator.scenario import Step, Trial, scenario
from tests.testbed.cluster import NODES as NODE_NAMES

# Each node has two: room for those who save, or for the one that takes it from them.
SAVES = "test/saves"
SAVED, LAST = "/checkpoint/saved", "/checkpoint/last"
# Counts its steps, notes each as it is done, and saves and ends when it is asked to leave. The next
# process goes on from what is saved, and says how many steps that lacks.
TRAINS = f"""n=$(cat {SAVED} 2>/dev/null || echo 0); last=$(cat {LAST} 2>/dev/null || echo 0)
[ "$last" = 0 ] || echo "goes on, lost $((last - n)) steps"
while :; do
  n=$((n + 1)); echo $n > {LAST}; echo "step $n"
  if [ -s "$SWELL_RELEASE_FILE" ]; then echo $n > {SAVED}; exit 143; fi
  sleep 0.2
done"""
# Neither saves nor leaves before it is killed.
MUTE = "trap '' TERM; while :; do sleep 1; done"
# Hangs in its tenth step, in its first life.
HANGS = """
import os, time
from swell.train.hang import hang_watch_of

def stuck_in_the_driver():
    time.sleep(3600)

watch, life = hang_watch_of(os.environ), os.environ["TRAININGJOB_REPLICA_RESTARTCOUNT"]
for step in range(100 if life == "0" else 20):
    watch.beat()
    print(f"step {step}", flush=True)
    time.sleep(0.2)
    if (step, life) == (9, "0"):
        stuck_in_the_driver()
"""
HANG_S = 3
MARKED_S_MAX, POLL_S = 120.0, 0.5


def _saver(name: str) -> Body:
    """A role of one pod that keeps its checkpoint on its node."""
    folder = {"path": f"/run/{name}", "type": "DirectoryOrCreate"}
    volume = {"name": "checkpoint", "hostPath": folder}
    mount = {"name": "checkpoint", "mountPath": "/checkpoint"}
    pod = {**_on(NODE_NAMES[0]), "volumes": [volume]}
    always: Body = {"restartPolicy": "Always", "limits": {SAVES: "1"}}
    return pods(1, script=TRAINS, pod=pod, container={"volumeMounts": [mount]}, **always)


def _on(node: str) -> Body:
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def _hanging() -> Body:
    python = {"command": [f"python{PYTHON}", "-c", HANGS]}
    fields: Body = {"hangSeconds": HANG_S, "restartPolicy": "OnFailure"}
    return pods(1, image=reference(), container=python, **fields)


def _breaking() -> Body:
    """A job of one pod on the first node, and another on the second."""
    often: Body = {"restartPolicy": "OnFailure", "restartScope": "Pod"}
    bad = pods(1, pod=_on(NODE_NAMES[0]), **often)
    return job({"bad": bad, "good": pods(1, pod=_on(NODE_NAMES[1]))})


def _fails_twice() -> tuple[Step, ...]:
    """Its pod on the first node fails soon after its start, twice, while the other one runs."""
    return (runs(), *(ends("bad-0", code=7), restarts("bad-0")) * 2)


def _is_suspect(*jobs: str) -> Step:
    """The first node has marks of these jobs, and is a suspect by them."""

    async def act(play: Trial) -> None:
        wanted = {f"{play.key.namespace}/{name}" for name in jobs}
        async with asyncio.timeout(MARKED_S_MAX):
            while True:
                node = await play.cluster.get(NODES, Key("", NODE_NAMES[0]))
                marks = read_faults(node.metadata.annotations)
                if wanted <= set(marks.jobs(0.0)):
                    break
                await asyncio.sleep(POLL_S)

        assert marks.is_suspect(0.0)

    return Step(f"the node is a suspect of {', '.join(jobs)}", act)


# fmt: off
LIVES = [
    scenario("suspended", job({"a": _saver("suspended")}, reporting=True, saveSeconds=60),
          runs(), log_of("a-0", "step 5"), changes({"suspend": True}), pods_are(),
          shows("suspended", lambda s: s.reason == "Suspended"), stays("Pending"),
          changes({"suspend": False}), runs(anew=True), log_of("a-0", "goes on, lost 0 steps"),
          shows("no restart", lambda s: s.restarts == 0), deletes_job()),
    scenario("saves-when-preempted",
          job({"a": _saver("saves-when-preempted")}, reporting=True, saveSeconds=60,
              priority="low", queue="ranked"),
          runs(), log_of("a-0", "step 5"),
          another("mute", job({"a": pods(1, script=MUTE, restartPolicy="Always",
                                         limits={SAVES: "1"}, pod=_on(NODE_NAMES[0]))},
                              saveSeconds=3, priority="low", queue="ranked")),
          of("mute", runs()),
          another("high", job({"a": pods(1, limits={SAVES: "2"}, pod=_on(NODE_NAMES[0]))},
                              priority="high", queue="ranked")),
          of("high", runs(), ends("a-0"), becomes("Succeed")),
          runs(anew=True), log_of("a-0", "goes on, lost 0 steps"),
          shows("one preemption", lambda s: s.preemptions == 1),
          of("mute", runs(anew=True), shows("one preemption", lambda s: s.preemptions == 1)),
          deletes_job(), of("mute", deletes_job())),
    scenario("scaled-by-its-subresource",
          job({"a": pods(1, edlPolicy="Manual", minReplicas=1, maxReplicas=3)},
              scale={"replicas": 1}),
          runs(), scales_by_subresource(3), pods_are("a-0", "a-1", "a-2"), runs(),
          members_are({"a": 3}), scales_by_subresource(1), pods_are("a-0"),
          shows("its size", lambda s: s.scale is not None and s.scale.replicas == 1),
          ends("a-0"), becomes("Succeed")),
    scenario("hang", job({"a": _hanging()}),
          runs(), whole_log_of("a-0", "step 9", f"no step for {HANG_S} s (hangSeconds)",
                               "in stuck_in_the_driver"),
          is_reported("Hang"), restarts("a-0"), becomes("Succeed")),
    scenario("breaks", _breaking(), *_fails_twice(),
          another("second", _breaking()), of("second", *_fails_twice()),
          another("third", _breaking()), of("third", *_fails_twice()),
          _is_suspect("breaks", "breaks-second", "breaks-third"),
          deletes_job(), of("second", deletes_job()), of("third", deletes_job())),
]
# fmt: on
