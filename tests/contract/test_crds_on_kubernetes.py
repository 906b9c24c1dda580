"""A real API server takes our CRDs, and judges manifests as our own validation does."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from swell.api.crds import crd
from swell.api.meta import Body
from swell.api.schemas.definitions import DEFINITIONS, Definition
from swell.api.validation import change_problems, validate
from tests.contract.manifest_cases import (
    CHANGES,
    LATER,
    POD_NAMES,
    REFUSED,
    STARTED,
    WORKER,
    kind_of,
)
from tests.property.broken_manifests import MANIFESTS, Broken, manifest, with_field
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kubectl import Kubectl

ESTABLISH_S_MAX = 30.0
MERGE = "application/merge-patch+json"


@dataclass(frozen=True, slots=True)
class Api:
    """Plain requests over one connection."""

    connection: http.client.HTTPSConnection
    token: str

    def call(self, method: str, path: str, body: object = None, kind: str = "") -> tuple[int, Body]:
        headers = {"Authorization": f"Bearer {self.token}"}
        if body is not None:
            headers["Content-Type"] = kind or "application/json"
        self.connection.request(
            method, path, json.dumps(body) if body is not None else None, headers
        )
        answer = self.connection.getresponse()
        decoded: Any = json.loads(answer.read())
        return answer.status, decoded


@pytest.fixture(scope="module")
def api(control_plane: ControlPlane) -> Iterator[Api]:
    """The real API server, with our CRDs established."""
    trust = ssl.create_default_context(cafile=str(control_plane.ca_file))
    address = urlsplit(control_plane.server_url).netloc
    connection = http.client.HTTPSConnection(address, context=trust, timeout=ESTABLISH_S_MAX)
    api = Api(connection, control_plane.token)
    for definition in DEFINITIONS:
        status, answer = api.call("POST", CRDS, crd(definition))
        assert status in {201, 409}, answer
    for definition in DEFINITIONS:
        wait_until_established(api, definition)
    yield api
    connection.close()


CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def wait_until_established(api: Api, definition: Definition) -> None:
    """Watch the definition until the server serves it."""
    query = f"{CRDS}?watch=true&fieldSelector=metadata.name%3D{definition.name}&timeoutSeconds=30"
    api.connection.request("GET", query, headers={"Authorization": f"Bearer {api.token}"})
    answer = api.connection.getresponse()
    for line in answer:
        # Until its controllers have seen a definition, the server shows null conditions.
        conditions = json.loads(line)["object"].get("status", {}).get("conditions") or []
        if any(one["type"] == "Established" and one["status"] == "True" for one in conditions):
            break
    api.connection.close()  # the rest of the watch is not wanted


def collection(body: Body, definition: Definition) -> str:
    version = body["apiVersion"] if isinstance(body.get("apiVersion"), str) else ""
    served = [f"{definition.group}/{version}" for version in definition.versions]
    scope = "namespaces/default/" if definition.namespaced else ""
    return f"/apis/{version if version in served else served[0]}/{scope}{definition.plural}"


def created(api: Api, body: Body, definition: Definition, query: str) -> tuple[int, Body]:
    body = {**body}
    if isinstance(body.get("metadata"), dict):
        body["metadata"] = {k: v for k, v in body["metadata"].items() if k != "namespace"}
    return api.call("POST", collection(body, definition) + query, body)


def definition_named(kind: str) -> Definition:
    return next(one for one in DEFINITIONS if one.kind == kind)


@pytest.mark.parametrize("path", sorted(MANIFESTS.glob("*.yaml")), ids=lambda path: path.stem)
def test_valid_manifest_is_accepted(api: Api, path: Any) -> None:
    """What we call valid is valid for the server, with no field unknown to it."""
    body = manifest(path.stem)
    query = "?dryRun=All&fieldValidation=Strict"
    status, answer = created(api, body, definition_named(body["kind"]), query)

    assert status == 201, answer


@pytest.mark.parametrize("broken", REFUSED, ids=lambda broken: broken.name)
def test_broken_manifest_is_refused(api: Api, broken: Broken) -> None:
    """What our schemas and rules say is wrong, the server refuses too."""
    definition = definition_named(kind_of(broken))
    status, answer = created(api, broken.body, definition, "?dryRun=All&fieldValidation=Strict")

    assert status in {400, 422}, answer


@pytest.mark.parametrize(("n_letters", "n_workers", "fits"), POD_NAMES)
def test_names_of_pods_must_fit(api: Api, n_letters: int, n_workers: int, fits: bool) -> None:
    """The server and our validation agree on how large a job with this name may be."""
    named = with_field(manifest("aitrainingjob-full"), "metadata.name", "a" * n_letters)
    body = with_field(named, f"{WORKER}.maxReplicas", n_workers)
    status, answer = created(api, body, definition_named("AITrainingJob"), "?dryRun=All")

    assert (status == 201) == fits, answer
    assert (not validate(body)) == fits


def test_parts_of_a_job_may_have_different_owners(api: Api) -> None:
    """Who applies a role's size leaves its template to its author, and the status to us."""
    definition = definition_named("AITrainingJob")
    body = with_field(manifest("aitrainingjob-full"), "metadata.name", "shared")
    del body["metadata"]["namespace"]
    path = f"{collection(body, definition)}/shared"
    kind = "application/apply-patch+yaml"
    small = {"spec": {"replicaSpecs": {"Worker": {"replicas": 3}}}}
    resized = {"apiVersion": body["apiVersion"], "kind": body["kind"], **small}
    del body["spec"]["replicaSpecs"]["Worker"]["replicas"]
    api.call("PATCH", f"{path}?fieldManager=author", body, kind)
    status, answer = api.call("PATCH", f"{path}?fieldManager=sizer", resized, kind)
    assert status == 200, answer
    api.call("PATCH", f"{path}/status", {"status": {"phase": "Running"}}, MERGE)
    status, answer = api.call("PATCH", f"{path}?fieldManager=author", body, kind)
    api.call("DELETE", path)

    assert status == 200, answer
    assert answer["spec"]["replicaSpecs"]["Worker"]["replicas"] == 3
    assert answer["status"] == {"phase": "Running"}


