"""The feature gates with which Kubernetes has gangs of its own, and kube-scheduler with them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Final

from tests.testbed import binaries
from tests.testbed.control_plane import CONTROLLERS, STOP_GRACE_S, ControlPlane
from tests.testbed.processes import ChildProcess, free_loopback_ports

_SCHEDULING = (
    "GenericWorkload",
    "GangScheduling",
    "TopologyAwareWorkloadScheduling",
    "WorkloadAwarePreemption",
)
GATES: Final = ",".join(f"{name}=true" for name in (*_SCHEDULING, "WorkloadWithJob"))
API_SERVER_FLAGS: Final = (
    f"--feature-gates={GATES}",
    "--runtime-config=scheduling.k8s.io/v1alpha2=true",
)
MANAGER_FLAGS: Final = (f"--feature-gates={GATES}",)
# The one that lets a deleted group go when its pods are gone.
NATIVE_CONTROLLERS: Final = (*CONTROLLERS, "podgroup-protection-controller")


@contextlib.contextmanager
def running_kube_scheduler(
    plane: ControlPlane, flags: Sequence[str] = ()
) -> Iterator[ChildProcess]:
    """Run kube-scheduler with its own gangs, for pods of `default-scheduler`."""
    (port,) = free_loopback_ports(1)
    command = [
        str(binaries.binary("kube-scheduler")),
        f"--kubeconfig={plane.kubeconfig}",
        "--leader-elect=false",
        "--bind-address=127.0.0.1",
        f"--secure-port={port}",
        f"--cert-dir={plane.data_dir}",
        f"--feature-gates={','.join(f'{name}=true' for name in _SCHEDULING)}",
        *flags,
    ]
    process = ChildProcess("kube-scheduler", command, plane.data_dir / "kube-scheduler.log")
    try:
        yield process
    finally:
        process.stop(grace_s=STOP_GRACE_S)
