"""kubectl on the embedded server and on a real one: sessions over every verb show the same.

Nothing is prepared by hand: each session's namespace is made by `kubectl create namespace`. The
short sessions run with every test, all of them with the long ones.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.contract import kubectl_sessions
from tests.testbed.control_plane import ControlPlane
from tests.testbed.kubectl import Kubectl

COMMANDS_MIN = 700
SHORT = ("create", "nodes")  # about a fifth of all commands
SESSIONS = [
    pytest.param(name, marks=[] if name in SHORT else [pytest.mark.long])
    for name in kubectl_sessions.names()
]


@pytest.mark.parametrize("name", SESSIONS)
def test_a_session_shows_the_same(
    name: str, embedded_kubeconfig: Path, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """Exit code, output and errors of every command are equal but for times and identities."""
    ours = Kubectl(embedded_kubeconfig, tmp_path / "ours")
    theirs = Kubectl(control_plane.kubeconfig, tmp_path / "theirs")
    session = kubectl_sessions.load(name)
    different = list(kubectl_sessions.differences(name, session, ours, theirs, tmp_path / "files"))

    assert not different, "\n\n".join(different)


def test_sessions_have_many_commands() -> None:
    """The sessions are found, and cover what they say."""
    commands = [
        step.run
        for name in kubectl_sessions.names()
        for step in kubectl_sessions.load(name).commands()
    ]
    verbs = {command.split(" ")[0] for command in commands}

    assert len(commands) >= COMMANDS_MIN
    assert {
        *("create", "get", "apply", "delete", "describe", "diff", "edit", "explain", "expose"),
        *("label", "annotate", "logs", "patch", "replace", "rollout", "run", "scale", "set"),
        *("wait", "events", "cordon", "uncordon", "drain", "taint", "top", "version", "config"),
        *("api-resources", "api-versions", "cluster-info"),
    } <= verbs
