"""Reads the processors, memory and GPUs of this machine, once, when an agent starts."""

from __future__ import annotations

import os
import platform
import shutil
import socket
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from swell.api.quantity import QuantityError, parse

GPU = "nvidia.com/gpu"
_GPU_QUERY_S = 10.0
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class HostMachine:
    """The resources of this machine."""

    name: str
    cpu_milli: int
    memory_bytes: int
    n_gpus: int

    @property
    def architecture(self) -> str:
        found = platform.machine().lower()
        return _ARCHITECTURES.get(found, found)

    @property
    def system(self) -> str:
        return platform.system().lower()


@dataclass(frozen=True, slots=True)
class CapacityRequest:
    """The capacity of a node by the user's flags; empty where the machine's is to be used."""

    cpu: str = ""
    memory: str = ""
    gpu: str = ""
    pods: int = 500


class CapacityError(ValueError):
    """A capacity flag that is no possible quantity."""

    def __init__(self, flag: str, problem: str) -> None:
        super().__init__(f"{flag}: {problem}")
        self.flag = flag


def this_machine() -> HostMachine:
    memory_bytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return HostMachine(_host_name(), _cpu_count() * 1000, memory_bytes, _gpu_count())


def capacity(machine: HostMachine, request: CapacityRequest, n_nodes: int) -> dict[str, str]:
    """Returns a node's capacity: what was asked for, else an equal part of the machine."""
    found = {
        "cpu": request.cpu or f"{machine.cpu_milli // n_nodes}m",
        "memory": request.memory or f"{machine.memory_bytes // n_nodes // 1024}Ki",
        "pods": str(request.pods),
    }
    gpus = request.gpu or str(machine.n_gpus // n_nodes)
    if gpus != "0":
        found[GPU] = gpus
    return canonical(found)


def canonical(amounts: Mapping[str, str]) -> dict[str, str]:
    """Returns amounts as the API server writes them; CapacityError names a wrong flag."""
    written: dict[str, str] = {}
    for name, text in amounts.items():
        flag = "--gpu" if name == GPU else f"--{name}"
        try:
            amount = parse(text)
        except QuantityError as error:
            raise CapacityError(flag, str(error)) from error
        if amount.nano < 0 or (name == GPU and amount.milli_value() % 1000):
            raise CapacityError(flag, f"{text!r} is not a possible amount")
        written[name] = str(amount)
    return written


def _host_name() -> str:
    """Returns the host's name, changed to what an object's name may be."""
    name = socket.gethostname().split(".")[0].lower()
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name)
    return kept.strip("-") or "node"


def _cpu_count() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _gpu_count() -> int:
    """Returns the number of GPUs that nvidia-smi lists; 0 when it is missing or fails."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return 0
    try:
        listed = subprocess.run(
            [tool, "--list-gpus"], capture_output=True, timeout=_GPU_QUERY_S, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    return len(listed.stdout.splitlines())
