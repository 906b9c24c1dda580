"""The addresses of services and their families: what a writer may leave out, and what is allocated.

A real server looks at them before anything else: what is wrong here hides every other mistake. This
cluster has IPv4 alone.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Sequence

from swell.api.meta import Body
from swell.cluster.embedded import refusals
from swell.cluster.embedded.builtin import fields
from swell.cluster.embedded.objectmeta import name_problems
from swell.cluster.embedded.registry import WriteContext
from swell.schema import field_errors
from swell.schema.field_errors import FieldError

# The first /16 of kubeadm's default range.
ADDRESSES = ipaddress.IPv4Network("10.96.0.0/16")
HEADLESS = "None"
FAMILIES = ("IPv4", "IPv6")
STACKS = ("PreferDualStack", "RequireDualStack", "SingleStack")
PREFER_DUAL, REQUIRE_DUAL, SINGLE = STACKS
EXTERNAL_NAME = "ExternalName"
NAMES, POLICY = "spec.clusterIPs", "spec.ipFamilyPolicy"


def is_headless(spec: Body) -> bool:
    return bool(spec.get("clusterIPs") == [HEADLESS])


def settle(new: Body, old: Body | None, context: WriteContext) -> None:
    """Fill in what the writer left out, and refuse addresses that cannot be had."""
    spec, before = new["spec"], (old or {}).get("spec")
    _complete(spec, before)
    if spec["type"] == EXTERNAL_NAME or _is_same_pair(spec, before):
        return
    problems = _settle_families(spec, before) or list(_unserved(spec))
    _refuse(new, problems)
    if not (spec.get("clusterIP") == HEADLESS and not spec.get("selector")):
        spec.setdefault("ipFamilies", [FAMILIES[0]])
    if (before is None or before["type"] == EXTERNAL_NAME) and spec.get("clusterIP") != HEADLESS:
        _allocate(new, context)


def _complete(spec: Body, before: Body | None) -> None:
    """Keep clusterIP and clusterIPs in step; an update may leave out what it does not change."""
    address, addresses = spec.get("clusterIP", ""), spec.get("clusterIPs", [])
    if before is None:
        if address and not addresses:
            spec["clusterIPs"] = [address]
        return
    had, had_all = before.get("clusterIP", ""), before.get("clusterIPs", [])
    if EXTERNAL_NAME not in {before["type"], spec["type"]}:
        address, addresses = address or had, addresses or had_all
    if address == had:
        addresses = addresses or had_all
    elif addresses == had_all:
        addresses = [address] if address or not had else []
    for name, value in (("clusterIP", address), ("clusterIPs", addresses)):
        spec.pop(name, None)
        if value:
            spec[name] = value


def _is_same_pair(spec: Body, before: Body | None) -> bool:
    """Whether the service prefers two families, as before, and asks for no change of them."""
    if before is None or spec.get("ipFamilyPolicy") != PREFER_DUAL:
        return False
    return all(
        spec.get(name) == before.get(name)
        for name in ("type", "ipFamilyPolicy", "clusterIPs", "ipFamilies")
    )


def _settle_families(spec: Body, before: Body | None) -> list[FieldError]:
    """Infer the policy and the families; returns what contradicts itself."""
    if spec.get("ipFamilyPolicy") is None:
        alone = spec.get("clusterIP") == HEADLESS and not spec.get("selector")
        kept = (before or {}).get("ipFamilyPolicy")
        spec["ipFamilyPolicy"] = kept or (REQUIRE_DUAL if alone else SINGLE)
    if problems := list(_related_errors(spec, (before or {}).get("clusterIPs", ()))):
        return problems
    if before is not None:
        if spec["ipFamilyPolicy"] == SINGLE:
            _release_second(spec, before)
        else:
            problems = list(_reduced(spec, before))
    if spec["ipFamilyPolicy"] == SINGLE:
        for name, what in (("clusterIPs", "cluster IPs"), ("ipFamilies", "IP families")):
            if len(spec.get(name, ())) > 1:
                detail = f"must be '{REQUIRE_DUAL}' or '{PREFER_DUAL}' when multiple {what} are"
                detail += " specified"
                problems.append(field_errors.invalid(POLICY, SINGLE, detail))
    return [*problems, *_infer_families(spec)]


def _infer_families(spec: Body) -> Iterator[FieldError]:
    """Add the families of the addresses that are given, if this cluster has them."""
    families = [*spec.get("ipFamilies", ())]
    addresses = () if spec.get("clusterIP") == HEADLESS else spec.get("clusterIPs", ())
    for index, address in enumerate(addresses):
        if index >= len(families) and _family(address) != FAMILIES[0]:
            detail = "its family is not configured on this cluster"
            yield field_errors.invalid(f"{NAMES}[{index}]", address, detail)
        elif index >= len(families):
            families.append(FAMILIES[0])
    if families:
        spec["ipFamilies"] = families


def _release_second(spec: Body, before: Body) -> None:
    for name in ("clusterIPs", "ipFamilies"):
        if spec.get(name) == before.get(name) and len(spec.get(name, ())) > 1:
            spec[name] = spec[name][:1]


def _reduced(spec: Body, before: Body) -> Iterator[FieldError]:
    for name, what in (("clusterIPs", "cluster IP"), ("ipFamilies", "IP family")):
        if spec.get(name) and len(spec[name]) < len(before.get(name, ())):
            detail = f"must be '{SINGLE}' to release the secondary {what}"
            yield field_errors.invalid(POLICY, spec["ipFamilyPolicy"], detail)


def _unserved(spec: Body) -> Iterator[FieldError]:
    """Families that this cluster does not have.

    A headless service without a selector may have endpoints of any family, and gets both.
    """
    if spec.get("clusterIP") == HEADLESS and not spec.get("selector"):
        families = spec.setdefault("ipFamilies", [FAMILIES[0]])
        if len(families) < 2 and spec["ipFamilyPolicy"] != SINGLE:
            families += [family for family in FAMILIES if family not in families]
        return
    if spec["ipFamilyPolicy"] == REQUIRE_DUAL:
        detail = "this cluster is not configured for dual-stack services"
        yield field_errors.invalid(POLICY, REQUIRE_DUAL, detail)
    for index, family in enumerate(spec.get("ipFamilies", ())):
        if family != FAMILIES[0]:
            where = f"spec.ipFamilies[{index}]"
            yield field_errors.invalid(where, family, "not configured on this cluster")


def _related_errors(spec: Body, held: Sequence[str]) -> Iterator[FieldError]:
    """The errors of addresses, families and policy by themselves, and together."""
    address, addresses = spec.get("clusterIP"), spec.get("clusterIPs", [])
    if address and addresses[:1] != [address]:
        yield field_errors.invalid(NAMES, addresses, "first value must match `clusterIP`")
    elif addresses and not address:
        detail = "must be empty when `clusterIP` is not specified"
        yield field_errors.invalid(NAMES, addresses, detail)
    yield from _family_errors(spec.get("ipFamilies", ()))
    if spec["ipFamilyPolicy"] not in STACKS:
        yield field_errors.not_supported(POLICY, spec["ipFamilyPolicy"], STACKS)
    malformed = list(_malformed(addresses, held))
    yield from malformed
    if len(addresses) > 2:
        yield field_errors.invalid(NAMES, addresses, "may only hold up to 2 values")
    if malformed:
        return
    if len(addresses) > 1 and sorted(map(_family, addresses)) != [*FAMILIES]:
        detail = "may specify no more than one IP for each IP family"
        yield field_errors.invalid(NAMES, addresses, detail)
    if addresses != [HEADLESS]:
        yield from _mismatches(addresses, spec.get("ipFamilies", ()))


def _family_errors(families: Sequence[str]) -> Iterator[FieldError]:
    for index, family in enumerate(families):
        where = f"spec.ipFamilies[{index}]"
        if family not in FAMILIES:
            yield field_errors.not_supported(where, family, FAMILIES)
        if family in families[:index]:
            yield field_errors.duplicate(where, family)


def _malformed(addresses: Sequence[str], held: Sequence[str]) -> Iterator[FieldError]:
    """Values that are no addresses; those that the service holds have passed once."""
    for index, address in enumerate(addresses):
        if index > 0 or address != HEADLESS:
            yield from () if address in held else fields.ip_errors(address, f"{NAMES}[{index}]")
        elif len(addresses) > 1:
            detail = "'None' must be the first and only value"
            yield field_errors.invalid(NAMES, [*addresses], detail)


def _mismatches(addresses: Sequence[str], families: Sequence[str]) -> Iterator[FieldError]:
    for index, (address, family) in enumerate(zip(addresses, families, strict=False)):
        if family in FAMILIES and _family(address) != family:
            detail = f"expected an {family} value as indicated by `ipFamilies[{index}]`"
            yield field_errors.invalid(f"{NAMES}[{index}]", address, detail)


def _family(address: str) -> str:
    return FAMILIES[":" in address]


def _allocate(service: Body, context: WriteContext) -> None:
    """Give the service the address that it asks for, or one that is free."""
    spec, name = service["spec"], service["metadata"].get("name") or ""
    # A real server notes the address under the service's name before it checks that name.
    is_noted = not context.dry_run
    if is_noted and (problems := name_problems(name, "segment") or (() if name else ("",))):
        detail = f"the service has no name that it can be noted by: {problems[0]}"
        _refuse(service, [field_errors.invalid(NAMES, [""], detail)])
    address = spec.get("clusterIP")
    taken = {one.get("spec", {}).get("clusterIP") for one in context.each("services")}
    if not address:
        address = _free_address(taken)
    elif address in taken:
        detail = "failed to allocate IP: provided IP is already allocated"
        _refuse(service, [field_errors.invalid(NAMES, spec["clusterIPs"], detail)])
    elif ipaddress.ip_address(address) not in ADDRESSES:
        detail = "failed to allocate IP: the provided network does not match the current range"
        _refuse(service, [field_errors.invalid(NAMES, spec["clusterIPs"], detail)])
    spec["clusterIP"], spec["clusterIPs"] = address, [address]


def _free_address(taken: set[str | None]) -> str:
    for address in ADDRESSES.hosts():
        if str(address) not in taken:
            return str(address)
    raise refusals.bad_request("all service addresses are taken")


def _refuse(service: Body, problems: list[FieldError]) -> None:
    if problems:
        name = service["metadata"].get("name") or ""
        raise refusals.invalid(service["kind"], "", name, problems)


def drop_unneeded(spec: Body, before: Body) -> None:
    """Take from a service that becomes a mere name what it had been given."""
    if before["type"] == EXTERNAL_NAME or spec["type"] != EXTERNAL_NAME:
        return
    if spec.get("clusterIPs", []) == before.get("clusterIPs", []):
        spec.pop("clusterIP", None)
        spec.pop("clusterIPs", None)
    for name in ("ipFamilies", "ipFamilyPolicy"):
        if spec.get(name) == before.get(name):
            spec.pop(name, None)


def change_errors(spec: Body, before: Body) -> Iterator[FieldError]:
    """Addresses that may not change once they are given."""
    if EXTERNAL_NAME in {spec["type"], before["type"]}:
        return
    new, old = spec.get("clusterIPs", []), before.get("clusterIPs", [])
    if not (is_headless(spec) and is_headless(before)) and new[:1] != old[:1]:
        yield field_errors.invalid(f"{NAMES}[0]", new, "may not change once set")