@pytest.fixture(scope="module")
def started_job(api: Api) -> Iterator[Body]:
    """A job whose phase has left the empty one."""
    definition = definition_named("AITrainingJob")
    status, job = created(api, manifest("aitrainingjob-full"), definition, "")
    assert status == 201, job
    path = f"{collection(job, definition)}/{job['metadata']['name']}"
    patch = {"status": STARTED}
    status, job = api.call("PATCH", f"{path}/status", patch, MERGE)
    assert status == 200, job
    yield job
    api.call("DELETE", path)


@pytest.mark.parametrize(("field", "value", "allowed"), CHANGES, ids=[path for path, *_ in CHANGES])
def test_change_of_a_started_job(
    api: Api, started_job: Body, field: str, value: object, allowed: bool
) -> None:
    """The server and our validation agree on what may change once a job is under way."""
    changed = with_field(started_job, field, value)
    definition = definition_named("AITrainingJob")
    path = f"{collection(changed, definition)}/{changed['metadata']['name']}?dryRun=All"
    status, answer = api.call("PUT", path, changed)

    assert (status == 200) == allowed, answer
    assert (not change_problems(started_job, changed)) == allowed
    if not allowed:
        problems = change_problems(started_job, changed)
        # Our validation adds the two values, which a rule of the definition cannot name.
        messages = [problem.message.partition("; ")[0] for problem in problems]
        causes = [cause["message"] for cause in answer["details"]["causes"]]
        assert any(message in cause for message in messages for cause in causes)


def test_change_cannot_hide_behind_a_status(api: Api, started_job: Body) -> None:
    """A status that comes along with a change is not taken for a write of the status."""
    later = with_field(started_job, "status.lastReconcileTime", LATER)
    changed = with_field(later, "spec.queue", "other")
    definition = definition_named("AITrainingJob")
    path = f"{collection(changed, definition)}/{changed['metadata']['name']}?dryRun=All"

    assert api.call("PUT", path, changed)[0] == 422
    assert api.call("PATCH", path, changed, MERGE)[0] == 422


