"""Rules of roles: what one allows, and whether some cover another."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from swell.cluster.embedded.access.attributes import RequestAttributes
from swell.cluster.embedded.access.policyrules import (
    INDEXED_SINGLES_MAX,
    PolicyRule,
    RuleIndex,
    TooManyPermissionsError,
    missing_rules,
)


def rule(
    groups: str = "",
    resources: str = "pods",
    verbs: str = "get",
    names: tuple[str, ...] = (),
    paths: tuple[str, ...] = (),
) -> PolicyRule:
    """A rule of lists that are written with commas; the core group is written as `core`."""
    given = {
        "apiGroups": [g.replace("core", "") for g in groups.split(",")] if groups else [],
        "resources": resources.split(",") if groups else [],
        "verbs": verbs.split(","),
        "resourceNames": list(names),
        "nonResourceURLs": list(paths),
    }
    return PolicyRule.of(given)


def wanted(verb: str, resource: str, group: str = "", name: str = "") -> RequestAttributes:
    plural, _, part = resource.partition("/")
    return RequestAttributes(verb, group, plural, part, "default", name)


def indexed(rules: list[PolicyRule]) -> RuleIndex:
    """The index of the same rules."""
    return RuleIndex(
        {
            "apiGroups": sorted(one.groups),
            "resources": sorted(one.resources),
            "verbs": sorted(one.verbs),
            "resourceNames": sorted(one.names),
            "nonResourceURLs": sorted(one.paths),
        }
        for one in rules
    )


@pytest.mark.parametrize(
    ("given", "asked", "allowed"),
    [
        (rule("core"), wanted("get", "pods"), True),
        (rule("core"), wanted("list", "pods"), False),
        (rule("core"), wanted("get", "pods", "apps"), False),
        (rule("core"), wanted("get", "pods/log"), False),
        (rule("core", "pods/log"), wanted("get", "pods"), False),
        (rule("core", "*"), wanted("get", "pods/log"), True),
        (rule("apps", "*/scale"), wanted("get", "replicasets/scale", "apps"), True),
        (rule("apps", "*/scale"), wanted("get", "replicasets/status", "apps"), False),
        (rule("apps", "*/scale"), wanted("get", "scale", "apps"), False),
        (rule("*", "*", "*"), wanted("watch", "things", "x.example"), True),
        (rule("core", names=("a",)), wanted("get", "pods", name="a"), True),
        (rule("core", names=("a",)), wanted("get", "pods", name="b"), False),
        (rule("core", names=("a",)), wanted("get", "pods"), False),
        (rule("*", "*", "*"), RequestAttributes("get", path="/metrics"), False),
        (rule(paths=("/metrics",)), RequestAttributes("get", path="/metrics"), True),
        (rule(paths=("/metrics",)), RequestAttributes("get", path="/metrics/x"), False),
        (rule(paths=("/swell/*",)), RequestAttributes("get", path="/swell/backup"), True),
        (rule(paths=("/swell/*",)), RequestAttributes("get", path="/swell"), False),
        (rule(paths=("*",)), RequestAttributes("put", path="/x"), False),
        (rule(paths=("*",), verbs="*"), wanted("get", "pods"), False),
    ],
)
def test_rule_allows(given: PolicyRule, asked: RequestAttributes, allowed: bool) -> None:
    """Verb, group, resource with its part, name and path must all fit."""
    assert given.allows(asked) is allowed
    assert indexed([given]).allows(asked) is allowed
    assert indexed([rule("x", "y", "z", ("n",)), given]).allows(asked) is allowed


@pytest.mark.parametrize(
    ("held", "asked", "missing"),
    [
        ([rule("core", verbs="get,list")], rule("core"), []),
        ([rule("core"), rule("core", verbs="list")], rule("core", verbs="get,list"), []),
        ([rule("*", "*", "*")], rule("core,apps", "a,b", "x,y"), []),
        ([rule("*", "*", "*")], rule(paths=("/x",)), ["/x"]),
        ([rule(paths=("/a*",))], rule(paths=("/a/*", "/ab")), []),
        ([rule(paths=("/a/*",))], rule(paths=("/a*",)), ["/a*"]),
        ([rule(paths=("/a",))], rule(paths=("*",)), ["*"]),
        ([rule("core", names=("a",))], rule("core"), ["pods"]),
        ([rule("core", names=("a",))], rule("core", names=("a", "b")), ["pods"]),
        ([rule("core")], rule("core", names=("a", "b")), []),
        ([rule("core", "*/log")], rule("core", "pods/log"), []),
        ([rule("core")], rule("core", "*"), ["*"]),
        ([rule("core", "pods,nodes", "get,list")], rule("*", "pods", "get"), ["pods"]),
        ([], rule("core"), ["pods"]),
    ],
)
def test_missing_rules(held: list[PolicyRule], asked: PolicyRule, missing: list[str]) -> None:
    """A permission that no held rule covers is missing, with all its verbs in one."""
    found = missing_rules([indexed(held)], [asked])

    assert [next(iter(one.resources or one.paths)) for one in found] == missing


def test_text_of_a_rule() -> None:
    """A missing permission is written as a real server writes it."""
    shown = str(rule("core,apps", "pods", "list,get", names=("a",)))

    assert shown == (
        '{APIGroups:["" "apps"], Resources:["pods"], ResourceNames:["a"], Verbs:["get" "list"]}'
    )


def test_rules_of_very_many_permissions_are_not_compared() -> None:
    """A role of a few hundred words could otherwise hold up the server for minutes."""
    many = ",".join(f"x{n}" for n in range(100))
    with pytest.raises(TooManyPermissionsError):
        missing_rules([indexed([rule("core")])], [rule(many, many, many)])


def test_index_answers_as_the_rules_do() -> None:
    """Rules drawn from few words, so that many of them nearly fit; some too broad for sets."""
    rng = random.Random(7)
    words = ("a", "b", "*", "a/x", "*/x", "", "a*")
    broad = [f"w{n}" for n in range(INDEXED_SINGLES_MAX)]

    def some(most: int = 2) -> list[str]:
        return rng.sample(words, rng.randint(0, most))

    for _ in range(3_000):
        bodies = [
            {
                "verbs": some() + (broad if rng.random() < 0.1 else []),
                "apiGroups": some(),
                "resources": some(),
                "resourceNames": some(1),
                "nonResourceURLs": some(),
            }
            for _ in range(3)
        ]
        rules, index = [PolicyRule.of(body) for body in bodies], RuleIndex(bodies)
        verb, group, name = rng.choice(words), rng.choice(words), rng.choice(words)
        resource, _, part = rng.choice(words).partition("/")
        asked = RequestAttributes(verb, group, resource, part, "n", name, path=rng.choice(words))
        assert index.allows(asked) is any(one.allows(asked) for one in rules), (bodies, asked)
        single = PolicyRule(frozenset({verb}), frozenset({group}), frozenset({resource or "b"}))
        single = replace(single, names=frozenset({name} if rng.random() < 0.5 else ()))
        if rng.random() < 0.3:
            single = PolicyRule(frozenset({verb}), paths=frozenset({name}))
        assert index.covers(single) is any(one.covers(single) for one in rules), (bodies, single)
