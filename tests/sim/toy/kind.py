"""ToyJob: n pods that run to their end, restarted when they fail, up to a limit for each."""

from __future__ import annotations

import msgspec

from swell.api.meta import ApiStruct, Body, ObjectMeta, Uid
from swell.api.pod import Pod
from swell.api.resource import Resource
from swell.cluster.embedded.registry import ServedKind
from tests.plainrules import PlainRules

GROUP = "toy.example.com"
FINALIZER = f"{GROUP}/pods"
JOB_LABEL = f"{GROUP}/job"
INDEX_LABEL = f"{GROUP}/index"
ATTEMPT_LABEL = f"{GROUP}/attempt"
FAILS_ANNOTATION = f"{GROUP}/fails"
NAMESPACE = "default"

RUNNING = "Running"
SUCCEEDED = "Succeeded"
FAILED = "Failed"
FINAL = frozenset({SUCCEEDED, FAILED})


class ToySpec(ApiStruct, frozen=True):
    replicas: int = 1
    restart_limit: int = 3
    clean: bool = True  # delete the pods of a finished job
    fails: tuple[int, ...] = ()  # by index: how many attempts of the pod fail


class ToyStatus(ApiStruct, frozen=True):
    phase: str = ""
    target: int = 0  # the number of pods decided on
    restarts: dict[str, int] = msgspec.field(default_factory=dict)  # by index
    restarting: tuple[Uid, ...] = ()  # pods to be replaced, recorded before they are deleted
    observed_generation: int = 0


class ToyJob(ApiStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ToySpec = ToySpec()
    status: ToyStatus = ToyStatus()


TOY_JOBS = Resource(GROUP, "v1", "ToyJob", "toyjobs", ToyJob)
TOY_KIND = ServedKind(
    group=GROUP,
    version="v1",
    kind="ToyJob",
    plural="toyjobs",
    rules=PlainRules(),
    subresources=frozenset({"status"}),
    custom=True,
)


def toy_job(name: str, **spec: object) -> Body:
    return {
        "apiVersion": TOY_JOBS.api_version,
        "kind": TOY_JOBS.kind,
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": spec,
    }


def index_of(pod: Pod) -> int:
    return int(pod.metadata.labels[INDEX_LABEL])


def attempt_of(pod: Pod) -> int:
    return int(pod.metadata.labels[ATTEMPT_LABEL])
