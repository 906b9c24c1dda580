"""The variables and files by which the operator tells a training program its place in the job.

The operator writes them, and the training library reads them.
"""

from __future__ import annotations

import msgspec

# The folder of the mounted members ConfigMap. Its files: `epoch`; one named as each role, with a
# `host[:port]` a line; `instances`, with a line `role number number ...` for each role; a line
# `role index=address ...` with the pods beyond the role's size that may still live; and a line
# `role index=number ...` with pods that have ended with success while others run. No role can have
# the names of the last two.
MEMBERS_VARIABLE = "SWELL_MEMBERS"
INSTANCES_FILE = "instances"
FORMER_FILE = "pods.former"
SUCCEEDED_FILE = "pods.succeeded"
# Where pods cannot be given their number: a line `role index=UID ...` with the newest pods, and the
# variable with a pod's own UID. The pod has the number of its index once its UID is listed there.
UIDS_FILE = "pods.uids"
UID_VARIABLE = "SWELL_POD_UID"
# The port at which every member listens for its peers and for those who ask for its report.
BUS_PORT_VARIABLE = "SWELL_BUS_PORT"
DEFAULT_BUS_PORT = 23232
# The file with the job's secret; by it members know each other.
SECRET_FILE_VARIABLE = "SWELL_SECRET_FILE"  # noqa: S105 (the name of a variable)
# The file that says that this pod is asked to leave: a JSON object with `reason`, `deadline`
# (RFC 3339) and `epoch`. It is empty or missing otherwise.
RELEASE_FILE_VARIABLE = "SWELL_RELEASE_FILE"
# The address that the bus binds to.
ADDRESS_VARIABLE = "SWELL_POD_ADDRESS"
# The file into which a program without the library writes its report.
REPORT_FILE_VARIABLE = "SWELL_REPORT"
# After how many seconds without a step a program is to print its stacks and end, and the code that
# it ends with then. The code is none of a shell's, of a signal's or of sysexits.h.
HANG_VARIABLE = "SWELL_HANG_SECONDS"
HANG_EXIT_CODE = 88
# The operator's count of pods at this index: it tells a pod from its predecessor.
INSTANCE_VARIABLE = "TRAININGJOB_INSTANCE"
# The path of the report at the bus port, and the label from which the token of those who may read
# it is derived: the hexadecimal HMAC-SHA-256 of the label, by the job's secret.
REPORT_PATH = "/report"
# The header with that token, where the API server passes the request on: it keeps the usual one.
REPORT_TOKEN_HEADER = "X-Swell-Token"  # noqa: S105 (the name of a header)
REPORT_TOKEN_LABEL = b"swell report"
# On the job: "true" asks for the parts of a training program, any other value refuses them.
TRAINING_NOTE = "elasticdeeplearning.ai/training"
# On the job, made by the operator: the token by which the job's reports are read.
REPORT_TOKEN_NOTE = "elasticdeeplearning.ai/report-token"  # noqa: S105 (the name of a note)
# Where pods cannot be asked: the address to which a leader sends its report, and the file with the
# token by which the API server knows the pod. The token is good for this audience alone.
REPORT_URL_VARIABLE = "SWELL_REPORT_URL"
REPORT_TOKEN_FILE_VARIABLE = "SWELL_REPORT_TOKEN_FILE"  # noqa: S105 (the name of a variable)
REPORT_AUDIENCE = "swell"
# The folder of checkpoints that `swell run --checkpoints` names.
CHECKPOINTS_VARIABLE = "SWELL_CHECKPOINTS"
# The volume with that file, and the annotation by which Swell's node agent hands its content on.
REPORT_VOLUME = "swell-report"
REPORT_FILE = "report.json"
REPORT_ANNOTATION = "elasticdeeplearning.ai/report"
# The file beside it by which a program says that it has saved and may go, and its annotation.
SAVED_FILE = "saved"
SAVED_ANNOTATION = "elasticdeeplearning.ai/saved"
# On a pod: the request to leave, a `ReleaseRequest`, which its release file shows.
RELEASE_ANNOTATION = "elasticdeeplearning.ai/release"
# On a pod that the scheduler or a drain wants to go: an `EvictionRecord`.
EVICTION_ANNOTATION = "elasticdeeplearning.ai/eviction"

DRAIN = "drain"


class ReleaseRequest(msgspec.Struct, frozen=True):
    """The request to leave, as the release file has it. The pod is deleted at the deadline."""

    reason: str = ""
    deadline: str = ""
    epoch: int = 0


class EvictionRecord(msgspec.Struct, frozen=True, rename={"for_": "for"}):
    """The record on a victim: the pod's own UID, who gets its room, and until when.

    `by` is `DRAIN` where a node is emptied: that is no preemption, and `for_` is the node.
    """

    uid: str = ""
    for_: str = ""
    deadline: str = ""
    by: str = ""

    @property
    def why(self) -> str:
        """The reason that the pod is told."""
        return f"{self.for_} is drained" if self.by == DRAIN else f"makes room for {self.for_}"
