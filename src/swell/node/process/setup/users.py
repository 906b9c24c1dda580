"""The user that a container runs as: the agent's own, the one its pod asks for, or one of its own.

    the agent is   without --isolate                           with --isolate
    root           root, or runAsUser                          a user of the pod's own, never root
    a user         that user; another one is refused           that user, and the folder is hidden

A pod that asks for a user it cannot have is refused, as a kubelet would; nothing it asks for is
left out silently.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from swell.node.pods import BoundContainer, BoundPod, SecurityContext
from swell.node.process.setup.environment import ContainerConfigError


class UserRange(NamedTuple):
    """Numbers of users that the machine does not use for anybody."""

    first: int
    n_users: int

    def __contains__(self, uid: object) -> bool:
        return isinstance(uid, int) and self.first <= uid < self.first + self.n_users


# Above the ranges that distributions, systemd and container engines give out. The second one is
# for machines whose own user namespace has only 65,536 users.
RANGES = (UserRange(1_900_000_000, 50_000_000), UserRange(40_000, 20_000))


class RunUser(NamedTuple):
    """User, group and further groups of a process."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()

    @property
    def numbers(self) -> tuple[int, ...]:
        """As a supervisor's spec has it."""
        return (self.uid, self.gid, *self.groups)


@dataclass(frozen=True, slots=True)
class AgentUser:
    """The agent's own user, and whether it isolates pods."""

    uid: int
    gid: int
    isolated: bool = False
    users: UserRange | None = None  # of isolated pods, where the agent is root


def run_user(
    agent: AgentUser, pod: BoundPod, container: BoundContainer, own_uid: int | None
) -> RunUser | None:
    """The user of a container; None for the agent's own. ContainerConfigError if there is none.

    `own_uid` is the number of the pod's own user, where pods have one.
    """
    wanted = _wanted(pod.spec.security_context, container.security_context)
    named = f'(pod: "{pod.metadata.name}_{pod.metadata.namespace}", container: {container.name})'
    if wanted.run_as_non_root and wanted.run_as_user == 0:
        raise ContainerConfigError(f"container's runAsUser breaks non-root policy {named}")
    if own_uid is not None:
        return _isolated_user(wanted, own_uid)
    if agent.uid != 0:
        _check_own(agent, wanted)
        return None
    if agent.isolated:
        raise AssertionError("isolated pods of root have users of their own")
    if wanted.run_as_non_root and wanted.run_as_user is None:
        raise ContainerConfigError(
            f"container has runAsNonRoot and image will run as root {named}; give it a runAsUser,"
            " or start Swell with --isolate"
        )
    if wanted == SecurityContext(run_as_non_root=wanted.run_as_non_root):
        return None
    uid = wanted.run_as_user or 0
    # A kubelet takes group 0 here, which on this machine is root's: the user's own number is safer.
    gid = wanted.run_as_group if wanted.run_as_group is not None else uid
    return RunUser(uid, gid, _groups(wanted))


def _isolated_user(wanted: SecurityContext, own_uid: int) -> RunUser:
    for field, value in (("runAsUser", wanted.run_as_user), ("runAsGroup", wanted.run_as_group)):
        if value not in {None, own_uid}:
            raise ContainerConfigError(
                f"{field} {value} cannot be had: with --isolate every pod has a user of its own,"
                f" here {own_uid}"
            )
    if groups := _groups(wanted):
        raise ContainerConfigError(
            f"groups {', '.join(map(str, groups))} cannot be had: with --isolate a pod is in no"
            " group but its own"
        )
    return RunUser(own_uid, own_uid)


def _check_own(agent: AgentUser, wanted: SecurityContext) -> None:
    """Refuse another user than the agent's, which it cannot become."""
    for field, value, own in (
        ("runAsUser", wanted.run_as_user, agent.uid),
        ("runAsGroup", wanted.run_as_group, agent.gid),
    ):
        if value not in {None, own}:
            raise ContainerConfigError(
                f"{field} {value} cannot be had: Swell runs as {own} here, and only root can"
                " become another"
            )
    if groups := set(_groups(wanted)) - {agent.gid}:
        raise ContainerConfigError(
            f"groups {', '.join(map(str, sorted(groups)))} cannot be had: only root can join them"
        )


def _wanted(pod: SecurityContext, container: SecurityContext) -> SecurityContext:
    """The context of a container: its own fields, else those of its pod."""

    def chosen(own: int | bool | None, common: int | bool | None) -> int | bool | None:
        return common if own is None else own

    return SecurityContext(
        run_as_user=chosen(container.run_as_user, pod.run_as_user),
        run_as_group=chosen(container.run_as_group, pod.run_as_group),
        run_as_non_root=chosen(container.run_as_non_root, pod.run_as_non_root),  # type: ignore[arg-type]
        supplemental_groups=pod.supplemental_groups,
        fs_group=pod.fs_group,
    )


def _groups(wanted: SecurityContext) -> tuple[int, ...]:
    own = () if wanted.fs_group is None else (wanted.fs_group,)
    return tuple(sorted({*wanted.supplemental_groups, *own}))
