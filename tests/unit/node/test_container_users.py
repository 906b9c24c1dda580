"""The user of a container: every combination is honoured or refused, none is ignored."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from swell.api.meta import ObjectMeta, Uid
from swell.node.pods import BoundContainer, BoundPod, BoundSpec, SecurityContext
from swell.node.process.folders import Folders
from swell.node.process.setup.environment import ContainerConfigError
from swell.node.process.setup.pod_users import PodUsers
from swell.node.process.setup.users import AgentUser, RunUser, UserRange, run_user

ROOT, ORDINARY = AgentUser(0, 0), AgentUser(1000, 1000)
RANGE = UserRange(5000, 10)
OWN = 5003


def a_pod(context: SecurityContext) -> BoundPod:
    return BoundPod(
        metadata=ObjectMeta(name="p", namespace="n", uid=Uid("u")),
        spec=BoundSpec(security_context=context),
    )


def decided(
    agent: AgentUser,
    pod: SecurityContext = SecurityContext(),  # noqa: B008 - it never changes
    container: SecurityContext = SecurityContext(),  # noqa: B008
    own: int | None = None,
) -> RunUser | None:
    return run_user(agent, a_pod(pod), BoundContainer(name="c", security_context=container), own)


def test_nothing_asked_for_is_the_agents_user() -> None:
    """As it was before there were users."""
    assert decided(ROOT) is None
    assert decided(ORDINARY) is None
    assert decided(ORDINARY, SecurityContext(run_as_non_root=True)) is None
    assert decided(ORDINARY, SecurityContext(run_as_user=1000, run_as_group=1000)) is None
    assert decided(ROOT, SecurityContext(run_as_non_root=False)) is None


def test_container_precedes_its_pod() -> None:
    """Field by field, as for a kubelet."""
    pod = SecurityContext(run_as_user=1, run_as_group=2, run_as_non_root=True, fs_group=9)
    container = SecurityContext(run_as_user=3)

    assert decided(ROOT, pod) == RunUser(1, 2, (9,))
    assert decided(ROOT, pod, container) == RunUser(3, 2, (9,))
    assert decided(ROOT, container=container) == RunUser(3, 3)
    assert decided(ROOT, pod, SecurityContext(run_as_group=0)) == RunUser(1, 0, (9,))


VALUES = (None, 0, 1000, 7)


@pytest.mark.parametrize(
    ("agent", "own"), [(ROOT, None), (ORDINARY, None), (AgentUser(0, 0, True, RANGE), OWN)]
)
def test_every_wish_is_granted_or_refused(agent: AgentUser, own: int | None) -> None:
    """Whatever a pod and its container ask for: the process has it, or there is none."""
    flags = (None, True, False)
    refused: list[ContainerConfigError] = []
    for user, group, own_user, flag, own_flag in itertools.product(
        VALUES, VALUES, VALUES, flags, flags
    ):
        pod = SecurityContext(run_as_user=user, run_as_group=group, run_as_non_root=flag)
        container = SecurityContext(run_as_user=own_user, run_as_non_root=own_flag)
        try:
            found = decided(agent, pod, container, own)
        except ContainerConfigError as error:
            refused.append(error)
            continue
        uid, gid = (found.uid, found.gid) if found else (agent.uid, agent.gid)
        wanted = user if own_user is None else own_user
        assert wanted in {None, uid}
        assert group in {None, gid}
        if flag if own_flag is None else own_flag:
            assert uid != 0
        if own is not None:
            assert (uid, gid) == (own, own)
    assert refused
    assert {error.reason for error in refused} == {"CreateContainerConfigError"}
    assert all(str(error) for error in refused)


def test_pods_have_different_users_until_they_are_gone(tmp_path: Path) -> None:
    """A number is kept over restarts of the agent, and given out again when its folder is gone."""
    folders = Folders(tmp_path)
    names = [Uid(f"pod-{n}") for n in range(RANGE.n_users)]
    for name in names:
        folders.pod(name).mkdir(parents=True)
    given = {name: PodUsers(folders, RANGE).of(name) for name in names}

    assert len(set(given.values())) == len(names)
    assert all(number in RANGE for number in given.values())
    again = PodUsers(folders, RANGE)
    assert {name: again.of(name) for name in names} == given
    (folders.pod(names[4]) / "user").unlink()
    folders.pod(names[4]).rmdir()
    folders.pod(Uid("new")).mkdir()
    assert PodUsers(folders, RANGE).of(Uid("new")) == given[names[4]]
