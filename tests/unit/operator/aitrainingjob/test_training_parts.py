"""What the pods of a job get whose programs train together, and how its pods are numbered."""

from __future__ import annotations

import hashlib

import pytest
from msgspec.structs import replace

from swell.api.codec import encode_stable
from swell.api.injection import FORMER_FILE, HANG_VARIABLE, INSTANCES_FILE, SUCCEEDED_FILE
from swell.api.meta import Body
from swell.api.times import format_time
from swell.operator.framework.training import INSTANCE, MEMBERS_EPOCH, REPORT_TOKEN, TRAINING
from swell.runtime.plan import CreateObject, DeleteSecret, IssueSecret, PatchObject, Plan
from tests.unit.operator.scene import START, Scene, a_job, a_role, body_of, created, with_ports

# Of the pods below, as they were made before there were parts for training programs.
PLAIN_DIGEST = "aee603ab1c6ae42f76829b3f486f1d1017dfa58b43d026454a94dbc773781b20"


def trains(**role: object) -> Scene:
    fields = {"replicas": 2, "minReplicas": 1, "maxReplicas": 4, "edlPolicy": "Manual", **role}
    scene = Scene(a_job({"trainer": a_role(**fields)}, reporting=True))
    meta = replace(scene.job.metadata, creation_timestamp=format_time(START))
    scene.job = replace(scene.job, metadata=meta)
    return scene


def first_pod(scene: Scene) -> Body:
    return body_of(scene.look(), "pods", "fit-trainer-0")


def env_of(pod: Body, container: int = 0) -> dict[str, object]:
    held = pod["spec"]["containers"][container].get("env", [])
    return {one["name"]: one.get("value", one.get("valueFrom")) for one in held}


def numbers(scene: Scene) -> str:
    assert scene.members is not None
    return scene.members.data[INSTANCES_FILE]


def creating(scene: Scene) -> Plan:
    """The next plan that creates pods, with those before it carried out."""
    for _ in range(10):
        plan = scene.look()
        if created(plan):
            return plan
        for action in plan.each_action():
            scene.apply(action)
        scene.after(1)
    raise AssertionError("no pod is created")


def kinds(plan: Plan) -> list[str]:
    """The writes of a plan in order, by kind of object."""
    return [
        "Secret" if isinstance(one, IssueSecret | DeleteSecret) else one.resource.kind
        for one in plan.each_action()
    ]


def with_command(*command: str) -> Body:
    role = a_role(replicas=1)
    role["template"]["spec"]["containers"][0]["command"] = list(command)
    return role


def test_pods_of_other_jobs_are_made_as_before() -> None:
    """To the byte: an operator that is updated restarts and changes nothing."""
    roles = {
        "chief": with_ports(a_role(replicas=1), 7),
        "worker": a_role(replicas=2, minReplicas=1, maxReplicas=3, edlPolicy="Auto"),
    }
    plan = Scene(a_job(roles, frameworkType="tensorflow", priority="high")).look()
    bodies = [one.body for one in plan.each_action() if isinstance(one, CreateObject)]

    assert not any(isinstance(one, IssueSecret) for one in plan.each_action())
    assert hashlib.sha256(encode_stable(bodies)).hexdigest() == PLAIN_DIGEST


@pytest.mark.parametrize(
    ("command", "spec", "note", "is_asked"),
    [
        (["train"], {"reporting": True}, None, True),
        (["train"], {"reporting": True}, "false", True),
        (["train"], {"reporting": False}, "true", False),
        (["swell", "launch", "x.py"], {"reporting": False}, None, False),
        (["train"], {}, "true", True),
        (["train"], {}, "yes", False),
        (["swell", "launch", "x.py"], {}, "false", False),
        (["swell", "launch", "x.py"], {}, None, True),
        (["/opt/bin/swell", "launch"], {"frameworkType": "pytorch"}, None, True),
        (["python3", "-m", "swell", "launch"], {}, None, True),
        (["python", "-m", "swell.train.launch", "x.py"], {}, None, True),
        (["/venv/bin/python3", "-u", "-m", "swell.train.launch", "x.py"], {}, None, True),
        (["python", "x.py", "-m", "swell.train.launch"], {}, None, False),
        (["python", "-m", "swell.train"], {}, None, False),
        (["swell", "get"], {}, None, False),
        (["sh", "-c", "swell launch x.py"], {}, None, False),
        ([], {}, None, False),
    ],
)
def test_job_asks_by_field_annotation_or_command(
    command: list[str], spec: dict[str, object], note: str | None, is_asked: bool
) -> None:
    """The field decides, then the annotation, then the command."""
    scene = Scene(a_job({"trainer": with_command(*command)}, **spec))
    if note is not None:
        scene.annotate(TRAINING, note)

    assert ("SWELL_MEMBERS" in env_of(first_pod(scene))) is is_asked


