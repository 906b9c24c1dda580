"""What goes wrong around a job: lost nodes, broken accelerators, stuck and lost pods."""

from __future__ import annotations

from swell.api.meta import Body
from swell.operator.aitrainingjob.settings import AITrainingJobSettings
from swell.operator.framework.fencing import OUT_OF_SERVICE
from tests.e2e.operator.actions import (
    device_is_unhealthy,
    is_disrupted,
    is_evicted,
    loses_node,
    node_flaps,
    node_is_deleted,
    node_is_tainted,
    node_reports,
    others_run,
    somebody_deletes,
)
from tests.e2e.operator.checks import (
    avoids_node_of,
    becomes,
    ever_showed,
    is_reported,
    is_suspect,
    restarts,
    runs,
    says,
    shows,
    stays,
)
from tests.e2e.operator.jobs import job, pods
from tests.e2e.operator.scenario import STRICT, Scenario, scenario

# A signal that stands so long is a fault.
STANDS_S = AITrainingJobSettings().gpu_fault_after_s + 3.0
ON_NODE: Body = {"restartPolicy": "OnNodeFail", "restartScope": "Pod"}
# The first life of a pod does not get its image, the next one does.
PULLS_LATE = {"waiting_reason": "ImagePullBackOff,"}
SLOW_STOP = {"stop_delay": "800ms"}
NEVER_PULLS = {"waiting_reason": "ErrImageNeverPull"}


def _small() -> Body:
    """A job of which several have room on one node."""
    role = pods(1)
    role["template"]["spec"]["containers"][0]["resources"] = {"requests": {"cpu": "100m"}}
    return job({"a": role})


SMALL = _small()

# fmt: off
NODES = [
    scenario("node-not-ready", job({"a": pods(2, **ON_NODE)}),
          runs(), loses_node("a-1"), restarts("a-1"), is_reported("NodeLost"), n_nodes=3),
    scenario("node-deleted", job({"a": pods(2, **ON_NODE)}),
          runs(), node_is_deleted("a-1"), restarts("a-1"), is_reported("NodeLost"), n_nodes=3),
    scenario("node-is-fenced-by-hand", job({"a": pods(2, grace_s=3600, **ON_NODE)}),
          runs(), loses_node("a-1"), becomes("Restarting"), stays("Restarting"),
          node_is_tainted("a-1", OUT_OF_SERVICE), restarts("a-1"), n_nodes=3),
    scenario("pod-disrupted", job({"a": pods(2, **ON_NODE)}),
          runs(), is_disrupted("a-1"), restarts("a-1"), is_reported("NodeLost")),
    scenario("pod-disrupted-for-good", job({"a": pods(1)}),
          runs(), is_disrupted("a-0"), becomes("NodeFail"), says("disrupted")),
    scenario("node-breaks-three-jobs", SMALL,
          runs(), others_run(SMALL, "b", "c"), loses_node("a-0"), becomes("NodeFail"),
          is_suspect(3), n_nodes=1),
]