def test_size_of_a_manual_role_may_change(api: Api, started_job: Body) -> None:
    """A change of a role to Manual may also change its size."""
    manual = with_field(started_job, f"{WORKER}.edlPolicy", "Manual")
    resized = with_field(manual, f"{WORKER}.replicas", 6)
    definition = definition_named("AITrainingJob")
    path = f"{collection(resized, definition)}/{resized['metadata']['name']}?dryRun=All"

    assert api.call("PUT", path, resized)[0] == 200
    assert change_problems(started_job, resized) == []


def test_status_keeps_every_field(api: Api, started_job: Body) -> None:
    """Nothing that we write into a status is pruned."""
    status = json.loads((MANIFESTS.parent / "aitrainingjob-status.json").read_text())
    definition = definition_named("AITrainingJob")
    path = f"{collection(started_job, definition)}/{started_job['metadata']['name']}/status"
    query = "?dryRun=All&fieldValidation=Strict"
    code, answer = api.call("PATCH", path + query, {"status": status}, MERGE)

    assert code == 200, answer
    assert answer["status"] == status


def test_scale_subresource_sets_the_size_of_a_role(api: Api) -> None:
    """As kubectl scale does: also where the field was not there; bounds hold, in words."""
    body = with_field(manifest("aitrainingjob-full"), f"{WORKER}.edlPolicy", "Manual")
    body = with_field(body, "metadata.name", "scaled")
    definition = definition_named("AITrainingJob")
    code, answer = created(api, body, definition, "")
    assert code == 201, answer
    path = f"{collection(body, definition)}/scaled"
    code, answer = api.call("PATCH", f"{path}/scale", {"spec": {"replicas": 6}}, MERGE)
    assert code == 200, answer
    assert api.call("GET", path)[1]["spec"]["scale"] == {"replicas": 6}
    reported = {"replicas": 5, "selector": "a=b"}
    api.call("PATCH", f"{path}/status", {"status": {"scale": reported}}, MERGE)
    scale = api.call("GET", f"{path}/scale")[1]
    assert (scale["spec"], scale["status"]) == ({"replicas": 6}, reported)
    code, answer = api.call("PATCH", f"{path}/scale", {"spec": {"replicas": 99}}, MERGE)

    assert code == 422
    assert "within minReplicas and maxReplicas of its role" in answer["message"]


def test_scale_subresource_sets_the_number_of_trainers(api: Api) -> None:
    """The same of a TrainingJob, with the bounds in the refusal."""
    body = with_field(manifest("trainingjob-full"), "metadata.name", "scaled")
    definition = definition_named("TrainingJob")
    code, answer = created(api, body, definition, "")
    assert code == 201, answer
    path = f"{collection(body, definition)}/scaled"
    code, answer = api.call("PATCH", f"{path}/scale", {"spec": {"replicas": 3}}, MERGE)
    assert code == 200, answer
    assert api.call("GET", path)[1]["spec"]["scale"] == {"replicas": 3}
    code, answer = api.call("PATCH", f"{path}/scale", {"spec": {"replicas": 99}}, MERGE)

    assert code == 422
    assert "within min-instance and max-instance of the trainer" in answer["message"]


@pytest.mark.parametrize(
    ("field", "said"),
    [
        ("aitj.spec.replicaSpecs.edlPolicy", "Who resizes the role"),
        ("aitj.status.targetReplicas", "The size that a role is to have now"),
        ("tj.spec.trainer.envs", "Variables of the container"),
        ("pg.spec.subGroupPolicy", "Parts of the gang"),
    ],
)
def test_kubectl_explains_fields(api: Api, kubectl: Kubectl, field: str, said: str) -> None:
    """People look fields up where their cluster is."""
    assert said in " ".join(kubectl.ok("explain", field).split())


def test_kubectl_finds_all_our_kinds_by_their_category(api: Api, kubectl: Kubectl) -> None:
    """One word lists what belongs to Swell."""
    named = kubectl.ok("api-resources", "--categories=swell", "-o", "name").split()

    assert sorted(named) == sorted(definition.name for definition in DEFINITIONS)
