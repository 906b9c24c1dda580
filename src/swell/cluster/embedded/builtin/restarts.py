"""How containers are restarted, and how they are resized in place."""

from __future__ import annotations

from collections.abc import Iterator

from swell.api.meta import Body
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

RESIZABLE = ("cpu", "memory")
RESIZE_POLICIES = ("NotRequired", "RestartContainer")
RESTART_POLICIES = ("Always", "Never", "OnFailure")
RULE_ACTIONS = ("Restart", "RestartAllContainers")
RULE_OPERATORS = ("In", "NotIn")
# Kubernetes' limits of the rules of one container, and of the exit codes of one rule.
RULES_MAX = 20
CODES_MAX = 255


def restart_errors(container: Body, path: str) -> Iterator[FieldError]:
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules", ())
    if policy is not None and policy not in RESTART_POLICIES:
        yield field_errors.not_supported(f"{path}.restartPolicy", policy, RESTART_POLICIES)
    if policy is None and rules:
        detail = "must specify restartPolicy when restart rules are used"
        yield field_errors.required(f"{path}.restartPolicy", detail)
    if len(rules) > RULES_MAX:
        yield field_errors.too_many(f"{path}.restartPolicyRules", len(rules), RULES_MAX)
    for index, rule in enumerate(rules):
        yield from _rule_errors(rule, f"{path}.restartPolicyRules[{index}]")


def init_restart_errors(container: Body, path: str) -> Iterator[FieldError]:
    """The same of an init container, of whose rules none is looked at without a policy."""
    if container.get("restartPolicy") is not None:
        yield from restart_errors(container, path)
    elif container.get("restartPolicyRules"):
        detail = "must specify restartPolicy when restart rules are used"
        yield field_errors.required(f"{path}.restartPolicy", detail)


def _rule_errors(rule: Body, path: str) -> Iterator[FieldError]:
    action, codes = rule.get("action", ""), rule.get("exitCodes")
    if action not in RULE_ACTIONS:
        yield field_errors.not_supported(f"{path}.action", action, RULE_ACTIONS)
    if codes is None:
        yield field_errors.required(f"{path}.exitCodes", "must be specified")
        return
    operator, values = codes.get("operator", ""), codes.get("values", ())
    if operator not in RULE_OPERATORS:
        yield field_errors.not_supported(f"{path}.exitCodes.operator", operator, RULE_OPERATORS)
    if len(values) > CODES_MAX:
        yield field_errors.too_many(f"{path}.exitCodes.values", len(values), CODES_MAX)


def resize_errors(container: Body, restarts: str, path: str) -> Iterator[FieldError]:
    """Policies of resizing in place, given when the pod restarts; errors are of the whole list."""
    path = f"{path}.resizePolicy"
    seen: set[str] = set()
    for index, policy in enumerate(container.get("resizePolicy", ())):
        name, effect = policy.get("resourceName", ""), policy.get("restartPolicy", "")
        if name in seen:
            yield field_errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)
        for value, known in ((name, RESIZABLE), (effect, RESIZE_POLICIES)):
            if not value:
                yield field_errors.required(path)
            elif value not in known:
                yield field_errors.not_supported(path, value, known)
        if restarts == "Never" and effect != RESIZE_POLICIES[0]:
            detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield field_errors.invalid(path, effect, detail)
