"""Why a pod cannot go on: node lost or fenced, GPU fault, failed, creation failed, gone."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from swell.api.aitrainingjob import AITrainingJobPhase
from swell.api.injection import HANG_EXIT_CODE
from swell.api.meta import Condition
from swell.api.pod import AllocatedResourceStatus, ContainerStatus, DeviceHealth
from swell.operator.framework.fencing import NodeState
from tests.unit.operator.scene import (
    Scene,
    a_job,
    a_node,
    a_role,
    body_of,
    created,
    deleted,
    forced,
    recorded,
    with_gpu,
)

T0, T1 = "fit-trainer-0", "fit-trainer-1"
NODE1 = f"node-of-{T1}"
ON_NODE = ["Always", "OnNodeFail", "OnNodeFailWithExitCode"]
NOT_ON_NODE = ["OnFailure", "ExitCode", "Never"]
ON_FAILURE = ["Always", "OnFailure"]
ON_CODE = ["ExitCode", "OnNodeFailWithExitCode"]
DISRUPTED = (Condition(type="DisruptionTarget", status="True"),)


def a_scene(**fields: object) -> Scene:
    """Two pods that run; every restart is of the pod alone unless a test says otherwise."""
    role = a_role(replicas=2, **{"restartScope": "Pod", **fields})
    return Scene(a_job({"trainer": role}, restartingExitCode="137, 128")).running()


def restarted(scene: Scene) -> list[int]:
    """Indexes of the restart that one look records."""
    restart = recorded(scene.look()).get("restart") or {}
    return list(restart.get("indexes", []))


def ended(scene: Scene) -> str:
    ending = recorded(scene.look()).get("ending") or {}
    return str(ending.get("phase", ""))


def lose_node(scene: Scene, for_s: float) -> Scene:
    scene.nodes[NODE1] = NodeState(a_node(NODE1, ready=False), scene.now - for_s)
    return scene


# -- 1: node lost -----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ON_NODE)
def test_lost_node_restarts(policy: str) -> None:
    """Ready not True for --node-lost-after without a break is a lost node."""
    scene = a_scene(restartPolicy=policy)

    assert restarted(lose_node(scene, 29)) == []
    assert scene.look().wake_at == scene.now + 1
    assert restarted(lose_node(scene, 30)) == [1]


@pytest.mark.parametrize("policy", NOT_ON_NODE)
def test_lost_node_ends_the_job_in_node_fail(policy: str) -> None:
    """Where the policy wants no restart, the loss ends the job, and the phase says why."""
    assert ended(lose_node(a_scene(restartPolicy=policy), 30)) == "NodeFail"


def test_gone_node_is_lost_at_once() -> None:
    """A node object that does not exist any more needs no patience."""
    scene = a_scene(restartPolicy="OnNodeFail")
    scene.nodes[NODE1] = NodeState(None)

    assert restarted(scene) == [1]


def test_unknown_node_proves_nothing() -> None:
    """If nodes cannot be listed, nothing is concluded."""
    scene = a_scene(restartPolicy="OnNodeFail")
    scene.nodes = {}

    assert scene.look().actions == ()


@pytest.mark.parametrize("policy", ON_NODE)
def test_disrupted_pod_counts_as_lost_node(policy: str) -> None:
    """A Failed pod with DisruptionTarget is a node failure, not a pod failure."""
    scene = a_scene(restartPolicy=policy).fails(T1, conditions=DISRUPTED)

    assert restarted(scene) == [1]


def test_failed_pod_on_a_lost_node_counts_as_lost_node() -> None:
    """The node's loss explains the pod's failure."""
    scene = lose_node(a_scene(restartPolicy="OnNodeFail").fails(T1), 30)

    assert restarted(scene) == [1]


def test_succeeded_pod_on_a_lost_node_is_left_alone() -> None:
    """A pod that succeeded is never restarted for its own sake."""
    scene = a_scene(restartPolicy="Always").succeeds(T1).settle()

    assert restarted(lose_node(scene, 30)) == []


@pytest.mark.parametrize(
    ("state", "force"),
    [
        (NodeState(a_node(NODE1, ready=False), -89), False),
        (NodeState(a_node(NODE1, ready=False), -90), True),
        (NodeState(a_node(NODE1, ready=False), -90, is_fresh=False), False),
        (NodeState(a_node(NODE1, taint="node.kubernetes.io/out-of-service")), True),
        (NodeState(None), True),
    ],
)
def test_pods_are_force_deleted_only_on_a_fenced_node(state: NodeState, force: bool) -> None:
    """Fenced: object gone, out-of-service, or unready for grace period + --node-fence-after."""
    scene = lose_node(a_scene(restartPolicy="OnNodeFail"), 30).settle()
    since = None if state.unready_since is None else scene.now + state.unready_since
    scene.nodes[NODE1] = NodeState(state.node, since, state.is_fresh)

    assert forced(scene.look()) == ([T1] if force else [])


def test_leaving_pod_is_a_cause_only_through_its_node() -> None:
    """An evicted pod reports Failed with DisruptionTarget before it goes: that is no cause yet."""
    scene = a_scene(restartPolicy="Always").fails(T1, conditions=DISRUPTED)
    scene.leaves(T1)

    assert restarted(scene) == []
    assert restarted(lose_node(scene, 30)) == [1]


# -- 1: GPU fault -----------------------------------------------------------------------------


@pytest.mark.parametrize("seconds", [60, 7200])
def test_time_a_node_is_avoided_is_a_setting(seconds: int) -> None:
    """A node that is repaired sooner is used again sooner, and one that takes longer later."""
    role = with_gpu(a_role(replicas=2, restartScope="Pod", restartPolicy="OnNodeFail"))
    scene = Scene(a_job({"trainer": role}), node_avoid_s=float(seconds)).running()
    scene.nodes[NODE1] = NodeState(a_node(NODE1, condition="GPUUnhealthy"))
    scene.settle().leavers_go()
    scene.nodes.clear()

    assert "affinity" in body_of(scene.look(), "pods")["spec"]
    scene.after(seconds - 1)
    assert "affinity" in body_of(scene.look(), "pods")["spec"]
    assert "affinity" not in body_of(scene.after(2).look(), "pods")["spec"]


@pytest.mark.parametrize("how", ["condition", "taint"])
def test_gpu_fault_restarts_and_avoids_the_node(how: str) -> None:
    """For pods that request a GPU; the node is avoided by the job's next pods for one hour."""
    role = with_gpu(a_role(replicas=2, restartScope="Pod", restartPolicy="OnNodeFail"))
    scene = Scene(a_job({"trainer": role})).running()
    node = (
        a_node(NODE1, condition="GPUUnhealthy")
        if how == "condition"
        else a_node(NODE1, taint="nvidia.com/gpu-unhealthy")
    )
    scene.nodes[NODE1] = NodeState(node)

    assert restarted(scene) == [1]
    scene.settle().leavers_go()
    terms = body_of(scene.look(), "pods")["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert terms == [
        {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": [NODE1]}]}
    ]
    scene.nodes.clear()
    later = body_of(scene.after(3601).look(), "pods")
    assert "affinity" not in later["spec"]


def test_avoidance_is_added_to_every_required_term() -> None:
    """Terms are alternatives, so each of them has to rule the node out, one entry a node."""
    role = with_gpu(a_role(replicas=1, restartPolicy="Always"))
    mine = [{"key": "metadata.name", "operator": "In", "values": ["x"]}]
    role["template"]["spec"]["affinity"] = {
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": []}, {"matchFields": mine}]
            }
        }
    }
    scene = Scene(a_job({"trainer": role})).running()
    node = f"node-of-{T0}"
    scene.nodes[node] = NodeState(a_node(node, condition="GPUUnhealthy"))
    scene.settle().leavers_go()

    spec = body_of(scene.look(), "pods")["spec"]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [len(term["matchFields"]) for term in terms["nodeSelectorTerms"]] == [1, 2]


