"""Real processes: the user they run as, and what they can read of the state folder.

These tests are run by root, which is what they are about; the last one also as another user.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from swell.cluster.private import write_private
from swell.node.pods import BoundPod
from swell.node.process.setup.users import RANGES
from tests.e2e.node.cluster import Site, main_of, play

# What a process finds: its user, whether it reads a file of the state folder, and its own things.
LOOK = """
import json, os, pathlib, socket, sys
def can(act):
    try:
        act()
    except OSError:
        return False
    return True
home = pathlib.Path(sys.argv[1])
print(json.dumps({
    "uid": os.getuid(), "gid": os.getgid(), "groups": os.getgroups(),
    "token": can(lambda: (home / "token").read_text()),
    "home": can(lambda: os.listdir(home)),
    "work": can(lambda: pathlib.Path("made").write_text("x")),
    "here": can(lambda: pathlib.Path(os.getcwd(), "made").read_text()),
    "message": can(lambda: pathlib.Path("/dev/termination-log").write_text("bye")),
    "hosts": can(lambda: pathlib.Path("/etc/hosts").read_text()),
    "root": can(lambda: os.setuid(0)),
}))
sys.stdout.flush()
"""


def look(home: Path) -> tuple[str, ...]:
    return ("python", "-c", LOOK, str(home))


async def found(site: Site, name: str) -> dict[str, object]:
    pod = await site.ended(name)
    text = site.log(name)
    assert main_of(pod).state.terminated is not None, text
    line = next(line for line in text.splitlines() if "{" in line)
    shown: dict[str, object] = json.loads(line[line.index("{") :])
    return shown


async def refused(site: Site, name: str) -> tuple[str, str]:
    def is_refused(pod: BoundPod) -> bool:
        statuses = pod.status.container_statuses
        waiting = statuses[0].state.waiting if statuses else None
        return waiting is not None and waiting.reason == "CreateContainerConfigError"

    pod = await site.pod_that(name, is_refused)
    waiting = main_of(pod).state.waiting
    assert waiting is not None
    return waiting.reason, waiting.message


def test_isolated_pods_have_users_of_their_own(tmp_path: Path) -> None:
    """Each another one, without access to the state folder, and with all that is theirs."""
    write_private(tmp_path / "token", "secret")
    tmp_path.chmod(0o700)

    async def act(site: Site) -> None:
        for name in ("a", "b"):
            await site.pod(name, *look(tmp_path))
        a, b = await found(site, "a"), await found(site, "b")
        for one in (a, b):
            assert one["uid"] in RANGES[0] or one["uid"] in RANGES[1]
            assert one["gid"] == one["uid"]
            assert one["groups"] == []
            assert not one["token"]
            assert not one["home"]
            assert not one["root"]
            assert one["work"]
            assert one["here"]
            assert one["message"]
            assert one["hosts"]
        assert a["uid"] != b["uid"]
        state = main_of(await site.get("a")).state.terminated
        assert state is not None
        assert state.message == "bye"

    play(tmp_path, act, isolate=True)


def test_isolated_pod_reads_its_volumes_and_no_others(tmp_path: Path) -> None:
    """Also a Secret of mode 0400; the folder of another pod is closed."""
    tmp_path.chmod(0o700)

    async def act(site: Site) -> None:
        await site.secret("s", key="hush")
        volumes = [
            {"name": "s", "secret": {"secretName": "s", "defaultMode": 0o400}},
            {"name": "e", "emptyDir": {}},
        ]
        mounts = [{"name": "s", "mountPath": "/s"}, {"name": "e", "mountPath": "/e"}]
        command = ("sh", "-c", "cat /s/key; echo; echo x > /e/made && cat /e/made; sleep 60")
        first = await site.pod("a", *command, container={"volumeMounts": mounts}, volumes=volumes)
        await site.until(lambda: "x" in site.log("a"))
        assert "hush" in site.log("a")
        volume = tmp_path / "pods" / first.metadata.uid / "volumes" / "s" / "key"
        assert volume.read_text() == "hush"
        await site.pod("b", "cat", str(volume))
        ended = main_of(await site.ended("b")).state.terminated
        assert ended is not None
        assert ended.exit_code == 1
        # What has been renewed can be read as well.
        assert site.runtime
        (volume.parent / "..data").unlink()
        assert await site.runtime._provisioner.renew_volumes(await site.get("a")) == []
        assert volume.stat().st_uid != 0
        # Mounted by themselves, the folders of others would be open.
        for number, path in enumerate((volume.parent, tmp_path, tmp_path / "hosts")):
            around = [{"name": "h", "hostPath": {"path": str(path)}}]
            mount = {"volumeMounts": [{"name": "h", "mountPath": "/h"}]}
            await site.pod(f"c{number}", "true", container=mount, volumes=around)
            _, message = await refused(site, f"c{number}")
            assert "is closed to pods" in message

    play(tmp_path, act, isolate=True)


@pytest.mark.parametrize(
    ("context", "text"),
    [
        ({"runAsUser": 0}, "runAsUser 0 cannot be had: with --isolate every pod has a user"),
        ({"runAsUser": 1000}, "runAsUser 1000 cannot be had"),
        ({"runAsGroup": 0}, "runAsGroup 0 cannot be had"),
        ({"runAsUser": 0, "runAsNonRoot": True}, "runAsUser breaks non-root policy"),
    ],
)
def test_isolated_pod_cannot_choose_its_user(
    tmp_path: Path, context: dict[str, object], text: str
) -> None:
    """Least of all root, whose folder it would read."""

    async def act(site: Site) -> None:
        await site.pod("p", *look(tmp_path), container={"securityContext": context})
        reason, message = await refused(site, "p")
        assert reason == "CreateContainerConfigError"
        assert text in message

    play(tmp_path, act, isolate=True)


def test_isolated_pod_is_no_root_as_it_asks(tmp_path: Path) -> None:
    """runAsNonRoot holds for every isolated pod."""

    async def act(site: Site) -> None:
        await site.pod("p", *look(tmp_path), securityContext={"runAsNonRoot": True})
        assert (await found(site, "p"))["uid"] != 0

    play(tmp_path, act, isolate=True)


def test_users_that_pods_ask_for(tmp_path: Path) -> None:
    """A container's own context precedes its pod's; nobody else's files can be read."""
    write_private(tmp_path / "token", "secret")
    tmp_path.chmod(0o700)

    async def act(site: Site) -> None:
        pod = {"runAsUser": 12345, "runAsGroup": 23456, "supplementalGroups": [34567]}
        await site.pod("a", *look(tmp_path), securityContext=pod)
        own = {"securityContext": {"runAsUser": 12346, "runAsNonRoot": True}}
        await site.pod("b", *look(tmp_path), container=own, securityContext=pod)
        a, b = await found(site, "a"), await found(site, "b")
        assert (a["uid"], a["gid"], a["groups"]) == (12345, 23456, [34567])
        assert (b["uid"], b["gid"]) == (12346, 23456)
        for one in (a, b):
            assert not one["token"]
            assert not one["root"]
            assert one["work"]
            assert one["here"]

    play(tmp_path, act)


