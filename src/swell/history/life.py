"""The record of one job's life: what its status and pods said over time. Values only.

A record is made of facts, and of no conclusions: causes and costs are worked out by its readers
(`ledger`, `summary`), so that a better rule explains old jobs, too. Later releases may add fields
at the end of the short records, which are lists on the wire.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from typing import Any

import msgspec

from swell.api.codec import decode, encode

# Bounds of what one job may add to the history, however long it lives (docs/adr/0128).
PHASES_MAX, SIZES_MAX, MARKS_MAX, PODS_MAX, SAMPLES_MAX = 160, 80, 40, 256, 64
TEXT_MAX, LABELS_MAX, SPEC_BYTES_MAX = 200, 16, 4096
# A damaged or hostile record is not unpacked beyond this.
_LIFE_BYTES_MAX = 1 << 20
# A record is a kilobyte, mostly. To prepare the tables of the usual 32 KiB takes longer than to
# deflate it; with these 8 KiB records are as small.
_WINDOW_BITS, _MEMORY_LEVEL = 13, 7


class LifeError(ValueError):
    """A text that is no record of a life."""


class PhaseChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A phase, when it began, and why."""

    at: float
    phase: str
    reason: str = ""
    message: str = ""


class TargetChange(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A new target of one role, who set it, and why."""

    at: float
    role: str
    size: int
    by: str = ""
    reason: str = ""


class Mark(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A change that no phase tells: see the constants below. `seconds` is the length of a pause."""

    at: float
    name: str
    seconds: float = 0.0


# The job was suspended, or queues again; it no longer waits for others; its program paused for a
# new group of members; its end was decided.
SUSPENDED, RESUMED, STARTED, PAUSED = "suspended", "resumed", "started", "paused"
ENDING = "ending"


class PodRun(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One pod on one node, from its start to its end; `ended` is None while it is there."""

    role: str
    index: int
    node: str
    started: float
    ended: float | None = None
    outcome: str = ""


class ProgressSample(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The progress that the program reported at one time."""

    at: float
    step: int = 0
    samples: int = 0
    loss: float | None = None
    rate: float | None = None
    size: int = 0


class RoleShape(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The bounds and the first size of a role, and the resources of one pod of it."""

    minimum: int = 1
    maximum: int = 1
    first: int = 1
    cpu_milli: int = 0
    memory_bytes: int = 0
    gpus: int = 0


class JobLife(
    msgspec.Struct, frozen=True, omit_defaults=True, rename="camel", kw_only=True, gc=False
):
    """The life of one job. It has ended when `ended` is set; `phase` is then its last one."""

    uid: str
    kind: str
    namespace: str
    name: str
    created: float
    ended: float | None = None
    phase: str = ""
    reason: str = ""
    message: str = ""
    user: str = ""
    queue: str = ""
    priority: str = ""
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    roles: dict[str, RoleShape] = msgspec.field(default_factory=dict)
    phases: tuple[PhaseChange, ...] = ()
    sizes: tuple[TargetChange, ...] = ()
    marks: tuple[Mark, ...] = ()
    pods: tuple[PodRun, ...] = ()
    # Seconds by role of pods that are left out of `pods`, the last of their ends, their number.
    folded_s: dict[str, float] = msgspec.field(default_factory=dict)
    folded_until: float = 0.0
    n_folded: int = 0
    restarts: int = 0
    preemptions: int = 0
    progress: tuple[ProgressSample, ...] = ()
    rates: dict[str, str] = msgspec.field(default_factory=dict)
    spec: dict[str, Any] = msgspec.field(default_factory=dict)


def pack(life: JobLife) -> str:
    """Returns a record as a ConfigMap keeps it: deflated JSON in base64."""
    deflater = zlib.compressobj(9, zlib.DEFLATED, _WINDOW_BITS, _MEMORY_LEVEL)
    return base64.b64encode(deflater.compress(encode(life)) + deflater.flush()).decode()


def unpack(text: str) -> JobLife:
    """Returns the record in a text; raises LifeError for one that is none."""
    try:
        inflater = zlib.decompressobj()
        raw = inflater.decompress(base64.b64decode(text, validate=True), _LIFE_BYTES_MAX)
        if inflater.unconsumed_tail:
            raise LifeError(f"a record of more than {_LIFE_BYTES_MAX} bytes")
        return decode(raw, JobLife)
    except (binascii.Error, zlib.error, msgspec.DecodeError, ValueError) as error:
        raise LifeError(str(error)) from error