def test_gpu_fault_that_does_not_count_yet_waits() -> None:
    """The job is looked at again when it will count."""
    role = with_gpu(a_role(replicas=2, restartScope="Pod", restartPolicy="OnNodeFail"))
    scene = Scene(a_job({"trainer": role})).running()
    node = a_node(NODE1, condition="GPUUnhealthy")
    scene.nodes[NODE1] = NodeState(node, gpu_fault_at=scene.now + 15)

    assert restarted(scene) == []
    assert scene.look().wake_at == scene.now + 15
    assert restarted(scene.after(15)) == [1]


def test_broken_device_restarts_its_pod_and_keeps_the_node() -> None:
    """The kubelet names the device; other pods stay, and so does the node."""
    role = with_gpu(a_role(replicas=2, restartScope="Pod", restartPolicy="OnNodeFail"))
    scene = Scene(a_job({"trainer": role})).running()
    for health, expected in (("Unknown", []), ("Healthy", []), ("Unhealthy", [1])):
        device = DeviceHealth(resource_id="GPU-7", health=health)
        allocated = AllocatedResourceStatus(name="nvidia.com/gpu", resources=(device,))
        status = ContainerStatus(name="main", allocated_resources_status=(allocated,))
        pod = scene.pods[T1]
        changed = replace(pod.status, container_statuses=(status,))
        scene.pods[T1] = replace(pod, status=changed)
        assert restarted(scene) == expected
    scene.settle().leavers_go()
    assert "affinity" not in body_of(scene.look(), "pods")["spec"]


