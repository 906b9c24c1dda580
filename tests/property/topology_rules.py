"""The rules of network topology written down plainly, for gangs of equal pods on small trees.

Every step of an allocation is repeated here with dictionaries and loops: which HyperNodes count,
which domains a gang may use and in which order, what each scores, which sub-group comes first, and
which node each pod takes. Nothing is kept from one step to the next, so nothing can be stale.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from tests.property.plain_tree import ROOT, Row, tree_of

DIGITS = 9  # to which scores are compared
CPU, MEMORY = 0, 1


@dataclass
class Pod:
    name: str
    part: tuple[int, str]  # the place of its policy and its value; (-1, "") without a policy
    node: str


@dataclass
class Gang:
    name: str
    least: int
    topology: Row | None
    policies: list[Row]
    pods: list[Pod]
    request: tuple[float, float]
    asked: tuple[float, float] | None  # minResources
    runs: bool = False  # some of its pods ran at the beginning

    def of(self, part: tuple[int, str] | None) -> list[Pod]:
        return [pod for pod in self.pods if part is None or pod.part == part]

    def parts(self) -> list[tuple[int, str]]:
        return sorted({pod.part for pod in self.pods})

    def size(self, part: tuple[int, str]) -> int:
        return 1 if part[0] < 0 else int(self.policies[part[0]].get("subGroupSize", 1))

    def shortfall(self, part: tuple[int, str] | None) -> int:
        if part is not None:
            return max(self.size(part) - _standing(self.of(part)), 0)
        if any(self.lacking(place) for place in range(len(self.policies))):
            return 1 << 30
        return max(self.least - _standing(self.pods), 0)

    def lacking(self, place: int) -> int:
        """How many sub-groups of a policy have to become ready."""
        ready = sum(not self.shortfall(one) for one in self.parts() if one[0] == place)
        return max(int(self.policies[place].get("minSubGroups", 0)) - ready, 0)

    def is_valid(self) -> bool:
        enough = all(
            sum(one[0] == place for one in self.parts()) >= policy.get("minSubGroups", 0)
            for place, policy in enumerate(self.policies)
        )
        return enough and len(self.pods) >= self.least


def _standing(pods: list[Pod]) -> int:
    return sum(bool(pod.node) for pod in pods)


class Allocation:
    """The allocation of some gangs, one pass after the other."""

    def __init__(self, case: Row, gangs: list[Gang]) -> None:
        self.tree = tree_of(case)
        self.has_tree = bool(case["hyperNodes"])
        self.size = {row["name"]: row["size"] for row in case["nodes"]}
        self.gangs = gangs

    def run(self) -> dict[str, str]:
        """Returns the nodes of all pods that got one."""
        before = {pod.name for gang in self.gangs for pod in gang.pods if pod.node}
        for gang in self.gangs:
            gang.runs = any(pod.node for pod in gang.pods)
        waiting = [gang for gang in self.gangs if gang.is_valid() and self._pending(gang, None)]
        while waiting:
            gang = min(waiting, key=self._turn)
            waiting.remove(gang)
            if self._serve(gang) and not gang.shortfall(None):
                waiting += [gang] if self._pending(gang, None) else []
        return {
            pod.name: pod.node
            for gang in self.gangs
            for pod in gang.pods
            if pod.node and pod.name not in before
        }

    def _turn(self, gang: Gang) -> tuple[bool, bool, str]:
        lost = gang.runs and _standing(gang.pods) < gang.least
        return (not lost, not gang.shortfall(None), gang.name)

    def _pending(self, gang: Gang, part: tuple[int, str] | None) -> list[Pod]:
        return [pod for pod in gang.of(part) if not pod.node]

    def _serve(self, gang: Gang) -> bool:
        """Serves a gang once; whether it got something and is ready. Otherwise nothing is left."""
        if gang.policies:
            return self._serve_parts(gang)
        if gang.topology is None:
            return self._place(gang, None, ROOT)
        limit = self._limit(gang.topology)
        return self._into_best(gang, None, ROOT, limit, self._holds_minimum(gang)) is not None

    def _serve_parts(self, gang: Gang) -> bool:
        limit = self._limit(gang.topology)
        held = None if limit is None else self._held(gang, None)
        for tier in self._gradients(limit, ROOT, held):
            best: tuple[float, dict[str, str]] | None = None
            for domain in tier:
                if limit is not None and held is None and not self._holds_minimum(gang)(domain):
                    continue
                before = {pod.name: pod.node for pod in gang.pods}
                score = self._try_parts(gang, domain)
                placed = {pod.name: pod.node for pod in gang.pods}
                self._set(gang, before)
                if score is not None and (best is None or score > best[0]):
                    best = (score, placed)
            if best is not None:
                self._set(gang, best[1])
                return True
        return False

    def _try_parts(self, gang: Gang, inside: str) -> float | None:
        total, waiting = 0.0, self._in_order(gang, gang.parts())
        while waiting:
            part = waiting.pop(0)
            score = self._into_best(gang, part, inside, self._part_limit(gang, part))
            if score is None:
                continue
            total += score
            if not gang.shortfall(None):
                return total
            if self._pending(gang, part):
                waiting = self._in_order(gang, [*waiting, part])
        return None

    def _in_order(self, gang: Gang, parts: list[tuple[int, str]]) -> list[tuple[int, str]]:
        def key(part: tuple[int, str]) -> tuple[bool, int, str]:
            number = int(part[1]) if part[1].isdecimal() else 0
            name = "default" if part[0] < 0 else gang.policies[part[0]]["name"]
            return (not gang.shortfall(part), number, f"{name}-{part[1]}" if part[1] else name)

        lacking = {place: gang.lacking(place) for place in range(len(gang.policies))}
        needed, others = [], []
        for part in sorted((p for p in parts if self._pending(gang, p)), key=key):
            if gang.shortfall(part) and lacking.get(part[0], 0) > 0:
                lacking[part[0]] -= 1
                needed.append(part)
            else:
                others.append(part)
        return needed + others

    def _into_best(
        self,
        gang: Gang,
        part: tuple[int, str] | None,
        inside: str,
        limit: int | None,
        admits: Callable[[str], bool] = lambda _: True,
    ) -> float | None:
        """Places a part in the best domain of the closest tier that takes it; returns its score."""
        held = None if limit is None else self._held(gang, part)
        for tier in self._gradients(limit, inside, held):
            scores, shares = self._domain_scores(gang, part)
            for domain in sorted(tier, key=lambda one: (-scores[one], -shares[one], one)):
                if held is None and limit is not None and not admits(domain):
                    continue
                below = set(self.tree.below(domain)) - {domain}
                # A domain below may take the pods and not hold the minimum that the group says.
                if held is None and limit is not None and not all(map(admits, below)):
                    if self._into_best(gang, part, domain, limit) is not None:
                        return scores[domain] + shares[domain]
                elif self._place(gang, part, domain):
                    return scores[domain] + shares[domain]
        return None

    def _place(self, gang: Gang, part: tuple[int, str] | None, domain: str) -> bool:
        """Places pods of a part until it is ready, one if it is already; else leaves no trace."""
        before = {pod.name: pod.node for pod in gang.pods}
        was_ready = not gang.shortfall(part)
        for pod in self._pending(gang, part):
            free = [n for n in sorted(self.tree.nodes[domain]) if self._fits(gang, n)]
            if not free:
                break
            scores = self._node_scores(gang, part)
            pod.node = min(free, key=lambda one: (-scores[one], one))
            if was_ready or not gang.shortfall(part):
                return True
        self._set(gang, before)
        return False

    def _set(self, gang: Gang, nodes: dict[str, str]) -> None:
        for pod in gang.pods:
            pod.node = nodes[pod.name]

    # --- limits and domains

    def _limit(self, topology: Row | None) -> int | None:
        if topology is None:
            return None
        if topology["mode"] == "soft":
            return self.tree.tiers[ROOT]
        if "highestTier" in topology:
            return int(topology["highestTier"])
        return self.tree.names.get(topology.get("highestTierName", ""))

    def _part_limit(self, gang: Gang, part: tuple[int, str]) -> int | None:
        of_gang = self._limit(gang.topology)
        if part[0] < 0:
            return of_gang
        topology = gang.policies[part[0]].get("topology")
        if topology is not None and topology["mode"] == "soft" and of_gang is not None:
            return of_gang
        return self._limit(topology)

    def _held(self, gang: Gang, part: tuple[int, str] | None) -> str | None:
        nodes = {pod.node for pod in gang.of(part) if pod.node}
        return self.tree.holding(nodes) if nodes else None

    def _gradients(self, limit: int | None, inside: str, held: str | None) -> list[list[str]]:
        if limit is None:
            return [[inside]]
        base = inside
        if held is not None:
            around = [one for one in self.tree.above(held) if self.tree.tiers[one] <= limit]
            if not around:
                return []
            base = around[-1]
            if base not in self.tree.below(inside):
                if inside not in self.tree.below(base):
                    return []
                base = inside
        found = [one for one in self.tree.below(base) if self.tree.tiers[one] <= limit]
        tiers = sorted({self.tree.tiers[one] for one in found})
        return [[one for one in found if self.tree.tiers[one] == tier] for tier in tiers]

    # --- room

    def _used(self, node: str) -> tuple[float, float]:
        there = [g.request for g in self.gangs for pod in g.pods if pod.node == node]
        return (sum(r[CPU] for r in there), sum(r[MEMORY] for r in there))

    def _fits(self, gang: Gang, node: str) -> bool:
        used = self._used(node)
        return all(used[k] + gang.request[k] <= self.size[node][k] for k in (CPU, MEMORY))

    def _holds_minimum(self, gang: Gang) -> Callable[[str], bool]:
        held = _standing(gang.pods)

        def holds(domain: str) -> bool:
            if gang.asked is None:
                return True
            for k in (CPU, MEMORY):
                nodes = self.tree.nodes[domain]
                idle = sum(self.size[n][k] - self._used(n)[k] for n in nodes)
                if max(gang.asked[k] - held * gang.request[k], 0) > idle:
                    return False
            return True

        return holds

    # --- scores

    def _domain_scores(
        self, gang: Gang, part: tuple[int, str] | None
    ) -> tuple[dict[str, float], dict[str, float]]:
        """The scores of domains, and the share of the pods in each."""
        pods = gang.of(part)
        n_waiting = len(pods) - _standing(pods)
        request = (gang.request[CPU] * n_waiting, gang.request[MEMORY] * n_waiting)
        scores = {one: round(self._pack(one, request), DIGITS) for one in self.tree.tiers}
        there = {
            one: sum(pod.node in self.tree.nodes[one] for pod in pods) / len(pods)
            for one in self.tree.tiers
        }
        nothing = dict.fromkeys(scores, 0.0)
        return (scores, there) if self.has_tree else (nothing, nothing)

    def _pack(self, domain: str, request: tuple[float, float]) -> float:
        total = 0.0
        for k in (CPU, MEMORY):
            has = sum(self.size[node][k] for node in self.tree.nodes[domain])
            asked = request[k] + sum(self._used(node)[k] for node in self.tree.nodes[domain])
            share = asked / has if has else float(asked > 0) * 9
            if share > 1 + 1e-9:
                return 0.0
            total += share / 2
        return total

    def _node_scores(self, gang: Gang, part: tuple[int, str] | None) -> dict[str, float]:
        if not self.has_tree:
            return dict.fromkeys(self.size, 0.0)
        limit = self._limit(gang.topology) if part is None else self._part_limit(gang, part)
        if limit is None:
            return {node: round(self._normal(gang, node), DIGITS) for node in self.size}
        held = self._held(gang, part)
        if held is None:
            return dict.fromkeys(self.size, 0.0)
        tree = self.tree
        top, low = tree.tiers[ROOT], tree.lowest
        scores: dict[str, float] = {}
        for node in self.size:
            leaf = tree.leaf(node)
            near = 1.0 if leaf == held or top == low else 0.0
            if not near:
                near = (top - tree.tiers[tree.common(leaf, held)]) / (top - low)
            scores[node] = 0.0 if leaf == ROOT else round(near, DIGITS)
        pods = gang.of(part)
        there = {
            node: sum(bool(p.node) and tree.leaf(p.node) == tree.leaf(node) for p in pods)
            for node in self.size
        }
        there = {node: n if tree.leaf(node) != ROOT else 0 for node, n in there.items()}
        return _with_shares(scores, there, len(pods))

    def _normal(self, gang: Gang, node: str) -> float:
        total = weights = 0.0
        for tier in range(self.tree.lowest, self.tree.tiers[ROOT] + 1):
            weight = 0.8 ** (tier - 1)
            at = next(
                (
                    one
                    for one, t in self.tree.tiers.items()
                    if t == tier and node in self.tree.nodes[one]
                ),
                None,
            )
            total += weight * (1.0 if at is None else self._pack(at, gang.request))
            weights += weight
        return total / weights


def _with_shares(scores: dict[str, float], there: dict[str, int], n: int) -> dict[str, float]:
    best = max(scores.values())
    return {
        one: score + there[one] / n if score == best else score for one, score in scores.items()
    }
