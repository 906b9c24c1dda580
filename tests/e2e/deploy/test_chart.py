"""The Helm chart: the same as the plain manifests, and refusing what it cannot use."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from swell.api.injection import DEFAULT_BUS_PORT
from swell.api.meta import Body
from swell.api.trainingjob import JOB_NAME_LABEL
from swell.cli.controllers.operator import ReportOptions
from swell.operator.aitrainingjob.labels import TRAINING_JOB_NAME
from tests.testbed import binaries
from tests.testbed.control_plane import ControlPlane, running_control_plane
from tests.testbed.kubectl import Kubectl
from tools.release import one_file

ROOT = Path(__file__).parents[3]
CHART = str(ROOT / "deploy" / "chart")
NAMESPACE = "swell-system"
OF_HELM = {
    *("app.kubernetes.io/instance", "app.kubernetes.io/managed-by", "app.kubernetes.io/version"),
    "helm.sh/chart",
}


class Helm:
    """helm with folders of its own: nothing of the user's is read."""

    def __init__(self, folder: Path, kubeconfig: Path | None = None) -> None:
        self.folder = folder
        self.kubeconfig = kubeconfig

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "HOME": str(self.folder)}
        if self.kubeconfig is not None:
            environment["KUBECONFIG"] = str(self.kubeconfig)
        command = [str(binaries.binary("helm")), *arguments]
        return subprocess.run(
            command, env=environment, capture_output=True, text=True, timeout=120, check=False
        )

    def ok(self, *arguments: str) -> str:
        done = self.run(*arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def helm(testbed_binaries: None, tmp_path: Path) -> Helm:
    return Helm(tmp_path)


@pytest.fixture
def installing(control_plane: ControlPlane, tmp_path: Path) -> Helm:
    return Helm(tmp_path, control_plane.kubeconfig)


def _by_name(text: str) -> dict[tuple[str, str, str], Body]:
    objects: list[Body] = [body for body in yaml.safe_load_all(text) if body]
    return {
        (body["kind"], body["metadata"].get("namespace", ""), body["metadata"]["name"]): body
        for body in objects
    }


def _rendered(helm: Helm, *arguments: str) -> dict[tuple[str, str, str], Body]:
    """The chart's objects without the labels that Helm's objects have and others have not."""
    objects = _labelled(helm, *arguments)
    for body in objects.values():
        labels = body["metadata"].get("labels") or {}
        body["metadata"]["labels"] = {k: v for k, v in labels.items() if k not in OF_HELM}
        if not body["metadata"]["labels"]:
            del body["metadata"]["labels"]
    return objects


def _labelled(helm: Helm, *arguments: str) -> dict[tuple[str, str, str], Body]:
    return _by_name(helm.ok("template", "swell", CHART, "--namespace", NAMESPACE, *arguments))


def test_chart_is_sound(helm: Helm) -> None:
    """helm finds nothing to complain of."""
    done = helm.run("lint", CHART)

    assert "0 chart(s) failed" in done.stdout
    assert done.stderr == ""


def test_chart_installs_what_kustomize_installs(helm: Helm, kubectl: Kubectl) -> None:
    """Without values the chart and `kubectl apply -k deploy/` are the same, object by object."""
    plain = _by_name(kubectl.ok("kustomize", str(ROOT / "deploy")))
    del plain["Namespace", "", NAMESPACE]  # helm's --create-namespace makes it
    assert _rendered(helm, "--include-crds", "--no-hooks") == plain


def test_one_file_of_a_release_is_what_kustomize_makes(kubectl: Kubectl) -> None:
    """Our own renderer, for machines without kubectl, decides as kubectl does."""
    assert _by_name(one_file()) == _by_name(kubectl.ok("kustomize", str(ROOT / "deploy")))


def test_values_reach_the_deployments(helm: Helm) -> None:
    """What is set arrives where it belongs, and one replica gets no disruption budget."""
    objects = _rendered(
        helm,
        *("--set", "operator.replicas=1", "--set", "image.tag=9.9.9"),
        *("--set", "operator.args={--max-load-desired=0.9}", "--set", "scheduler.enabled=false"),
    )
    deployment = objects["Deployment", NAMESPACE, "swell-operator"]
    container = deployment["spec"]["template"]["spec"]["containers"][0]
    assert deployment["spec"]["replicas"] == 1
    assert container["image"] == "localhost/swell:9.9.9"
    assert container["args"][-1] == "--max-load-desired=0.9"
    assert ("PodDisruptionBudget", NAMESPACE, "swell-operator") not in objects
    assert not [key for key in objects if "scheduler" in key[2]]


def test_objects_have_the_labels_of_helm(helm: Helm) -> None:
    """Those that dashboards and `helm` itself go by; selectors and pods are without them."""
    objects = _labelled(helm, "--no-hooks", "--set", "metrics.serviceMonitor.enabled=true")
    plain = [
        key for key, body in objects.items() if not body["metadata"]["labels"].keys() >= OF_HELM
    ]
    deployment = objects["Deployment", NAMESPACE, "swell-operator"]["spec"]

    assert plain == []
    assert deployment["selector"]["matchLabels"] == {"app.kubernetes.io/name": "swell-operator"}
    assert not OF_HELM & deployment["template"]["metadata"]["labels"].keys()


@pytest.mark.parametrize("value", ["nameOverride", "fullnameOverride"])
def test_names_may_be_others(helm: Helm, value: str) -> None:
    """In names, references, labels and selectors alike: nothing points to what is not there."""
    more = ("page.enabled=true", "operator.reports.enabled=true", f"{value}=waves")
    sets = [
        part for one in (*more, "metrics.serviceMonitor.enabled=true") for part in ("--set", one)
    ]
    text = helm.ok("template", "swell", CHART, "--namespace", "here", *sets)
    objects = _by_name(text)
    binding = objects["ClusterRoleBinding", "", "waves-operator"]
    spec = objects["Deployment", "here", "waves-scheduler"]["spec"]
    reports = objects["Deployment", "here", "waves-operator"]["spec"]["template"]["spec"]

    assert {name.partition("-")[0] for _, _, name in objects} == {"waves"}
    assert binding["roleRef"]["name"] == binding["subjects"][0]["name"] == "waves-operator"
    assert spec["selector"]["matchLabels"].items() <= spec["template"]["metadata"]["labels"].items()
    assert spec["template"]["spec"]["volumes"][0]["configMap"]["name"] == "waves-scheduler"
    assert "--reports-url=http://waves-operator.here:8444" in reports["containers"][0]["args"]
    assert helm.run("template", "swell", CHART, "--set", f"{value}=No_Name").returncode != 0


def test_account_may_be_one_that_is_there(helm: Helm) -> None:
    """It is bound and used, and not made."""
    objects = _rendered(
        helm,
        *("--set", "operator.serviceAccount.create=false"),
        *("--set", "operator.serviceAccount.name=mine"),
        *("--set", "scheduler.serviceAccount.annotations.team=a"),
    )
    bindings = [b for key, b in objects.items() if key[2] == "swell-operator" and b.get("subjects")]
    pod = objects["Deployment", NAMESPACE, "swell-operator"]["spec"]["template"]["spec"]
    test = objects["Pod", NAMESPACE, "swell-operator-test"]["spec"]

    assert {key[2] for key in objects if key[0] == "ServiceAccount"} == {"swell-scheduler"}
    assert {subject["name"] for body in bindings for subject in body["subjects"]} == {"mine"}
    assert pod["serviceAccountName"] == test["serviceAccountName"] == "mine"
    account = objects["ServiceAccount", NAMESPACE, "swell-scheduler"]
    assert account["metadata"]["annotations"] == {"team": "a"}


def test_pods_take_what_clusters_ask_of_them(helm: Helm, tmp_path: Path) -> None:
    """Affinity, annotations, labels beside those of selectors, and other security contexts."""
    given: Body = {
        "affinity": {"nodeAffinity": {}},
        "podAnnotations": {"a": "b"},
        "podLabels": {"team": "a", "app.kubernetes.io/name": "no"},
        "podSecurityContext": {"runAsNonRoot": True},
        "securityContext": {"privileged": False},
    }
    file = tmp_path / "values.yaml"
    file.write_text(json.dumps({"operator": given}))
    template = _rendered(helm, "--values", str(file))["Deployment", NAMESPACE, "swell-operator"][
        "spec"
    ]["template"]

    assert template["spec"]["affinity"] == given["affinity"]
    assert template["metadata"]["annotations"] == given["podAnnotations"]
    assert template["metadata"]["labels"]["team"] == "a"
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "swell-operator"
    assert template["spec"]["securityContext"] == given["podSecurityContext"]
    assert template["spec"]["containers"][0]["securityContext"] == given["securityContext"]


def test_monitor_is_the_one_of_kustomize(helm: Helm, kubectl: Kubectl) -> None:
    """It comes only where it is asked for, with the labels that a Prometheus selects by."""
    plain = _by_name(kubectl.ok("kustomize", str(ROOT / "deploy" / "service-monitor")))
    asked = ("--set", "metrics.serviceMonitor.enabled=true")
    monitor = "ServiceMonitor", NAMESPACE, "swell"

    assert monitor not in _rendered(helm)
    assert _rendered(helm, *asked)[monitor] == plain[monitor]
    labelled = _rendered(helm, *asked, "--set", "metrics.serviceMonitor.labels.release=prometheus")
    assert labelled[monitor]["metadata"]["labels"]["release"] == "prometheus"


def test_reports_endpoint_is_the_one_of_kustomize(helm: Helm, kubectl: Kubectl) -> None:
    """It comes only where it is asked for; its flags, port and Service are those of kustomize."""
    plain = _by_name(kubectl.ok("kustomize", str(ROOT / "deploy" / "reports")))
    del plain["Namespace", "", NAMESPACE]
    asked = ("--set", "operator.reports.enabled=true")

    assert _rendered(helm, "--include-crds", "--no-hooks", *asked) == plain
    changed = {key for key, body in _rendered(helm).items() if _rendered(helm, *asked)[key] != body}
    assert changed == {(kind, NAMESPACE, "swell-operator") for kind in ("Deployment", "Service")}


def test_asking_through_the_server_is_as_kustomize_has_it(helm: Helm, kubectl: Kubectl) -> None:
    """A flag, and one right more, where it is asked for; nobody has that right otherwise."""
    plain = _by_name(kubectl.ok("kustomize", str(ROOT / "deploy" / "reports-proxy")))
    del plain["Namespace", "", NAMESPACE]
    asked = ("--set", "operator.reports.proxy=true")
    objects = _rendered(helm, "--include-crds", "--no-hooks", *asked)

    assert objects == plain
    rules = objects["ClusterRole", "", "swell-operator"]["rules"]
    assert {"apiGroups": [""], "resources": ["pods/proxy"], "verbs": ["get"]} in rules
    assert "pods/proxy" not in json.dumps([body.get("rules") for body in _rendered(helm).values()])


def test_reports_endpoint_has_flags_that_the_operator_takes(helm: Helm) -> None:
    """With a certificate it is HTTPS; a port and an address of one's own reach the flags."""
    objects = _rendered(
        helm,
        *("--set", "operator.reports.enabled=true", "--set", "operator.reports.port=9000"),
        *("--set", "operator.reports.certSecret=reports-tls"),
    )
    pod = objects["Deployment", NAMESPACE, "swell-operator"]["spec"]["template"]["spec"]
    container = pod["containers"][0]
    given = dict(flag.split("=", 1) for flag in container["args"] if "--reports" in flag)
    folder = given["--reports-cert-dir"]

    ReportOptions(given["--reports-addr"], given["--reports-url"], folder).check()
    assert given["--reports-url"] == f"https://swell-operator.{NAMESPACE}:9000"
    assert {"name": "reports", "containerPort": 9000} in container["ports"]
    assert container["volumeMounts"][0]["mountPath"] == folder
    assert pod["volumes"][0]["secret"] == {"secretName": "reports-tls"}


def test_policy_lets_the_operator_ask_training_pods(kubectl: Kubectl) -> None:
    """Pods of both kinds of jobs, in all namespaces, at the port that the operator gives them."""
    text = kubectl.ok("kustomize", str(ROOT / "deploy" / "network-policy"))
    (policy,) = _by_name(text).values()
    labels = {TRAINING_JOB_NAME, JOB_NAME_LABEL}
    (asked,) = [
        rule for rule in policy["spec"]["egress"] if _selected(rule.get("to", [])) == labels
    ]
    (sent,) = [
        rule for rule in policy["spec"]["ingress"] if _selected(rule.get("from", [])) == labels
    ]

    assert asked["ports"][0]["port"] == DEFAULT_BUS_PORT
    assert sent["ports"] == [{"port": "reports", "protocol": "TCP"}]


def _selected(peers: list[Body]) -> set[str]:
    """The labels that pods of all namespaces are selected by."""
    return {
        expression["key"]
        for peer in peers
        if peer.get("namespaceSelector") == {}
        for expression in peer["podSelector"]["matchExpressions"]
    }


def test_page_is_the_one_of_kustomize_and_has_no_rights(helm: Helm, kubectl: Kubectl) -> None:
    """It comes only where it is asked for, in one replica, and nothing is bound to its account."""
    plain = _by_name(kubectl.ok("kustomize", str(ROOT / "deploy" / "page")))
    asked = _rendered(helm, "--set", "page.enabled=true")
    without = _rendered(helm)

    assert {key: body for key, body in asked.items() if key not in without} == plain
    assert not [kind for kind, _, name in plain if "Role" in kind]
    subjects = [s for body in asked.values() for s in body.get("subjects") or ()]
    assert "swell-page" not in [subject["name"] for subject in subjects]
    assert helm.run("template", "swell", CHART, "--set", "page.replicas=2").returncode != 0


def test_tests_of_the_chart_need_no_more_than_the_programs_may(
    installing: Helm, kubectl: Kubectl, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """What `helm test` runs in pods, run here with the same accounts, on a real control plane."""
    named = ("swell", CHART, "--namespace", NAMESPACE)
    installing.ok("install", *named, "--create-namespace")
    pods = [body for body in _rendered(installing).values() if body["kind"] == "Pod"]
    for pod in pods:
        account = pod["spec"]["serviceAccountName"]
        (container,) = pod["spec"]["containers"]
        token = kubectl.ok("create", "token", account, "-n", NAMESPACE).strip()
        config = _kubeconfig(control_plane, token, tmp_path / f"{account}.json")
        command = [sys.executable, "-m", "swell", *container["command"][1:], *container["args"]]
        done = subprocess.run(
            [*command, "--kubeconfig", str(config)], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (account, done.stderr)
    installing.ok("uninstall", "swell", "--namespace", NAMESPACE, "--wait")

    assert [pod["spec"]["serviceAccountName"] for pod in pods] == [
        "swell-operator",
        "swell-scheduler",
    ]
    assert {pod["metadata"]["annotations"]["helm.sh/hook"] for pod in pods} == {"test"}


def _kubeconfig(plane: ControlPlane, token: str, file: Path) -> Path:
    server = {"server": plane.server_url, "certificate-authority": str(plane.ca_file)}
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": server}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "x",
    }
    file.write_text(json.dumps(config))
    return file


# Who asks, what for, and whether they may.
RIGHTS = [
    ("view", "get", "aitrainingjobs", True),
    ("view", "create", "aitrainingjobs", False),
    ("view", "get", "secrets", False),
    ("edit", "create", "trainingjobs", True),
    ("edit", "patch", "aitrainingjobs/scale", True),
    ("edit", "update", "aitrainingjobs/status", False),
    ("swell-viewer", "get", "aitrainingjobs", True),
    ("swell-viewer", "get", "pods", False),
    ("swell-editor", "delete", "podgroups.scheduling.volcano.sh", True),
    ("swell-editor", "patch", "queues", False),
    ("swell-admin", "patch", "queues/status", True),
    ("swell-admin", "create", "hypernodes", True),
    ("swell-admin", "create", "aitrainingjobs", False),
]


@pytest.fixture
def granted(testbed_binaries: None, tmp_path: Path) -> Iterator[Kubectl]:
    """A control plane that aggregates roles, where every role of RIGHTS has a user of its name."""
    with running_control_plane(controllers=["clusterrole-aggregation-controller"]) as plane:
        kubectl = Kubectl(plane.kubeconfig, tmp_path)
        kubectl.ok("apply", "--server-side", "-k", str(ROOT / "deploy" / "crds"))
        kubectl.ok("apply", "-k", str(ROOT / "deploy" / "roles"))
        kubectl.ok("create", "namespace", "team")
        for role in {role for role, *_ in RIGHTS}:
            is_wide = role == "swell-admin"
            scope = ("clusterrolebinding",) if is_wide else ("rolebinding", "-n", "team")
            kubectl.ok("create", *scope, role, f"--clusterrole={role}", f"--user={role}")
        yield kubectl


def test_roles_grant_what_they_say(granted: Kubectl) -> None:
    """Kubernetes' own roles gain Swell's kinds by aggregation; queues stay with the cluster."""
    give_up = time.monotonic() + 60
    while True:  # a controller aggregates roles, in its own time
        answers = [(*asked[:3], _may(granted, *asked[:3])) for asked in RIGHTS]
        if answers == RIGHTS or time.monotonic() > give_up:
            break
    assert answers == RIGHTS


def _may(kubectl: Kubectl, user: str, verb: str, resource: str) -> bool:
    kind, _, part = resource.partition("/")
    asked = ("auth", "can-i", verb, kind, "-n", "team", f"--as={user}")
    return kubectl.run(*asked, *(["--subresource", part] if part else [])).stdout.strip() == "yes"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("operator.replica=3", "'replica' not allowed"),
        ("operator.replicas=many", "/operator/replicas"),
        ("operator.replicas=0", "/operator/replicas"),
        ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
        ("scheduler.args={verbose}", "does not match pattern '^--'"),
        ("metrics.serviceMonitor.interval=often", "/metrics/serviceMonitor/interval"),
        ("operator.reports.port=8080", "/operator/reports/port"),
        ("operator.reports.url=operator:8444", "/operator/reports/url"),
        ("schedulr.enabled=false", "'schedulr' not allowed"),
    ],
)
def test_wrong_values_are_refused(helm: Helm, value: str, said: str) -> None:
    """A value that means nothing is named before anything is installed."""
    done = helm.run("template", "swell", CHART, "--set", value)
    assert done.returncode != 0
    assert said in done.stderr


def test_chart_comes_changes_and_goes(installing: Helm, kubectl: Kubectl) -> None:
    """Install, upgrade and uninstall on a real control plane; jobs' definitions stay."""
    named = ("swell", CHART, "--namespace", NAMESPACE)
    assert "is installed" in installing.ok("install", *named, "--create-namespace")
    installing.ok("upgrade", *named, "--set", "operator.replicas=3")
    replicas = ("get", "deployment", "swell-operator", "-n", NAMESPACE, "-o")
    assert kubectl.ok(*replicas, "jsonpath={.spec.replicas}") == "3"
    installing.ok("uninstall", "swell", "--namespace", NAMESPACE, "--wait")
    left = kubectl.ok("get", "all,clusterroles,clusterrolebindings", "-A", "-o", "name")
    assert "swell" not in left
    assert "aitrainingjobs" in kubectl.ok("get", "crds", "-o", "name")