@pytest.mark.parametrize(
    ("device", "expected"),
    [
        ("k8s.gpu.nvidia.com/claim=1234-gpu-0", [1]),
        ("gpu.nvidia.com/node-1/gpu-0", [1]),
        ("net.example.com/card=1", []),
        ("mygpu.nvidia.com/card=1", []),
    ],
)
def test_broken_device_of_a_claim_restarts_its_pod(device: str, expected: list[int]) -> None:
    """Devices of DRA drivers count where the driver is said to give out GPUs."""
    role = a_role(replicas=2, restartScope="Pod", restartPolicy="OnNodeFail")
    scene = Scene(a_job({"trainer": role})).running()
    health = DeviceHealth(resource_id=device, health="Unhealthy")
    allocated = AllocatedResourceStatus(name="claim:gpu/one", resources=(health,))
    status = ContainerStatus(name="main", allocated_resources_status=(allocated,))
    pod = scene.pods[T1]
    scene.pods[T1] = replace(pod, status=replace(pod.status, container_statuses=(status,)))

    assert restarted(scene) == expected


def test_gpu_fault_does_not_touch_pods_without_gpu() -> None:
    """The fault is of the accelerator."""
    scene = a_scene(restartPolicy="Always")
    scene.nodes[NODE1] = NodeState(a_node(NODE1, condition="GPUUnhealthy"))

    assert scene.look().actions == ()


# -- 2: pod failed ----------------------------------------------------------------------------


@pytest.mark.parametrize("policy", [*ON_FAILURE, *ON_CODE, "OnNodeFail", "Never"])
@pytest.mark.parametrize("code", [1, 137])
def test_failed_pod_restarts_by_policy_and_code(policy: str, code: int) -> None:
    """Always and OnFailure restart; ExitCode and OnNodeFailWithExitCode for retryable codes."""
    scene = a_scene(restartPolicy=policy).fails(T1, codes={"aitj-main": code})
    restarts = policy in ON_FAILURE or (policy in ON_CODE and code == 137)

    assert restarted(scene) == ([1] if restarts else [])
    assert ended(scene) == ("" if restarts else "Failed")


@pytest.mark.parametrize(
    ("codes", "retryable"),
    [
        ({"aitj-a": 137, "aitj-b": 128}, True),
        ({"aitj-a": 137, "aitj-b": 1}, False),
        ({"aitj-a": 137, "aitj-b": 0}, True),
        ({"aitj-a": 137, "sidecar": 1}, True),
    ],
)
def test_every_failed_container_of_ours_must_be_retryable(
    codes: dict[str, int], retryable: bool
) -> None:
    """Containers that are not named like ours do not count beside ones that are."""
    scene = a_scene(restartPolicy="ExitCode").fails(T1, codes=codes)

    assert bool(restarted(scene)) is retryable


@pytest.mark.parametrize(("code", "retryable"), [(137, True), (1, False)])
def test_without_containers_of_ours_all_count(code: int, retryable: bool) -> None:
    """For pods without aitj- containers, all containers are looked at."""
    role = a_role(replicas=1, restartPolicy="ExitCode")
    role["template"]["spec"]["containers"][0]["name"] = "main"
    scene = Scene(a_job({"trainer": role}, restartingExitCode=137)).running()
    scene.fails(T0, codes={"main": code})

    assert bool(recorded(scene.look()).get("restart")) is retryable


