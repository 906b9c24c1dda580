"""The scheduler's knowledge of GPUs: which amounts and devices are GPUs, and what nodes report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from swell.api.gpu_faults import DEFAULT_DRIVERS, GpuFaultRules, rules_of

# A message names so many nodes with broken GPUs.
_NAMED_MAX: Final = 3


@dataclass(frozen=True, slots=True)
class GpuKnowledge:
    """By what nodes report broken GPUs, and which resources and whose devices are GPUs."""

    rules: GpuFaultRules
    resources: tuple[str, ...]
    drivers: tuple[str, ...] = DEFAULT_DRIVERS


KNOWN_GPUS: Final = GpuKnowledge(rules_of(), ("nvidia.com/gpu", "amd.com/gpu"))


def faults_text(faults: Mapping[str, str]) -> str:
    """Returns what the first nodes report of their GPUs."""
    return "; ".join(f"{name} {faults[name]}" for name in sorted(faults)[:_NAMED_MAX])
