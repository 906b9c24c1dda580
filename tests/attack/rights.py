"""Attacks by roles, bindings and reviews: their number, their size, how often they are asked."""

from __future__ import annotations

import json
import secrets
from typing import Any

from tests.attack.harness import Attack, Target, at_once
from tests.attack.payloads import MERGE_PATCH
from tests.contract.raw import Raw

RBAC = "/apis/rbac.authorization.k8s.io/v1"
ACCESS_REVIEWS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
RULES_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
TOKEN_REVIEWS = "/apis/authentication.k8s.io/v1/tokenreviews"
CROWD = {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "crowd"}


def _object(kind: str, name: str, **more: Any) -> dict[str, Any]:
    api = "rbac.authorization.k8s.io/v1"
    return {"apiVersion": api, "kind": kind, "metadata": {"name": name}, **more}


def _rules(count: int) -> list[dict[str, Any]]:
    return [{"verbs": ["get"], "apiGroups": ["e.x"], "resources": [f"r{n}"]} for n in range(count)]


def _bind(target: Target, name: str, role: str, subjects: list[dict[str, str]]) -> None:
    reference = {"apiGroup": CROWD["apiGroup"], "kind": "ClusterRole", "name": role}
    body = _object("ClusterRoleBinding", name, roleRef=reference, subjects=subjects)
    target.ask("POST", f"{RBAC}/clusterrolebindings", body)


def access_review(resource: str, **spec: Any) -> dict[str, Any]:
    wanted = {"verb": "get", "group": "e.x", "resource": resource, "namespace": "default"}
    head = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview"}
    return {**head, "spec": {"resourceAttributes": wanted, **spec}}


def _remove(target: Target, kind: str, names: list[str]) -> None:
    for name in names:
        target.ask("DELETE", f"{RBAC}/{kind}/{name}")


def _large_roles(target: Target) -> None:
    """Questions about a group that has hundreds of thousands of rules, none of which fits."""
    names = [f"wide{n}" for n in range(40)]
    for name in names:
        body = _object("ClusterRole", name, rules=_rules(9_000))
        target.ask("POST", f"{RBAC}/clusterroles", body)
        _bind(target, name, name, [CROWD])
    for n in range(20):
        target.ask("POST", ACCESS_REVIEWS, access_review(f"none{n}", groups=["crowd"]))
    for name in names[:5]:
        change = {"metadata": {"labels": {"a": "b"}}}
        target.ask("PATCH", f"{RBAC}/clusterroles/{name}", change, {**MERGE_PATCH})
        target.ask("POST", ACCESS_REVIEWS, access_review("r8999", groups=["crowd"]))
    _remove(target, "clusterrolebindings", names)
    _remove(target, "clusterroles", names)


def _many_bindings(target: Target) -> None:
    """A group with thousands of bindings, to roles that there are not."""
    names = [f"lost{n}" for n in range(2_000)]
    for name in names:
        _bind(target, name, f"missing-{name}", [CROWD])
    for n in range(20):
        target.ask("POST", ACCESS_REVIEWS, access_review(f"none{n}", groups=["crowd"]))
    target.ask("DELETE", f"{RBAC}/clusterrolebindings?fieldSelector=metadata.name%3Dlost0")
    _remove(target, "clusterrolebindings", names[1:])


def _many_subjects(target: Target) -> None:
    """A binding with tens of thousands of subjects, which changes again and again."""
    subjects = [{**CROWD, "name": f"s{n}"} for n in range(12_000)]
    _bind(target, "wide", "view", subjects)
    for turn in range(6):
        change = {"subjects": subjects[turn:]}
        address = f"{RBAC}/clusterrolebindings/wide"
        target.ask("PATCH", address, change, {**MERGE_PATCH})
    groups = [f"s{n}" for n in range(12_000)]
    target.ask("POST", ACCESS_REVIEWS, access_review("pods", groups=groups))
    _remove(target, "clusterrolebindings", ["wide"])


def _aggregated(target: Target) -> None:
    """Roles that are the sum of others, with many selectors and patterns of names."""
    selectors = [{"matchLabels": {f"k{n}": "v"}} for n in range(3_000)]
    body = _object("ClusterRole", "sum", aggregationRule={"clusterRoleSelectors": selectors})
    target.ask("POST", f"{RBAC}/clusterroles", body)
    names = [f"n{n}" for n in range(40_000)]
    rule = {"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": names}
    target.ask("POST", f"{RBAC}/clusterroles", _object("ClusterRole", "names", rules=[rule]))
    urls = {"verbs": ["get"], "nonResourceURLs": [f"/{'a' * 20}{n}/*" for n in range(20_000)]}
    target.ask("POST", f"{RBAC}/clusterroles", _object("ClusterRole", "urls", rules=[urls]))
    _bind(target, "urls", "urls", [CROWD])
    path = {"verb": "get", "path": "/" + "a" * 5_000}
    review = access_review("x", groups=["crowd"])
    review["spec"].pop("resourceAttributes")
    for _ in range(10):
        review["spec"]["nonResourceAttributes"] = path
        target.ask("POST", ACCESS_REVIEWS, review)
    _remove(target, "clusterrolebindings", ["urls"])
    _remove(target, "clusterroles", ["sum", "names", "urls"])


def _floods(target: Target) -> None:
    """Thousands of small questions on several connections at once."""
    head = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview"}
    rules = json.dumps({**head, "spec": {"namespace": "default"}}).encode()
    access = json.dumps(access_review("pods", user="somebody")).encode()

    def send(raw: Raw) -> None:
        for _ in range(300):
            raw.ask("POST", ACCESS_REVIEWS, access)
            raw.ask("POST", RULES_REVIEWS, rules)

    at_once(target, 8, send)


def _guessed_tokens(target: Target) -> None:
    """Tokens that are guessed, long, or of another form, in headers and in reviews."""
    made = [secrets.token_urlsafe(32) for _ in range(300)]
    made += ["a." * 3_000, "x" * 7_000, ".".join(["e30"] * 3), "\x7f", "Bearer x", " "]

    def send(raw: Raw) -> None:
        for token in made:
            raw.ask("GET", "/api/v1/pods", None, {"Authorization": f"Bearer {token}"})
            head = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview"}
            raw.ask("POST", TOKEN_REVIEWS, json.dumps({**head, "spec": {"token": token}}).encode())

    at_once(target, 4, send)


ATTACKS: dict[str, Attack] = {
    "roles of hundreds of thousands of rules": _large_roles,
    "thousands of bindings of one group": _many_bindings,
    "a binding of thousands of subjects": _many_subjects,
    "roles that are sums": _aggregated,
    "floods of reviews": _floods,
    "guessed tokens": _guessed_tokens,
}