def test_succeeded_pod_is_not_restarted_under_always() -> None:
    """A pod that succeeded is never restarted for its own sake, also under Always."""
    assert restarted(a_scene(restartPolicy="Always").succeeds(T1)) == []


# -- 3: container creation --------------------------------------------------------------------


@pytest.mark.parametrize(
    "reason",
    [
        "CreateContainerConfigError",
        "CreateContainerError",
        "ImagePullBackOff",
        "ErrImagePull",
        "ErrImageNeverPull",
        "ImageInspectError",
        "InvalidImageName",
        "RegistryUnavailable",
    ],
)
def test_stuck_pod_is_replaced_alone_and_uncharged(reason: str) -> None:
    """The reason is in the job's message; after the duration period the pod is replaced."""
    scene = Scene(a_job({"trainer": a_role(replicas=2, restartLimit=0)})).settle()
    for name in (T0, T1):
        scene.binds(name)
    scene.starts(T0)
    scene.waits(T1, reason)
    scene.settle()

    assert scene.status.phase is AITrainingJobPhase.CREATING
    assert reason in scene.status.message
    assert scene.look().wake_at == scene.now + 900
    scene.after(900)
    status = recorded(scene.look())
    assert status["restart"]["indexes"] == [1]
    assert status["restartCounts"] == {"trainer": 1}
    assert status["uncharged"] == {"trainer": 1}
    assert deleted(scene.look()) == [T1]


@pytest.mark.parametrize("enabled", [True, False])
def test_creation_failure_ends_the_job_only_if_enabled(enabled: bool) -> None:
    """After the restart period the job fails with --enable-creating-failed, else it waits on."""
    scene = Scene(a_job(), enable_creating_failed=enabled, creating_restart_period_s=1000.0)
    scene.settle()
    scene.binds(T0)
    scene.binds(T1)
    scene.waits(T1, "ErrImagePull")
    scene.settle().after(1001)

    assert ended(scene) == ("Failed" if enabled else "")
    assert deleted(scene.look()) == ([T0, T1] if enabled else [])


def test_elastic_pod_that_cannot_start_does_not_stop_the_job() -> None:
    """A job that has its minimum stays Running, whatever one more pod waits for."""
    role = a_role(replicas=2, minReplicas=1, maxReplicas=3, edlPolicy="Auto")
    scene = Scene(a_job({"trainer": role})).settle()
    scene.starts(T0)
    scene.binds(T1)
    scene.waits(T1, "ErrImagePull")

    assert scene.settle().status.phase is AITrainingJobPhase.RUNNING


# -- 4: pod gone ------------------------------------------------------------------------------


def test_gone_pod_of_an_elastic_role_is_created_again_alone() -> None:
    """Its peers can do without it."""
    role = a_role(replicas=2, minReplicas=1, maxReplicas=3, edlPolicy="Manual", restartLimit=0)
    scene = Scene(a_job({"trainer": role})).running().goes(T1)

    plan = scene.look()

    assert deleted(plan) == []
    assert created(plan) == [T1]
    assert recorded(plan)["uncharged"] == {"trainer": 1}
    assert scene.settle().pods[T1].metadata.labels["RestartCount"] == "1"


def test_gone_pod_under_never_is_created_again_alone() -> None:
    """The role's scope does not matter then."""
    scene = a_scene(restartScope="All").goes(T1)

    assert deleted(scene.look()) == []
    assert created(scene.look()) == [T1]


@pytest.mark.parametrize(("scope", "others"), [("All", [T0]), ("Replica", [T0]), ("Pod", [])])
def test_gone_pod_of_a_rigid_role_restarts_its_scope_uncharged(
    scope: str, others: list[str]
) -> None:
    """Its peers are left without it; but nobody's budget pays for it."""
    scene = a_scene(restartScope=scope, restartPolicy="OnFailure", restartLimit=0).goes(T1)

    plan = scene.look()

    assert deleted(plan) == others
    assert recorded(plan)["uncharged"] == {"trainer": 1}
    assert recorded(plan)["restartCounts"] == {"trainer": 1}


def test_pod_that_was_never_created_is_not_gone() -> None:
    """A plan that stopped half-way is simply finished."""
    scene = Scene(a_job({"trainer": a_role(replicas=3, restartPolicy="Always")}))
    for action in scene.look().each_action():
        if action.resource.plural != "pods" or action.key.name != "fit-trainer-2":
            scene.apply(action)

    plan = scene.look()

    assert created(plan) == ["fit-trainer-2"]
    assert not recorded(plan).get("restart")