def test_root_is_refused_to_a_pod_that_is_to_be_none(tmp_path: Path) -> None:
    """Neither ignored nor turned into something else."""

    async def act(site: Site) -> None:
        await site.pod("a", "true", securityContext={"runAsNonRoot": True})
        _, message = await refused(site, "a")
        assert "container has runAsNonRoot and image will run as root" in message
        assert '(pod: "a_default", container: main)' in message
        own = {"securityContext": {"runAsUser": 0}}
        await site.pod("b", "true", container=own, securityContext={"runAsNonRoot": True})
        _, message = await refused(site, "b")
        assert "container's runAsUser breaks non-root policy" in message

    play(tmp_path, act)


def test_isolation_of_another_user_than_root() -> None:
    """Its pods keep its user, and see neither the state folder nor a place to write to."""
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:  # as /tmp is hidden, too
        done = _run_as_another_user(folder)

    assert done.returncode == 0, done.stdout + done.stderr


def _run_as_another_user(folder: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.e2e.node.test_pod_users", folder]
    if os.geteuid() == 0:
        # In a user namespace of its own root is nobody special.
        command = ["unshare", "--user", "--map-user=1000", "--map-group=1000", *command]
    root = Path(__file__).parents[3]
    return subprocess.run(command, check=False, capture_output=True, text=True, cwd=root)


def _as_another_user(home: Path) -> None:
    write_private(home / "token", "secret")

    async def act(site: Site) -> None:
        await site.pod("p", *look(home))
        one = await found(site, "p")
        assert one["uid"] == os.geteuid() != 0
        assert not one["token"]
        assert one["home"], "an empty folder covers it"
        assert one["work"]
        assert one["here"]
        await site.pod("q", "sh", "-c", f"touch /tmp/made /dev/shm/made && ls {home} /tmp")
        await site.ended("q")
        assert site.log("q").split() == ["/tmp:", "made", f"{home}:"]
        way_out = f"umount {home}; unshare -rm umount {home}; cat {home}/token"
        await site.pod("r", "sh", "-c", way_out)
        ended = main_of(await site.ended("r")).state.terminated
        assert ended is not None
        assert ended.exit_code != 0
        assert "secret" not in site.log("r")
        mount = {"volumeMounts": [{"name": "e", "mountPath": "/tmp/mine"}]}
        await site.pod(
            "s", "sh", "-c", "echo kept > /tmp/mine/x && cat /tmp/mine/x; touch /usr/made",
            container=mount, volumes=[{"name": "e", "emptyDir": {}}],
        )  # fmt: skip
        await site.ended("s")
        assert "kept" in site.log("s")
        assert "Read-only file system" in site.log("s")
        for number, path in enumerate(("/", "/var/tmp", str(home), f"{home}/pods", "/tmp")):
            around = [{"name": "h", "hostPath": {"path": path}}]
            own = {"volumeMounts": [{"name": "h", "mountPath": "/h"}]}
            await site.pod(f"h{number}", "true", container=own, volumes=around)
            _, message = await refused(site, f"h{number}")
            assert "is closed to pods" in message
        await site.pod("t", "true", securityContext={"runAsUser": 1})
        _, message = await refused(site, "t")
        assert f"runAsUser 1 cannot be had: Swell runs as {os.geteuid()} here" in message

    play(home, act, isolate=True)


if __name__ == "__main__":
    _as_another_user(Path(sys.argv[1]))