GPUS = [
    scenario("gpu-fault-by-condition", job({"a": pods(2, gpu=True, **ON_NODE)}),
          runs(), node_reports("a-1", "GPUUnhealthy"), restarts("a-1"), avoids_node_of("a-1"),
          is_reported("GPUFault"), n_nodes=3),
    scenario("gpu-fault-by-taint", job({"a": pods(2, gpu=True, **ON_NODE)}),
          runs(), node_is_tainted("a-1", "nvidia.com/gpu-unhealthy"), restarts("a-1"),
          avoids_node_of("a-1"), n_nodes=3),
    scenario("gpu-fault-ends-the-job", job({"a": pods(1, gpu=True)}),
          runs(), node_reports("a-0", "GPUUnhealthy"), becomes("NodeFail"), says("GPUUnhealthy"),
          n_nodes=1),
    scenario("gpu-fault-of-two-polarities",
          job({"a": pods(2, gpu=True, **ON_NODE), "b": pods(1, **ON_NODE)}),
          runs(), node_reports("b-0", "AcceleratedHardwareReady", "False", "NvidiaXIDError"),
          node_reports("a-1", "AcceleratedHardwareReady", "False", "NvidiaXIDError"),
          restarts("a-1"), avoids_node_of("a-1"), is_reported("GPUFault"), n_nodes=4),
    scenario("gpu-monitor-is-broken", job({"a": pods(2, gpu=True, **ON_NODE)}),
          runs(), node_reports("a-0", "AcceleratedHardwareReady"),
          node_reports("a-1", "AcceleratedHardwareReady", "False", "DCGMError"),
          stays("Running", STANDS_S), n_nodes=3),
    scenario("gpu-fault-comes-and-goes", job({"a": pods(2, gpu=True, **ON_NODE)}),
          runs(), node_flaps("a-1", "GPUUnhealthy", 4, 5.0), stays("Running"), n_nodes=3),
    scenario("gpu-of-one-pod-is-unhealthy",
          job({"a": pods(2, gpu=True, **ON_NODE)}),
          runs(), device_is_unhealthy("a-1", "nvidia.com/gpu"), restarts("a-1"),
          is_reported("GPUFault"), n_nodes=2),
    scenario("gpu-fault-without-a-gpu", job({"a": pods(1)}),
          runs(), node_reports("a-0", "GPUUnhealthy"), stays("Running"), n_nodes=1),
]

CREATION = [
    scenario("creation-fails-once",
          job({"a": pods(2), "b": pods(1, restartLimit=0, does=PULLS_LATE)}),
          runs(),
          ever_showed("it says why", lambda s: "b-0: container aitj-main: ImagePull" in s.message),
          shows("b-0 was replaced, alone and uncharged",
                lambda s: (s.restart_counts, s.uncharged) == ({"b": 1}, {"b": 1}))),
    scenario("creation-fails-on", job({"a": pods(1, does=NEVER_PULLS)}),
          shows("replaced while that may help", lambda s: s.restart_counts.get("a", 0) >= 2),
          shows("still trying, with the reason", lambda s: "ErrImageNeverPull" in s.message)),
    scenario("creation-fails-the-job", job({"a": pods(1, does=NEVER_PULLS)}),
          becomes("Failed"), says("ErrImageNeverPull"),
          shows("reason", lambda s: s.reason == "ContainerCreationFailed"), namespace=STRICT),
]

GONE = [
    scenario("pod-gone-rigid", job({"a": pods(2, restartPolicy="OnFailure"), "b": pods(1)}),
          runs(), somebody_deletes("a-1"), restarts("a-0", "a-1", "b-0"), is_reported("PodGone"),
          shows("uncharged", lambda s: s.uncharged == {"a": 1, "b": 1})),
    scenario("pod-gone-rigid-replica",
          job({"a": pods(2, restartPolicy="OnFailure", restartScope="Replica"), "b": pods(1)}),
          runs(), somebody_deletes("a-1"), restarts("a-0", "a-1")),
    scenario("pod-gone-never", job({"a": pods(2, restartPolicy="Never")}),
          runs(), somebody_deletes("a-1"), restarts("a-1")),
    scenario("pod-gone-elastic",
          job({"a": pods(2, restartPolicy="Always", edlPolicy="Auto", minReplicas=1,
                         maxReplicas=3)}),
          runs(), somebody_deletes("a-0"), restarts("a-0")),
    scenario("pod-evicted", job({"a": pods(2, restartPolicy="Never", does=SLOW_STOP)}),
          runs(), is_evicted("a-1"), restarts("a-1"),
          shows("uncharged", lambda s: s.uncharged == {"a": 1})),
    scenario("all-pods-gone", job({"a": pods(2, restartPolicy="Always")}),
          runs(), somebody_deletes("a-0", "a-1"), restarts("a-0", "a-1")),
]
# fmt: on

SCENARIOS: tuple[Scenario, ...] = (*NODES, *GPUS, *CREATION, *GONE)
