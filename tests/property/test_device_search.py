"""Random problems about devices against a plain reference, which tries every choice there is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest

from swell.scheduler.plan import plan_schedule
from tests.device_objects import devices_of, objects_of
from tests.device_problems import Body, DeviceProblem, Facts, a_problem, selectors

N_PROBLEMS = 300
Result = tuple[str, str, str]  # request, pool and device


def facts(device: Body) -> Facts:
    found: Facts = {
        name: next(iter(value.values())) for name, value in device["attributes"].items()
    }
    found["version"] = int(found["version"][0])
    found["memory"] = int(device["capacity"]["memory"]["value"].removesuffix("Gi"))
    return found


def tolerated(device: Body, way: Body) -> bool:
    def holds(toleration: Body, taint: Body) -> bool:
        is_any = toleration["operator"] == "Exists"
        return bool(
            toleration["key"] == taint["key"] and (is_any or toleration["value"] == taint["value"])
        )

    return all(
        taint["effect"] == "None" or any(holds(one, taint) for one in way.get("tolerations", ()))
        for taint in device.get("taints", ())
    )


class Reference:
    """Enumerates all choices for a problem on its node, in order, and checks each as a whole."""

    def __init__(self, problem: DeviceProblem) -> None:
        self.problem = problem
        self.meaning = dict(selectors(problem.driver))
        self.devices: list[tuple[str, Body]] = []
        self.is_incomplete = False
        self.sets: dict[str, int] = {}
        for pool in sorted({one["spec"]["pool"]["name"] for one in problem.slices}):
            self._add_pool(pool)

    def _add_pool(self, pool: str) -> None:
        of_pool = [one for one in self.problem.slices if one["spec"]["pool"]["name"] == pool]
        highest = max(one["spec"]["pool"]["generation"] for one in of_pool)
        current = [one for one in of_pool if one["spec"]["pool"]["generation"] == highest]
        current.sort(key=lambda one: one["metadata"]["name"])
        node = self.problem.node
        visible = [one for one in current if one["spec"].get("nodeName", node) == node]
        if not visible:
            return
        if len(current) != current[0]["spec"]["pool"]["resourceSliceCount"]:
            self.is_incomplete = True
            return
        for one in visible:
            for counters in one["spec"].get("sharedCounters", ()):
                self.sets[pool] = int(counters["counters"]["memory"]["value"].removesuffix("Gi"))
            self.devices += [(pool, device) for device in one["spec"].get("devices", ())]

    def solution(self) -> list[list[Result]] | None:
        requests = [
            (at, request)
            for at, claim in enumerate(self.problem.claims)
            for request in claim["spec"]["devices"]["requests"]
        ]
        ways = [self._ways(request) for _, request in requests]
        if any(w["allocationMode"] == "All" for way in ways for _, w in way) and self.is_incomplete:
            return None
        for chosen in self._choices(ways):
            picked = [(at, *one) for (at, _), one in zip(requests, chosen, strict=True)]
            if self._holds(picked):
                return [
                    [
                        (name, pool, device["name"])
                        for at, name, _, devices in picked
                        if at == claim
                        for pool, device in devices
                    ]
                    for claim in range(len(self.problem.claims))
                ]
        return None

    def _ways(self, request: Body) -> list[tuple[str, Body]]:
        if "exactly" in request:
            return [(request["name"], request["exactly"])]
        return [(f"{request['name']}/{one['name']}", one) for one in request["firstAvailable"]]

    def _choices(self, ways: list[list[tuple[str, Body]]]) -> Iterator[list[Any]]:
        """Yields every choice of a way and its devices for each request, the first varying last."""
        if not ways:
            yield []
            return
        for name, way in ways[0]:
            fitting = [one for one in self.devices if self._is_selected(one[1], way)]
            sets: Any = combinations(fitting, way.get("count", 1))
            if way["allocationMode"] == "All":
                sets = [tuple(fitting)] if fitting else []
            for devices in sets:
                if all(self._is_usable(one, way) for one in devices):
                    for rest in self._choices(ways[1:]):
                        yield [(name, way, devices), *rest]

    def _is_selected(self, device: Body, way: Body) -> bool:
        return all(
            self.meaning[one["cel"]["expression"]](facts(device))
            for one in way.get("selectors", ())
        )

    def _is_usable(self, one: tuple[str, Body], way: Body) -> bool:
        pool, device = one
        is_used = (pool, device["name"]) in self.problem.used
        return tolerated(device, way) and (bool(way.get("adminAccess")) or not is_used)

    def _holds(self, picked: list[Any]) -> bool:
        taken: dict[tuple[str, str], list[int]] = {}
        for at, _, way, devices in picked:
            for pool, device in devices:
                claims = taken.setdefault((pool, device["name"]), [])
                # Order matters with admin access: it looks over its own claim only.
                if at in claims if way.get("adminAccess") else claims:
                    return False
                claims.append(at)
        return self._counters_hold(picked) and all(
            self._constraints_hold(claim, [one for one in picked if one[0] == at])
            for at, claim in enumerate(self.problem.claims)
        )

    def _counters_hold(self, picked: list[Any]) -> bool:
        def size(device: Body) -> int:
            consumed = device.get("consumesCounters", ())
            amounts = [c["counters"]["memory"]["value"].removesuffix("Gi") for c in consumed]
            return sum(map(int, amounts))

        left = dict(self.sets)
        for pool, device in self.devices:
            if pool in left and (pool, device["name"]) in self.problem.used:
                left[pool] -= size(device)
        for _, _, _, devices in picked:
            for pool, device in devices:
                if size(device):
                    left[pool] -= size(device)
                    if left[pool] < 0:
                        return False
        return True

    def _constraints_hold(self, claim: Body, picked: list[Any]) -> bool:
        for constraint in claim["spec"]["devices"].get("constraints", ()):
            about = constraint["requests"]
            key = (constraint.get("matchAttribute") or constraint["distinctAttribute"]).split("/")[
                1
            ]
            values = [
                device["attributes"].get(key)
                for _, name, _, devices in picked
                if not about or name in about or name.split("/")[0] in about
                for _, device in devices
            ]
            if None in values:
                return False
            n_different = len({repr(value) for value in values})
            if "matchAttribute" in constraint:
                if n_different > 1:
                    return False
            elif n_different < len(values):
                return False
        return True


def ours(problem: DeviceProblem) -> list[list[Result]] | None:
    return devices_of(plan_schedule(objects_of(problem)), problem)


@pytest.mark.parametrize("part", range(4))
def test_devices_are_those_of_the_plain_reference(part: int) -> None:
    """The first full solution in order is found, and none where there is none."""
    n_found = 0
    for number in range(part, N_PROBLEMS, 4):
        problem = a_problem(number, has_distinct=True, has_reach=False)
        expected = Reference(problem).solution()
        n_found += expected is not None

        assert ours(problem) == expected, f"problem {number}"
    assert n_found > N_PROBLEMS / 4 / 4
