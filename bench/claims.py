"""What volumes and devices cost gangs that have no claims on any.

`run` returns ratios of a cycle over the same pods and nodes: with all rules about claims, in a
cluster full of volumes and devices of others, over one without these rules and objects. Rounds of
both take turns, and the median counts, so a busy machine does little to it.
"""

from __future__ import annotations

import dataclasses
import time

from bench.budgets import Budget, at_most
from bench.devices import DRIVER, a_slice
from bench.scheduler import N_ROUNDS, whole_cluster
from swell.api import codec
from swell.api.devices import DeviceClass, ResourceSlice
from swell.api.meta import Body
from swell.api.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from swell.scheduler.config import DEFAULT, Arguments, Config
from swell.scheduler.cycle import run_cycle
from swell.scheduler.plan import SchedulerObjects

N_NODES = 1_000
N_PODS = 10_000
N_VOLUMES = 1_000  # half of them bound
TIMES = "cycle of 10,000 pods without claims (times without rules)"
ASKED: dict[str, Budget] = {TIMES: at_most(1.03)}
SWITCHES = ("predicate.VolumeBindingEnable", "predicate.DynamicResourceAllocationEnable")


def run() -> dict[str, float]:
    """Returns how much longer a cycle takes, by CPU time: the median of seven rounds."""
    without, config = whole_cluster(N_NODES, N_PODS), _without_rules()
    among = _among_claims()
    ratios = []
    for _ in range(N_ROUNDS):
        base_s = _cycle_s(without, config)
        ratios.append(_cycle_s(among, DEFAULT) / base_s)
    ratios.sort()
    return {
        TIMES: ratios[N_ROUNDS // 2],
        "the best round": ratios[0],
        "the worst round": ratios[-1],
    }


def _cycle_s(objects: SchedulerObjects, config: Config) -> float:
    snapshot = objects.snapshot()
    begun = time.process_time()
    plan = run_cycle(snapshot, config)
    spent_s = time.process_time() - begun
    if len(plan.binds) < N_PODS // 2:
        raise RuntimeError(f"{len(plan.binds)} of {N_PODS} pods are placed")
    return spent_s


def _without_rules() -> Config:
    """Returns the default without rules about claims: their arguments, and no other, are off."""
    off = Arguments(dict.fromkeys(SWITCHES, False))
    return dataclasses.replace(
        DEFAULT,
        tiers=tuple(
            tuple(
                dataclasses.replace(one, arguments=off) if one.name == "predicates" else one
                for one in tier
            )
            for tier in DEFAULT.tiers
        ),
    )


def _among_claims() -> SchedulerObjects:
    """Returns the cluster with volumes, claims and devices that none of its pods names."""
    found = whole_cluster(N_NODES, N_PODS)
    found.are_whole = True
    names = [node.metadata.name for node in found.nodes]
    found.resource_slices = [codec.convert(a_slice(name), ResourceSlice) for name in names]
    of_class: Body = {"metadata": {"name": DRIVER}, "spec": {}}
    found.device_classes = [codec.convert(of_class, DeviceClass)]
    storage: Body = {
        "metadata": {"name": "disks"},
        "provisioner": "disks.example.com",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    found.storage_classes = [codec.convert(storage, StorageClass)]
    found.volumes = [_volume(at, names[at % N_NODES]) for at in range(N_VOLUMES)]
    found.claims = [_claim(at) for at in range(N_VOLUMES // 2)]
    return found


def _volume(at: int, node: str) -> PersistentVolume:
    host = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    spec: Body = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "disks",
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [host]}]}},
    }
    if at < N_VOLUMES // 2:
        spec["claimRef"] = {"namespace": "others", "name": f"claim-{at}", "uid": f"uid-{at}"}
    status = {"phase": "Bound" if at < N_VOLUMES // 2 else "Available"}
    body = {"metadata": {"name": f"volume-{at}"}, "spec": spec, "status": status}
    return codec.convert(body, PersistentVolume)


def _claim(at: int) -> PersistentVolumeClaim:
    meta = {
        "name": f"claim-{at}",
        "namespace": "others",
        "uid": f"uid-{at}",
        "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
    }
    spec = {"volumeName": f"volume-{at}", "storageClassName": "disks"}
    return codec.convert({"metadata": meta, "spec": spec}, PersistentVolumeClaim)
