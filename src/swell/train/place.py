"""The place of this process in its job, as the operator told it by variables and files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from swell.api import injection

# Every pod of a job has it.
JOB_VARIABLE = "TRAININGJOB_NAME"


@dataclass(frozen=True, slots=True)
class Place:
    """A member's place. The instance tells a pod from its predecessor at the same index."""

    job: str
    role: str
    index: int
    instance: int
    members: Path
    address: str
    bus_port: int = injection.DEFAULT_BUS_PORT
    secret: bytes = b""
    release: Path | None = None
    report: Path | None = None
    # The pod's UID, where the instance is to be found by it in the members folder.
    uid: str = ""
    # Where a leader sends its report, and the file with the token that it shows there.
    report_url: str = ""
    report_token: Path | None = None


def place_of(environ: Mapping[str, str]) -> Place | None:
    """The place that the operator gave to this process; None for one that it did not start."""
    members = environ.get(injection.MEMBERS_VARIABLE)
    index = environ.get("TRAININGJOB_REPLICA_INDEX")
    if not members or index is None:
        return None
    secret = environ.get(injection.SECRET_FILE_VARIABLE)
    release = environ.get(injection.RELEASE_FILE_VARIABLE)
    report = environ.get(injection.REPORT_FILE_VARIABLE)
    token = environ.get(injection.REPORT_TOKEN_FILE_VARIABLE)
    is_numbered = injection.INSTANCE_VARIABLE in environ
    return Place(
        job=environ.get(JOB_VARIABLE, ""),
        role=environ.get("TRAININGJOB_REPLICA_NAME", ""),
        index=int(index),
        instance=int(environ.get(injection.INSTANCE_VARIABLE, "0")),
        members=Path(members),
        address=environ.get(injection.ADDRESS_VARIABLE, ""),
        bus_port=int(environ.get(injection.BUS_PORT_VARIABLE, injection.DEFAULT_BUS_PORT)),
        secret=Path(secret).read_bytes().strip() if secret else b"",
        release=Path(release) if release else None,
        report=Path(report) if report else None,
        uid="" if is_numbered else environ.get(injection.UID_VARIABLE, ""),
        report_url=environ.get(injection.REPORT_URL_VARIABLE, ""),
        report_token=Path(token) if token else None,
    )
