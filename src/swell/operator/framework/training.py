"""The parts that a training program gets from the operator if its job asks for them. Pure.

They are the members folder, the job's secret, the file by which a pod is asked to leave, the report
file, and the variables that name them (`swell.api.injection`). A job asks by `spec.reporting`, by
an annotation, or by `swell launch` as its command. A template is free JSON that validation has
checked only in part, so nothing here may fail on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from swell.api import injection
from swell.api.aitrainingjob import API_GROUP
from swell.api.kinds import SECRETS
from swell.api.meta import Body, Key, ObjectMeta
from swell.api.resource import Resource
from swell.operator.framework.children import OwnerJob, controller_reference
from swell.runtime.plan import DeleteSecret, IssueSecret, Step

TRAINING = injection.TRAINING_NOTE
REPORT_TOKEN = injection.REPORT_TOKEN_NOTE
# The UID of the last secret that was replaced because it was not on record.
REPLACED_SECRET = f"{API_GROUP}/replaced-secret"
# On the pod: the number by which its program tells it from its predecessors at the same index.
INSTANCE = f"{API_GROUP}/instance"
# On the pod: the epoch of the membership it was created with or last touched for.
MEMBERS_EPOCH = f"{API_GROUP}/members-epoch"
# On the pod: the request to leave, which its release file shows.
RELEASE = injection.RELEASE_ANNOTATION

# The prefix of containers that take part in the job; all others are the user's own.
OURS = "aitj-"
SECRET_ENTRY = "key"  # noqa: S105 (the name of a file)
MEMBERS_FOLDER = "/etc/swell/members"
SECRET_FOLDER = "/etc/swell/secret"  # noqa: S105 (the name of a folder)
POD_FOLDER = "/etc/swell/pod"
RELEASE_FILE = "release"
REPORT_FOLDER = "/run/swell"
TOKEN_FOLDER = "/etc/swell/token"  # noqa: S105 (the name of a folder)
_TOKEN_FILE = "token"  # noqa: S105 (the name of a file)
# The kubelet renews a token when a fifth of its life is left.
_TOKEN_S = 3600
# Readable by the owner alone; a program that runs as another user needs `fsGroup`.
_SECRET_MODE = 0o400
_PORT_MAX = 65535
# Programs that run `swell` as a module.
_PYTHON = "python"
# The launcher itself, as a module: what `swell run --nproc-per-node` makes of a command.
_LAUNCHER = "swell.train.launch"


@dataclass(frozen=True, slots=True)
class TrainingParts:
    """The names behind the parts of one job, and its bus port."""

    members: str
    secret: str
    bus_port: int
    report_url: str = ""  # to which reports are sent; empty: programs are only asked


def asks_for_training(reporting: bool | None, meta: ObjectMeta, containers: Iterable[Body]) -> bool:
    """Whether a job wants the parts. The spec decides; then the annotation; then the command."""
    if reporting is not None:
        return reporting
    if (note := meta.annotations.get(TRAINING)) is not None:
        return note.strip().lower() == "true"
    return any(_launches(container) for container in containers)


def secret_name(meta: ObjectMeta) -> str:
    """The name of a job's secret. It has the job's UID, so that a namesake gets another one."""
    return f"{meta.name}-bus-{meta.uid}".lower()


def issue_secret(
    resource: Resource[object], job: OwnerJob, labels: Mapping[str, str]
) -> IssueSecret:
    """Make the job's secret, and record on the job by which token its reports are read."""
    meta = job.metadata
    body: Body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "Opaque",
        "metadata": {
            "name": secret_name(meta),
            "namespace": meta.namespace,
            "labels": dict(labels),
            "ownerReferences": [controller_reference(job)],
        },
    }
    return IssueSecret(
        resource,
        meta.key,
        meta.uid,
        secret=body,
        entry=SECRET_ENTRY,
        annotation=REPORT_TOKEN,
        label=injection.REPORT_TOKEN_LABEL,
    )


def delete_secret(meta: ObjectMeta) -> DeleteSecret:
    return DeleteSecret(SECRETS, Key(meta.namespace, secret_name(meta)))


def replace_secret(
    resource: Resource[object], job: OwnerJob, labels: Mapping[str, str]
) -> list[Step]:
    """Issue the job's secret where an earlier one may be that is not on record."""
    meta = job.metadata
    owner = (resource, meta.key, meta.uid)
    former = replace(delete_secret(meta), owner=owner, note=REPLACED_SECRET)
    return [former, issue_secret(resource, job, labels)]


def free_port(containers: Iterable[Body]) -> int:
    """The default bus port, or the next one that no container of the job declares."""
    taken = {
        port.get("containerPort")
        for container in containers
        for port in objects(container.get("ports"))
    }
    ports = range(injection.DEFAULT_BUS_PORT, _PORT_MAX + 1)
    return next((port for port in ports if port not in taken), injection.DEFAULT_BUS_PORT)


