"""Recorded scheduler cases: reads files of tests/data, runs them, and compares the decisions."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from swell.api import codec
from swell.api.core import Node
from swell.api.pod import Pod
from swell.api.policy import PodDisruptionBudget, PriorityClass
from swell.api.scheduling import PodGroup, Queue
from swell.api.topology import HyperNode
from swell.scheduler.config import SWITCHES, Config, PluginOption
from swell.scheduler.config_file import KnownNames, KnownPlugin, parse
from swell.scheduler.cycle import KNOWN, SchedulingPlan, run_cycle
from swell.scheduler.hooks import Hooks, Plugin, Vote
from swell.scheduler.model.reasons import Refusal, WaitReason
from swell.scheduler.model.snapshot import SchedulerSnapshot
from swell.scheduler.model.tasks import NOWHERE, TaskStatus
from swell.scheduler.plan import SchedulerObjects
from swell.scheduler.plugins import PLUGINS
from swell.scheduler.session import Session

FOLDER = Path(__file__).parent / "data" / "scheduler_cases"
# Clusters that a setting of a plugin makes a difference to, with the plans without and with it.
SETTINGS = sorted((Path(__file__).parent / "data" / "scheduler_settings").glob("*.json"))
BORN = "2026-01-01T00:00:00Z"
Case = dict[str, Any]


def load(*, units: bool) -> Iterator[Case]:
    for path in sorted(FOLDER.glob("*.json")):
        for case in json.loads(path.read_text())["cases"]:
            if ("unit" in case) == units:
                yield case


def config_of(case: Case) -> Config:
    tiers = [
        {
            "plugins": [
                {
                    "name": plugin["name"],
                    **{s: _hook(s) in plugin.get("enable", []) for s in SWITCHES},
                    "arguments": plugin.get("args", {}),
                }
                for plugin in tier
            ]
        }
        for tier in case["tiers"]
    ]
    body = {
        "actions": ", ".join(case["actions"]),
        "tiers": tiers,
        "configurations": [
            {"name": name, "arguments": arguments}
            for name, arguments in case.get("actionArgs", {}).items()
        ],
    }
    known = KnownNames(KNOWN.actions, {**KNOWN.plugins, "stub": KnownPlugin()})
    return parse(body, known).config


def _hook(switch: str) -> str:
    return switch.removeprefix("enabled").removeprefix("enable")


def objects_of(case: Case) -> SchedulerObjects:
    found = SchedulerObjects()
    for name, row in case.get("priorityClasses", {}).items():
        found.priority_classes.append(
            codec.convert({"metadata": _meta(name), **row}, PriorityClass)
        )
    for row in case.get("nodes", ()):
        found.nodes.append(
            codec.convert(
                {
                    "metadata": _meta(row["name"], labels=row.get("labels", {})),
                    "spec": {"taints": row.get("taints") or []},
                    "status": {
                        "allocatable": row["allocatable"],
                        "conditions": [{"type": "Ready", "status": "True"}],
                    },
                },
                Node,
            )
        )
    for row in case.get("queues", ()):
        spec = {
            key: row[key]
            for key in ("weight", "capability", "deserved", "parent", "priority", "reclaimable")
            if key in row
        }
        spec["guarantee"] = {"resource": row.get("guarantee", {})}
        found.queues.append(
            codec.convert(
                {
                    "metadata": _meta(row["name"], annotations=row.get("annotations", {})),
                    "spec": spec,
                    "status": {"state": row.get("state", "Open")},
                },
                Queue,
            )
        )
    nodes = {row["name"] for row in case.get("nodes", ())}
    found.hyper_nodes += (hyper_node_of(row, nodes) for row in case.get("hyperNodes", ()))
    found.groups += map(group_of, case.get("podGroups", ()))
    found.pods += map(pod_of, case.get("pods", ()))
    return found


def hyper_node_of(row: Case, nodes: set[str]) -> HyperNode:
    members = [
        {
            "type": "Node" if name in nodes else "HyperNode",
            "selector": {"exactMatch": {"name": name}},
        }
        for name in row["members"]
    ]
    spec = {"tier": row["tier"], "tierName": row.get("tierName", ""), "members": members}
    meta = {**_meta(row["name"]), "creationTimestamp": row.get("created", BORN)}
    return codec.convert({"metadata": meta, "spec": spec}, HyperNode)


def _topology_of(row: Case) -> dict[str, object]:
    names = {"highestTier": "highestTierAllowed"}
    return {names.get(key, key): value for key, value in row.items()}


def group_of(row: Case) -> PodGroup:
    spec: dict[str, Any] = {
        key: row[key]
        for key in ("minMember", "queue", "minTaskMember", "minResources", "priorityClassName")
        if key in row
    }
    if "topology" in row:
        spec["networkTopology"] = _topology_of(row["topology"])
    if "subGroups" in row:
        spec["subGroupPolicy"] = [
            {
                **{key: value for key, value in part.items() if key != "topology"},
                "networkTopology": _topology_of(part["topology"]) if "topology" in part else None,
            }
            for part in row["subGroups"]
        ]
    notes = {}
    if "allocatedHyperNode" in row:
        notes["volcano.sh/job-allocated-hypernode"] = row["allocatedHyperNode"]
    return codec.convert(
        {
            "metadata": _meta(row["name"], row["namespace"], annotations=notes),
            "spec": spec,
            "status": {"phase": row["phase"]},
        },
        PodGroup,
    )


def pod_of(row: Case) -> Pod:
    notes = {"scheduling.k8s.io/group-name": row["group"]} if row.get("group") else {}
    notes |= row.get("notes", {})
    labels = dict(row.get("labels", {}))
    if row.get("role"):
        notes["volcano.sh/task-spec"] = labels["volcano.sh/task-spec"] = row["role"]
    if "preemptable" in row:
        flag = str(row["preemptable"]).lower()
        notes["volcano.sh/preemptable"] = labels["volcano.sh/preemptable"] = flag
    extra: dict[str, Any] = {"annotations": notes, "labels": labels}
    if row.get("deleting"):
        extra["deletionTimestamp"] = BORN
    spec: dict[str, Any] = {
        "schedulerName": "swell",
        "containers": [{"resources": {"requests": row.get("requests", {})}}],
        "nodeName": row.get("node") or "",
        "priority": row.get("priority"),
        "nodeSelector": row.get("nodeSelector") or {},
        "preemptionPolicy": row.get("preemptionPolicy") or "",
    }
    if "podAntiAffinity" in row:
        expected = row["podAntiAffinity"]
        term = {
            "topologyKey": expected["topologyKey"],
            "labelSelector": {"matchLabels": expected["matchLabels"]},
        }
        spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    return codec.convert(
        {
            "metadata": _meta(row["name"], row["namespace"], **extra),
            "spec": spec,
            "status": {"phase": row.get("phase", "Pending")},
        },
        Pod,
    )


def budget_of(row: Case) -> PodDisruptionBudget:
    return codec.convert(
        {
            "metadata": _meta("budget", row["namespace"]),
            "spec": {"selector": {"matchLabels": row["matchLabels"]}},
            "status": {"disruptionsAllowed": row["disruptionsAllowed"]},
        },
        PodDisruptionBudget,
    )


def _meta(name: str, namespace: str = "", **extra: object) -> dict[str, object]:
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"{namespace}-{name}",
        "creationTimestamp": BORN,
        **extra,
    }


def snapshot_of(case: Case) -> SchedulerSnapshot:
    snapshot = objects_of(case).snapshot()
    for row in case["pods"]:
        if "pipelinedBefore" in row:
            task = snapshot.task(f"{row['namespace']}/{row['name']}")
            assert task is not None
            node = snapshot.nodes.find(str(row["pipelinedBefore"]))
            snapshot.move(task, TaskStatus.PIPELINED, node)
    return snapshot


def stub_of(stubs: Mapping[str, Any]) -> Plugin:
    """Returns the fake plugin that some cases come with."""

    def open_stub(session: Session, option: PluginOption) -> Hooks:
        def enqueueable(job: Any) -> Vote | Refusal:
            if job.key in stubs.get("rejectEnqueue", ()):
                return Refusal(WaitReason.QUEUE_QUOTA, "stub")
            return Vote.ABSTAIN

        def filter_(task: Any, now: bool) -> Any:
            rule = stubs.get("unfitWhileNotReleasing")
            if not rule or task.key.rpartition("/")[2] != rule["pod"].rpartition("/")[2]:
                return None
            blocker = next(
                t
                for job in session.snapshot.jobs.values()
                for t in job.tasks.values()
                if t.key.rpartition("/")[2] == rule["blocker"].rpartition("/")[2]
            )
            free = blocker.status in {TaskStatus.RELEASING} or blocker.node == NOWHERE
            return session.snapshot.nodes.ready & free

        def victims(tasks: Any) -> Any:
            expected = stubs.get("victimPodPriority")
            return [task for task in tasks if task.pod.spec.priority == expected]

        return Hooks(enqueueable=enqueueable, task_filter=filter_, shuffle_victims=victims)

    return open_stub


@dataclass
class Outcome:
    plan: SchedulingPlan
    snapshot: SchedulerSnapshot


def run(case: Case) -> Outcome:
    snapshot = snapshot_of(case)
    plugins = {**PLUGINS, "stub": stub_of(case.get("stubs", {}))}
    return Outcome(run_cycle(snapshot, config_of(case), plugins=plugins), snapshot)


def run_next(case: Case, before: Outcome) -> Outcome:
    """Runs a second cycle on the snapshot of the first, whose bindings are under way."""
    snapshot, following = before.snapshot, case["nextCycle"]
    for key, status in before.plan.groups.items():
        snapshot.set_phase(snapshot.jobs[key], status.phase)
    for row in following.get("addPodGroups", ()):
        snapshot.put_group(group_of(row))
    for row in following.get("addPods", ()):
        snapshot.put_pod(pod_of(row))
    config = config_of({**case, "actions": following.get("actions", case["actions"])})
    return Outcome(run_cycle(snapshot, config), snapshot)


def differences(case: Case, expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    plan = outcome.plan
    facts: dict[str, Any] = {
        "binds": {task.key: node for task, node in plan.binds.items()},
        "bindCount": len(plan.binds),
        "bindsPerGroup": _per_group(plan),
        "bindsPerHyperNode": _per_hyper_node(case, plan),
        "evicts": sorted(eviction.task.key for eviction in plan.evictions),
        "evictCount": len(plan.evictions),
    }
    expected = {key: expect.get(key, actual) for key, actual in facts.items()}
    expected["evicts"] = sorted(expected["evicts"])
    per_domain = expected["bindsPerHyperNode"]
    counts = per_domain.values() if isinstance(per_domain, dict) else per_domain
    expected["bindsPerHyperNode"] = sorted(counts)
    expected["bindsPerGroup"] = {
        _full(case, name): n for name, n in expected["bindsPerGroup"].items() if n
    }
    wrong = [
        f"{key}: want {expected[key]}, got {actual}"
        for key, actual in facts.items()
        if expected[key] != actual
    ]
    for name, nodes in expect.get("pipelined", {}).items():
        mine = _promised(plan, _full(case, name))
        if not mine or (nodes and not mine <= set(nodes)):
            wrong.append(f"pipelined {name}: want {nodes}, got {sorted(mine)}")
    wrong += [
        f"pipelined {name}: want none"
        for name in expect.get("notPipelined", ())
        if _promised(plan, _full(case, name))
    ]
    for name, phase in expect.get("phases", {}).items():
        actual = plan.groups[_full(case, name)].phase.value
        if phase != actual:
            wrong.append(f"phase of {name}: want {phase}, got {actual}")
    return wrong + _more_differences(case, expect, outcome)


def _more_differences(case: Case, expect: Mapping[str, Any], outcome: Outcome) -> list[str]:
    wrong = []
    for name, held in expect.get("allocatedByGroup", {}).items():
        allocated = outcome.snapshot.jobs[_full(case, name)].allocated
        actual = dict(zip(("cpu_milli", "memory", "pods"), allocated[:3].tolist(), strict=True))
        if actual != held:
            wrong.append(f"held by {name}: want {held}, got {actual}")
    for name, counts in expect.get("taskStatusCounts", {}).items():
        tally = outcome.snapshot.jobs[_full(case, name)].counts
        actual = {s.label: tally[s] for s in TaskStatus if tally[s]}
        if actual != counts:
            wrong.append(f"statuses of {name}: want {counts}, got {actual}")
    return wrong


def _per_group(plan: SchedulingPlan) -> dict[str, int]:
    counts: dict[str, int] = {}
    for task in plan.binds:
        assert task.job is not None
        counts[task.job.key] = counts.get(task.job.key, 0) + 1
    return counts


def _per_hyper_node(case: Case, plan: SchedulingPlan) -> list[int]:
    """Returns how many binds each tier-1 HyperNode got, without saying which."""
    lowest = {
        member: row["name"]
        for row in case.get("hyperNodes", ())
        if row["tier"] == 1
        for member in row["members"]
    }
    counts: dict[str | None, int] = {}
    for node in plan.binds.values():
        counts[lowest.get(node)] = counts.get(lowest.get(node), 0) + 1
    return sorted(counts.values())


def _promised(plan: SchedulingPlan, group: str) -> set[str]:
    return {node for task, node in plan.pipelined.items() if task.job and task.job.key == group}


def _full(case: Case, name: str) -> str:
    if "/" in name:
        return name
    groups = [*case["podGroups"], *case.get("nextCycle", {}).get("addPodGroups", ())]
    return next(f"{g['namespace']}/{g['name']}" for g in groups if g["name"] == name)