def test_variables_name_what_is_mounted() -> None:
    pod = first_pod(trains())
    env = env_of(pod)
    container = pod["spec"]["containers"][0]
    mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
    volumes = {one["name"]: one for one in pod["spec"]["volumes"]}

    assert env["SWELL_MEMBERS"] == mounts["swell-members"]
    assert env["SWELL_SECRET_FILE"] == mounts["swell-secret"] + "/key"
    assert env["SWELL_RELEASE_FILE"] == mounts["swell-pod"] + "/release"
    assert str(env["SWELL_REPORT"]).startswith(mounts["swell-report"])
    assert env["SWELL_BUS_PORT"] == "23232"
    assert env["SWELL_POD_ADDRESS"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    assert env["TRAININGJOB_INSTANCE"] == pod["metadata"]["annotations"][INSTANCE] == "1"
    assert volumes["swell-members"]["configMap"]["name"] == "fit-members"
    assert volumes["swell-secret"]["secret"] == {
        "secretName": "fit-bus-job-uid",
        "defaultMode": 0o400,
    }


def test_users_own_variables_volumes_and_mounts_stay() -> None:
    """A variable of the template comes last, and so counts."""
    role = a_role(replicas=1)
    spec = role["template"]["spec"]
    own = {"name": "SWELL_BUS_PORT", "value": "9"}
    mount = {"name": "mine", "mountPath": "/etc/swell/pod/"}
    spec["containers"][0] |= {"env": [own], "volumeMounts": [mount]}
    spec["volumes"] = [{"name": "mine", "emptyDir": {}}, {"name": "swell-secret", "emptyDir": {}}]
    pod = first_pod(Scene(a_job({"trainer": role}, reporting=True)))
    container = pod["spec"]["containers"][0]
    paths = [one["mountPath"].rstrip("/") for one in container["volumeMounts"]]

    assert env_of(pod)["SWELL_BUS_PORT"] == "9"
    assert paths.count("/etc/swell/pod") == 1
    assert [one for one in pod["spec"]["volumes"] if one["name"] == "swell-secret"] == [
        {"name": "swell-secret", "emptyDir": {}}
    ]


def test_only_members_of_the_job_get_the_parts() -> None:
    """Containers of the user's own and init containers do not see the secret."""
    role = a_role(replicas=1)
    spec = role["template"]["spec"]
    spec["containers"].append({"name": "logs", "image": "local"})
    spec["initContainers"] = [{"name": "aitj-first", "image": "local"}]
    pod = first_pod(Scene(a_job({"trainer": role}, reporting=True)))

    assert "SWELL_SECRET_FILE" in env_of(pod, 0)
    assert "SWELL_SECRET_FILE" not in env_of(pod, 1)
    assert "volumeMounts" not in pod["spec"]["containers"][1]
    assert "volumeMounts" not in pod["spec"]["initContainers"][0]


def test_bus_port_is_one_that_no_container_declares() -> None:
    role = with_ports(a_role(replicas=1), 23232, 23233)
    pod = first_pod(Scene(a_job({"trainer": role}, reporting=True)))

    assert env_of(pod)["SWELL_BUS_PORT"] == "23234"


def test_template_of_odd_shape_breaks_nothing() -> None:
    """Validation has checked a template only in part."""
    role = a_role(replicas=1)
    role["template"]["spec"] |= {"volumes": "none"}
    role["template"]["spec"]["containers"][0] |= {"volumeMounts": 3, "env": {}, "command": "x"}
    pod = first_pod(Scene(a_job({"trainer": role}, reporting=True)))

    assert "SWELL_MEMBERS" in env_of(pod)


def test_secret_and_numbers_come_before_the_pods() -> None:
    plan = trains().look()
    order = kinds(plan)

    assert order.index("Secret") < order.index("Pod", order.index("Secret"))
    assert "Pod" not in order[order.index("ConfigMap") + 2 : order.index("Secret")]
    assert body_of(plan, "configmaps")["data"][INSTANCES_FILE] == "trainer 1 1\n"
    issued = next(one for one in plan.each_action() if isinstance(one, IssueSecret))
    assert issued.secret["metadata"]["ownerReferences"][0]["uid"] == "job-uid"


def test_secret_is_made_once() -> None:
    scene = trains().running()
    scene.edit_role("trainer", replicas=4)

    assert created(scene.look()) == ["fit-trainer-2", "fit-trainer-3"]
    assert "Secret" not in kinds(scene.look())


def test_secret_without_a_record_is_replaced_while_no_pod_has_it() -> None:
    """An operator died after it had made the secret: its value is lost."""
    scene = trains()
    for action in scene.look().each_action():
        if isinstance(action, IssueSecret):
            break
        scene.apply(action)
    scene.secrets.add("fit-bus-job-uid")
    plan = scene.look()
    found = [one for one in plan.each_action() if isinstance(one, IssueSecret | DeleteSecret)]

    assert [type(one) for one in found] == [DeleteSecret, IssueSecret]
    assert plan.needs_consistent_read
    scene.running()
    assert scene.secrets == {"fit-bus-job-uid"}
    assert scene.job.metadata.annotations[REPORT_TOKEN]


def test_secret_goes_with_the_job() -> None:
    scene = trains().running()
    scene.succeeds(*scene.pods).settle()

    assert scene.secrets == set()
    assert kinds(scene.look()) == []


def test_number_grows_with_each_pod_at_an_index() -> None:
    """It is raised before the new pod is created, and stays where nothing happens."""
    scene = trains(restartPolicy="Always", restartScope="Pod").running()
    assert numbers(scene) == "trainer 1 1\n"
    plan = creating(scene.fails("fit-trainer-1"))
    raised = next(
        one
        for one in plan.each_action()
        if isinstance(one, PatchObject) and one.resource.kind == "ConfigMap"
    )

    assert isinstance(raised.patch.body, dict)
    assert raised.patch.body["data"][INSTANCES_FILE] == "trainer 1 2\n"
    assert env_of(body_of(plan, "pods"))["TRAININGJOB_INSTANCE"] == "2"
    scene.running()
    assert numbers(scene) == "trainer 1 2\n"


def test_index_that_comes_back_has_a_higher_number() -> None:
    scene = trains().running()
    for size in (1, 3):
        scene.edit_role("trainer", replicas=size).settle()
        scene.leavers_go().running()

    assert numbers(scene) == "trainer 1 2 1\n"


def test_pods_beyond_the_size_are_listed_until_they_are_gone() -> None:
    """A new process must not begin anew beside one that holds the state and is being deleted."""
    scene = trains().running()
    assert scene.members is not None
    assert scene.members.data[FORMER_FILE] == "trainer\n"
    pod = scene.pods["fit-trainer-1"]
    scene.pods["fit-trainer-1"] = replace(pod, status=replace(pod.status, pod_ip="10.0.0.7"))
    scene.edit_role("trainer", replicas=1).settle()

    assert scene.members.data[FORMER_FILE] == "trainer 1=10.0.0.7\n"
    scene.leavers_go().settle()
    assert scene.members.data[FORMER_FILE] == "trainer\n"


def test_pods_that_succeeded_are_listed_while_others_run() -> None:
    """One that was cut off from them learns that all is trained; one write is enough for that."""
    scene = trains(replicas=3, completePolicy="All").running()
    assert scene.members is not None
    assert scene.members.data[SUCCEEDED_FILE] == ""
    scene.succeeds("fit-trainer-1").settle()
    listed = scene.members.data[SUCCEEDED_FILE]
    assert listed == "trainer 1=1\n"
    scene.succeeds("fit-trainer-0").settle()

    assert scene.members.data[SUCCEEDED_FILE] == listed


def test_attempt_that_may_have_created_a_pod_has_its_own_number() -> None:
    """The pod of a lost answer may have come and gone unseen."""
    scene = trains()
    for action in scene.look().each_action():
        if not (isinstance(action, CreateObject) and action.resource.plural == "pods"):
            scene.apply(action)

    assert env_of(body_of(scene.look(), "pods"))["TRAININGJOB_INSTANCE"] == "2"


@pytest.mark.parametrize("lost", ["status", "members", "both", "garbled"])
def test_numbers_survive_what_is_lost(lost: str) -> None:
    """Pods keep theirs; an index without a pod gets one that nobody has had."""
    scene = trains(restartPolicy="Always", restartScope="Pod").running()
    for _ in range(3):
        scene.after(20).fails("fit-trainer-1").settle()
        scene.leavers_go().after(20).running()
    assert numbers(scene) == "trainer 1 4\n"
    scene.goes("fit-trainer-1")
    if lost in {"status", "both"}:
        scene.job = replace(scene.job, status=type(scene.status)())
    if lost in {"members", "both"}:
        scene.members = None
    elif lost == "garbled":
        assert scene.members is not None
        data = {**scene.members.data, INSTANCES_FILE: "trainer 1 x\n\n"}
        scene.members = replace(scene.members, data=data)
    plan = creating(scene)

    assert int(str(env_of(body_of(plan, "pods", "fit-trainer-1"))["TRAININGJOB_INSTANCE"])) > 4
    scene.running()
    role, first, second = numbers(scene).split()
    assert (role, first) == ("trainer", "1")
    assert int(second) > 4
    scene.edit_role("trainer", replicas=3).settle()
    third = scene.pods["fit-trainer-2"].metadata.annotations[INSTANCE]
    assert int(third) > (4 if lost in {"members", "both", "garbled"} else 0)


def test_pod_with_a_huge_index_costs_nothing() -> None:
    """A pod under one of our names may have any index."""
    scene = trains().running()
    pod = scene.pods["fit-trainer-0"]
    odd = replace(pod, metadata=replace(pod.metadata, name="fit-trainer-999999999", uid="odd"))
    scene.pods["fit-trainer-999999999"] = odd
    scene.look()

    assert len(numbers(scene)) < 100


def test_role_cannot_have_the_name_of_the_file() -> None:
    scene = Scene(a_job({INSTANCES_FILE: a_role(replicas=1)}, reporting=True)).settle()

    assert scene.status.phase.value == "Failed"
    assert INSTANCES_FILE in scene.status.message
    assert Scene(a_job({INSTANCES_FILE: a_role(replicas=1)})).settle().pods


def touched(plan: Plan) -> list[str]:
    return [
        one.key.name
        for one in plan.each_action()
        if isinstance(one, PatchObject) and one.resource.kind == "Pod"
    ]


def test_kubelets_of_pods_that_stay_are_shown_a_new_membership() -> None:
    """Once for each epoch, after the ConfigMap; new pods are created with it."""
    scene = trains().running()
    assert touched(scene.look()) == []
    scene.edit_role("trainer", replicas=3)
    plan = scene.look()

    assert touched(plan) == ["fit-trainer-0", "fit-trainer-1"]
    assert kinds(plan).index("ConfigMap") < kinds(plan).index("Pod")
    scene.settle()
    assert {pod.metadata.annotations[MEMBERS_EPOCH] for pod in scene.pods.values()} == {"2"}


@pytest.mark.parametrize(("reporting", "most"), [(False, 32), (True, 0), (True, 1)])
def test_few_pods_are_touched_and_only_of_jobs_that_ask(reporting: bool, most: int) -> None:
    role = a_role(replicas=2, minReplicas=1, maxReplicas=4, edlPolicy="Manual")
    scene = Scene(a_job({"trainer": role}, reporting=reporting), touched_pods_max=most).running()
    scene.edit_role("trainer", replicas=3)

    assert len(touched(scene.look())) == (most if reporting else 0)


def test_job_of_an_earlier_release_is_left_as_it_is() -> None:
    """An upgrade writes nothing about jobs that do not ask for the parts."""
    scene = Scene(a_job({"trainer": a_role(replicas=2)})).running()
    assert scene.members is not None

    assert INSTANCES_FILE not in scene.members.data
    assert kinds(scene.look()) == []


def test_job_survives_a_downgrade_and_an_upgrade() -> None:
    """An earlier release removes what it does not know; no pod is deleted or numbered anew."""
    scene = trains(restartPolicy="Always", restartScope="Pod").running()
    creating(scene.after(30).fails("fit-trainer-1"))
    scene.running()
    pods = dict(scene.pods)
    assert scene.members is not None
    data = {name: text for name, text in scene.members.data.items() if name != INSTANCES_FILE}
    scene.members = replace(scene.members, data=data)
    scene.edit(reporting=None).settle()
    assert scene.pods == pods
    scene.edit(reporting=True)
    scene.after(600).settle()

    assert scene.pods == pods
    assert numbers(scene) == "trainer 1 2\n"
    scene.edit_role("trainer", replicas=3).settle()
    assert int(scene.pods["fit-trainer-2"].metadata.annotations[INSTANCE]) > 2


def test_programs_are_told_after_which_time_they_hang() -> None:
    """Where the role says so; others get no such variable."""
    assert env_of(first_pod(trains(hangSeconds=90)))[HANG_VARIABLE] == "90"
    assert HANG_VARIABLE not in env_of(first_pod(trains()))
    silent = trains(hangSeconds=90).edit(reporting=False)
    assert env_of(first_pod(silent))[HANG_VARIABLE] == "90"
