"""Reads the flags about broken GPUs, which operator and scheduler share."""

from __future__ import annotations

import re
from collections.abc import Callable

from swell.api.gpu_faults import GpuRuleError, rules_of
from swell.cli.command_line import USAGE, CommandError
from swell.cli.options import names_in
from swell.operator.framework.gpu_states import ALLOCATABLE_DROPS

_PERCENT = re.compile(r"(\d{1,3})%")
_WHOLE = 100


def fault_conditions(text: str) -> tuple[str, ...]:
    """Return the entries of --gpu-fault-conditions; CommandError for one that means nothing."""
    return _checked("--gpu-fault-conditions", names_in(text), lambda found: rules_of(found, ()))


def fault_taints(text: str) -> tuple[str, ...]:
    """Return the entries of --gpu-fault-taints; CommandError for one that means nothing."""
    return _checked("--gpu-fault-taints", names_in(text), lambda found: rules_of((), found))


def fault_device_taints(text: str) -> tuple[str, ...]:
    """Return the entries of --gpu-fault-device-taints; CommandError for one that means nothing."""
    flag = "--gpu-fault-device-taints"
    return _checked(flag, names_in(text), lambda found: rules_of((), (), found))


def allocatable_drop(text: str) -> str:
    """Return what follows when fewer GPUs can be allocated; CommandError for any other text."""
    if text not in ALLOCATABLE_DROPS:
        known = ", ".join(ALLOCATABLE_DROPS)
        problem = f"--gpu-allocatable-drop is {text!r}"
        raise CommandError(problem, f"must be one of: {known}", USAGE)
    return text


def _checked(
    flag: str, entries: tuple[str, ...], read: Callable[[tuple[str, ...]], object]
) -> tuple[str, ...]:
    try:
        read(entries)
    except GpuRuleError as error:
        raise CommandError(f"{flag}: {error}", exit_code=USAGE) from error
    return entries


def share_in(text: str) -> float:
    """Return the share that a percentage means; CommandError for any other text."""
    found = _PERCENT.fullmatch(text.strip())
    if found is None or int(found[1]) > _WHOLE:
        problem = f"--gpu-fault-max-nodes is {text!r}"
        raise CommandError(problem, "write a percentage such as 20%", USAGE)
    return int(found[1]) / _WHOLE