def asked_port(containers: Iterable[Body]) -> int:
    """The bus port of a job: the one its template names itself, else the one it was given."""
    listed = list(containers)
    for variable in (one for container in listed for one in objects(container.get("env"))):
        text = variable.get("value")
        if variable.get("name") == injection.BUS_PORT_VARIABLE and isinstance(text, str):
            port = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else 0
            if 0 < port <= _PORT_MAX:
                return port
    return free_port(listed)


def add_training_parts(spec: Body, parts: TrainingParts, own: Iterable[tuple[str, str]]) -> None:
    """Add the volumes, mounts and variables to a pod's spec; `own` are variables of this pod.

    Containers that take part in the job get them; all containers where none is named as one of
    these. A volume, a mount or a variable that the user has under the same name stays.
    """
    volumes = _volumes(parts)
    held = list(objects(spec.get("volumes")))
    names = {volume.get("name") for volume in held}
    spec["volumes"] = [*held, *(volume for volume in volumes if volume["name"] not in names)]
    variables = [*_variables(parts), *({"name": name, "value": value} for name, value in own)]
    for container in _members_of(spec):
        container["env"] = [*variables, *objects(container.get("env"))]
        _mount(container, parts)


def _volumes(parts: TrainingParts) -> list[Body]:
    release = {
        "path": RELEASE_FILE,
        "fieldRef": {"fieldPath": f"metadata.annotations['{RELEASE}']"},
    }
    token: Body = {
        "audience": injection.REPORT_AUDIENCE,
        "expirationSeconds": _TOKEN_S,
        "path": _TOKEN_FILE,
    }
    sends = {"name": "swell-token", "projected": {"sources": [{"serviceAccountToken": token}]}}
    return [
        {"name": "swell-members", "configMap": {"name": parts.members}},
        {
            "name": "swell-secret",
            "secret": {"secretName": parts.secret, "defaultMode": _SECRET_MODE},
        },
        {"name": "swell-pod", "downwardAPI": {"items": [release]}},
        {"name": injection.REPORT_VOLUME, "emptyDir": {}},
        *([sends] if parts.report_url else []),
    ]


_MOUNTS = (
    ("swell-members", MEMBERS_FOLDER, True),
    ("swell-secret", SECRET_FOLDER, True),
    ("swell-pod", POD_FOLDER, True),
    (injection.REPORT_VOLUME, REPORT_FOLDER, False),
)


def _mount(container: Body, parts: TrainingParts) -> None:
    held = list(objects(container.get("volumeMounts")))
    paths = {str(mount.get("mountPath", "")).rstrip("/") for mount in held}
    sends = (("swell-token", TOKEN_FOLDER, True),) if parts.report_url else ()
    for name, path, is_read_only in (*_MOUNTS, *sends):
        if path not in paths:
            mount: Body = {"name": name, "mountPath": path}
            held.append({**mount, "readOnly": True} if is_read_only else mount)
    container["volumeMounts"] = held


def _variables(parts: TrainingParts) -> Iterator[Body]:
    address = {"fieldRef": {"fieldPath": "status.podIP"}}
    yield {"name": injection.ADDRESS_VARIABLE, "valueFrom": address}
    values = {
        injection.MEMBERS_VARIABLE: MEMBERS_FOLDER,
        injection.BUS_PORT_VARIABLE: str(parts.bus_port),
        injection.SECRET_FILE_VARIABLE: f"{SECRET_FOLDER}/{SECRET_ENTRY}",
        injection.RELEASE_FILE_VARIABLE: f"{POD_FOLDER}/{RELEASE_FILE}",
        injection.REPORT_FILE_VARIABLE: f"{REPORT_FOLDER}/{injection.REPORT_FILE}",
    }
    if parts.report_url:
        values[injection.REPORT_URL_VARIABLE] = parts.report_url
        values[injection.REPORT_TOKEN_FILE_VARIABLE] = f"{TOKEN_FOLDER}/{_TOKEN_FILE}"
    for name, value in values.items():
        yield {"name": name, "value": value}


def _members_of(spec: Body) -> list[Body]:
    every = list(objects(spec.get("containers")))
    ours = [one for one in every if str(one.get("name", "")).startswith(OURS)]
    return ours or every


def _launches(container: Body) -> bool:
    """Whether a container's command is `swell launch`, also as a module of Python."""
    parts = [*_texts(container.get("command")), *_texts(container.get("args"))]
    if parts and PurePosixPath(parts[0]).name.startswith(_PYTHON) and "-m" in parts:
        at = parts.index("-m")
        # All before it are the interpreter's flags; otherwise it is one of a script's.
        parts = parts[at + 1 :] if all(one.startswith("-") for one in parts[1:at]) else []
    if parts[:1] == [_LAUNCHER]:
        return True
    return len(parts) > 1 and PurePosixPath(parts[0]).name == "swell" and parts[1] == "launch"


def _texts(value: object) -> list[str]:
    return [str(item) for item in value] if isinstance(value, list) else []


def objects(value: object) -> Iterator[Body]:
    """The objects of a list; none of a value that is no list."""
    if isinstance(value, list):
        yield from (item for item in value if isinstance(item, dict))