def test_node_loss_is_looked_at_before_failure() -> None:
    """Causes have an order: the job ends as NodeFail though a pod failed as well."""
    scene = lose_node(a_scene(restartPolicy="Never", failPolicy="Any").fails(T0), 30)

    assert ended(scene) == "NodeFail"


def test_pod_of_a_namesake_is_not_ours() -> None:
    """Only pods owned by UID are handed over; what has no role of ours is left until the end."""
    scene = a_scene()
    stranger = scene.pods[T1]
    meta = replace(stranger.metadata, name="fit-boss-7")
    scene.pods["fit-boss-7"] = replace(stranger, metadata=meta)

    assert scene.look().actions == ()
    assert "fit-boss-7" in deleted(scene.delete().look())


def test_first_failure_of_a_gang_is_the_cause() -> None:
    """By the times at which containers ended, not by index; the others have followed."""
    role = a_role(replicas=3, restartPolicy="OnFailure")
    scene = Scene(a_job({"trainer": role})).running()
    for name, second in (("fit-trainer-0", 9), ("fit-trainer-1", 12), ("fit-trainer-2", 7)):
        ended_at(scene, name, f"2027-01-15T08:00:{second:02}Z")
    status = recorded(scene.look())

    assert status["message"].startswith("pod fit-trainer-2 on node")
    assert status["message"].endswith("; 2 pods followed")


def ended_at(scene: Scene, name: str, time: str) -> None:
    scene.fails(name)
    (held,) = scene.pods[name].status.container_statuses
    assert held.state.terminated is not None
    state = replace(held.state, terminated=replace(held.state.terminated, finished_at=time))
    scene._set(name, container_statuses=(replace(held, state=state),))


@pytest.mark.parametrize("time", ["2026-01-14T08:00:00Z", "2027-01-15T09:00:00Z"])
def test_clock_that_cannot_be_right_names_no_cause(time: str) -> None:
    """Before the pod was created, or an hour from now: its node is not blamed for the others."""
    role = a_role(replicas=2, restartPolicy="OnFailure")
    scene = Scene(a_job({"trainer": role})).running()
    for name in (T0, T1):
        pod = scene.pods[name]
        meta = replace(pod.metadata, creation_timestamp="2027-01-15T07:00:00Z")
        scene.pods[name] = replace(pod, metadata=meta)
    ended_at(scene, T0, time)
    ended_at(scene, T1, "2027-01-15T08:00:05Z")

    assert recorded(scene.look())["message"].startswith(f"pod {T1} on node")


def test_failures_without_times_are_told_by_index() -> None:
    """A node that does not say when a container ended changes nothing."""
    role = a_role(replicas=2, restartPolicy="OnFailure")
    scene = Scene(a_job({"trainer": role})).running().fails("fit-trainer-1", "fit-trainer-0")

    assert recorded(scene.look())["message"].startswith("pod fit-trainer-0 on node")


@pytest.mark.parametrize(
    ("policy", "restarts"),
    [("Always", 1), ("OnFailure", 1), ("ExitCode", 1), ("OnNodeFailWithExitCode", 1), ("Never", 0)],
)
def test_program_that_hung_restarts(policy: str, restarts: int) -> None:
    """It is named as a hang, and the exit codes of the user have no part in it."""
    role = a_role(replicas=2, restartPolicy=policy, hangSeconds=60)
    scene = Scene(a_job({"w": role})).running()
    scene.fails("fit-w-1", codes={"aitj-main": HANG_EXIT_CODE})
    scene.settle()

    assert scene.status.restart_counts.get("w", 0) == restarts
    if restarts:
        assert scene.status.reason == "Hang"
        assert "hung: no step for 60 s" in scene.status.message


def test_exit_code_of_a_hang_means_nothing_without_the_rule() -> None:
    """A program of the user's own may end with that code."""
    scene = Scene(a_job({"w": a_role(replicas=2, restartPolicy="ExitCode")})).running()
    scene.fails("fit-w-1", codes={"aitj-main": HANG_EXIT_CODE})

    assert scene.settle().status.restart_counts.get("w", 0) == 0
