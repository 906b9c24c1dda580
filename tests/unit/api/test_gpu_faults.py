"""Rules for broken GPUs: both polarities, reasons that count, and entries that are wrong."""

from __future__ import annotations

from typing import Any

import pytest

from swell.api import codec
from swell.api.core import Node
from swell.api.gpu_faults import GpuRuleError, rules_of


def node(*conditions: tuple[str, str, str], taint: dict[str, Any] | None = None) -> Node:
    found = [{"type": t, "status": s, "reason": r} for t, s, r in conditions]
    spec = {"taints": [taint] if taint else []}
    return codec.convert({"spec": spec, "status": {"conditions": found}}, Node)


@pytest.mark.parametrize(
    ("entry", "condition", "is_fault"),
    [
        ("GPUMissing", ("GPUMissing", "True", "x"), True),
        ("GPUMissing", ("GPUMissing", "False", "x"), False),
        ("GPUMissing", ("Other", "True", "x"), False),
        ("Ready=False", ("Ready", "False", "x"), True),
        ("Ready=False", ("Ready", "True", "x"), False),
        ("Ready=Unknown", ("Ready", "Unknown", "x"), True),
        ("Gpu:Xid|Ecc", ("Gpu", "True", "Ecc"), True),
        ("Gpu:Xid|Ecc", ("Gpu", "True", "Hot"), False),
        ("Gpu=False!Monitor", ("Gpu", "False", "Xid"), True),
        ("Gpu=False!Monitor", ("Gpu", "False", "Monitor"), False),
        ("Gpu:Xid!Monitor|Hot", ("Gpu", "True", "Xid"), True),
    ],
)
def test_condition_entries(entry: str, condition: tuple[str, str, str], is_fault: bool) -> None:
    assert bool(rules_of((entry,), ()).fault_of(node(condition))) is is_fault
    assert rules_of((entry,), ()).fault_of(node()) == ""


@pytest.mark.parametrize(
    ("entry", "is_fault"),
    [
        ("x/gpu", True),
        ("x/gpu=79", True),
        ("x/gpu=13", False),
        ("x/gpu:NoSchedule", True),
        ("x/gpu=79:NoExecute", False),
    ],
)
def test_taint_entries(entry: str, is_fault: bool) -> None:
    tainted = node(taint={"key": "x/gpu", "value": "79", "effect": "NoSchedule"})

    assert bool(rules_of((), (entry,)).fault_of(tainted)) is is_fault


@pytest.mark.parametrize(
    ("conditions", "taints", "named"),
    [
        (("Gpu=Maybe",), (), "Gpu=Maybe"),
        (("=True",), (), "=True"),
        (("Gpu:",), (), "Gpu:"),
        (("Gpu!",), (), "Gpu!"),
        (("Gpu", "Gpu"), (), "given twice"),
        (("Gpu", "Gpu=True"), (), "'Gpu=True' is given twice"),
        (("Gpu:A|B!C", "Gpu:B|A!C"), (), "given twice"),
        ((), ("x/gpu", "x/gpu"), "given twice"),
        ((), ("x/gpu:Never",), "x/gpu:Never"),
        ((), (":NoSchedule",), ":NoSchedule"),
    ],
)
def test_wrong_entry_is_named(
    conditions: tuple[str, ...], taints: tuple[str, ...], named: str
) -> None:
    with pytest.raises(GpuRuleError, match=r"is|has") as raised:
        rules_of(conditions, taints)

    assert named in str(raised.value)


@pytest.mark.parametrize(
    ("condition", "is_fault"),
    [
        (("AcceleratedHardwareReady", "False", "NvidiaXid79Error"), True),
        (("AcceleratedHardwareReady", "False", "DCGMError"), False),
        (("AcceleratedHardwareReady", "True", ""), False),
        (("GpuNvlinkWatch", "True", ""), True),
        (("GpuThermalWatch", "True", ""), False),
        (("IBLinkFlapping", "True", ""), False),
        (("XIDErrors", "True", ""), True),
    ],
)
def test_defaults_know_the_clouds(condition: tuple[str, str, str], is_fault: bool) -> None:
    assert bool(rules_of().fault_of(node(condition))) is is_fault


def test_words_say_what_the_node_reports() -> None:
    found = rules_of().fault_of(node(("AcceleratedHardwareReady", "False", "NvidiaXid79Error")))

    assert found == "AcceleratedHardwareReady=False (NvidiaXid79Error)"
