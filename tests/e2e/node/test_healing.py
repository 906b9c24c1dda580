"""Real processes: whatever fails on a node is tried again, and holds up nothing else."""

from __future__ import annotations

import asyncio
import base64
import errno
import gc
import os
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from swell.api.codec import convert
from swell.api.kinds import CONFIG_MAPS, PODS, SECRETS
from swell.api.meta import Key, Uid
from swell.cluster.trees import remove_tree
from swell.node.pods import BoundPod
from swell.node.process import folders, keptlogs, upkeep
from swell.node.process import runtime as runtimes
from swell.node.process.launcher import Launcher
from swell.node.process.setup import provision
from swell.node.process.setup.hosts import HostsFiles
from swell.node.process.setup.informers import ProcessInformers
from swell.node.process.setup.resources import CgroupRoot, home_prefix
from swell.node.process.supervised import SupervisedRun
from swell.runtime.cluster import merge_patch
from tests.e2e.node.cluster import NAMESPACE, Site, play

LOOP = "while true; do cat /given/*; echo; sleep 0.1; done"
GPU = {"limits": {"nvidia.com/gpu": "1", "memory": "200Mi"}}


async def reader(site: Site, name: str, source: dict[str, object]) -> None:
    """A pod that prints a volume again and again."""
    mounts = {"volumeMounts": [{"name": "v", "mountPath": "/given"}]}
    volumes = [{"name": "v", **source}]
    await site.pod(name, "sh", "-c", LOOP, container=mounts, volumes=volumes)
    await site.running(name)


async def change_map(site: Site, name: str, word: str) -> None:
    await site.cluster.patch(
        CONFIG_MAPS, Key(NAMESPACE, name), merge_patch({"data": {"word": word}})
    )


async def change_secret(site: Site, name: str, word: str) -> None:
    patch = merge_patch({"stringData": {"word": word}})
    await site.cluster.patch(SECRETS.untyped(), Key(NAMESPACE, name), patch)


def given(site: Site) -> dict[int, object]:
    """The GPUs that belong to a container."""
    assert site.runtime
    boards = site.runtime._deps.boards.values()
    return {index: holder for board in boards for index, holder in board._given.items()}


def remains(site: Site) -> tuple[object, ...]:
    """Everything a pod could leave behind: cgroups, GPUs, folders, entries."""
    assert site.runtime
    pods = site.home / "pods"
    return (
        sorted(CgroupRoot().named(home_prefix(site.home))),
        given(site),
        sorted(path.name for path in pods.iterdir()) if pods.exists() else [],
        list(site.runtime._entries),
    )


def test_volume_that_cannot_be_written_holds_up_no_other(tmp_path: Path) -> None:
    """The other pods see their changes, and the one that failed sees it once it can."""

    async def act(site: Site) -> None:
        for name in ("a", "b"):
            await site.config_map(name, word=f"{name}-old")
            await reader(site, name, {"configMap": {"name": name}})
        uid = (await site.get("a")).metadata.uid
        link = tmp_path / "pods" / uid / "volumes" / "v" / "..draft"
        link.mkdir()  # where the agent wants to make a link
        for name in ("a", "b"):
            await change_map(site, name, f"{name}-new")
        await site.until(lambda: "b-new" in site.log("b"), within_s=5)
        assert "a-new" not in site.log("a")
        link.rmdir()
        await site.until(lambda: "a-new" in site.log("a"))

    play(tmp_path, act)


def test_volume_of_a_pod_does_not_hold_up_its_neighbour(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that is not answered for is waited for a while; a map beside it is renewed."""
    silent: set[str] = set()
    honest = ProcessInformers._secret

    async def secret(self: ProcessInformers, key: Key) -> object:
        if key.name in silent:
            await asyncio.get_running_loop().create_future()
        return await honest(self, key)

    monkeypatch.setattr(ProcessInformers, "_secret", secret)
    monkeypatch.setattr(provision, "READ_S", 0.5)

    async def act(site: Site) -> None:
        await site.secret("s", word="hidden")
        await site.config_map("m", word="old")
        volumes = [
            {"name": "s", "secret": {"secretName": "s"}},
            {"name": "m", "configMap": {"name": "m"}},
        ]
        mounts = [
            {"name": "s", "mountPath": "/secret"},
            {"name": "m", "mountPath": "/given"},
        ]
        await site.pod("p", "sh", "-c", LOOP, container={"volumeMounts": mounts}, volumes=volumes)
        await site.running("p")
        silent.add("s")
        await change_map(site, "m", "new")
        await site.until(lambda: "new" in site.log("p"), within_s=5)

    play(tmp_path, act)


def test_many_silent_secrets_starve_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """More pods that wait for an answer than there are workers: another one gets its turn."""
    is_silent = False
    honest = ProcessInformers._secret

    async def secret(self: ProcessInformers, key: Key) -> object:
        if is_silent and key.name == "silent":
            await asyncio.get_running_loop().create_future()
        return await honest(self, key)

    monkeypatch.setattr(ProcessInformers, "_secret", secret)
    monkeypatch.setattr(provision, "READ_S", 0.3)
    monkeypatch.setattr(upkeep, "SECRETS_S", 0.3)

    async def act(site: Site) -> None:
        nonlocal is_silent
        await site.secret("silent", word="x")
        await site.secret("s", word="old")
        for number in range(upkeep.N_WORKERS + 4):
            await reader(site, f"waits-{number}", {"secret": {"secretName": "silent"}})
        await reader(site, "p", {"secret": {"secretName": "s"}})
        is_silent = True
        await change_secret(site, "s", "new")
        await site.until(lambda: "new" in site.log("p"), within_s=10)

    play(tmp_path, act)


def test_label_that_changes_during_a_renewal_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The volume is renewed once more."""
    asked, answer = asyncio.Event(), asyncio.Event()
    is_slow = False
    honest = ProcessInformers._secret

    async def secret(self: ProcessInformers, key: Key) -> object:
        if is_slow:
            asked.set()
            await answer.wait()
        return await honest(self, key)

    monkeypatch.setattr(ProcessInformers, "_secret", secret)

    async def act(site: Site) -> None:
        nonlocal is_slow
        await site.secret("s", word="x")
        field = {"path": "label", "fieldRef": {"fieldPath": "metadata.labels['tone']"}}
        sources = [{"secret": {"name": "s"}}, {"downwardAPI": {"items": [field]}}]
        await reader(site, "p", {"projected": {"sources": sources}})
        is_slow = True
        for tone in ("first", "second"):
            patch = merge_patch({"metadata": {"labels": {"tone": tone}}})
            await site.cluster.patch(PODS, Key(NAMESPACE, "p"), patch)
            await asyncio.wait_for(asked.wait(), 10)
            await asyncio.sleep(0.2)  # the agent sees the second label while it still waits
        is_slow = False
        answer.set()
        await site.until(lambda: "second" in site.log("p"), within_s=10)

    play(tmp_path, act)


def test_volume_that_is_renewed_as_its_pod_goes_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer comes when the pod is gone: no Secret is written for a pod that nobody removes."""
    asked, answer = asyncio.Event(), asyncio.Event()
    is_slow = False
    honest = ProcessInformers._secret

    async def secret(self: ProcessInformers, key: Key) -> object:
        found = await honest(self, key)
        if is_slow:
            asked.set()
            await answer.wait()
        return found

    monkeypatch.setattr(ProcessInformers, "_secret", secret)

    async def act(site: Site) -> None:
        nonlocal is_slow
        await site.secret("s", word="old")
        await reader(site, "p", {"secret": {"secretName": "s"}})
        is_slow = True
        assert site.runtime
        site.runtime.upkeep.mark(Uid((await site.get("p")).metadata.uid))
        await asyncio.wait_for(asked.wait(), 10)
        await site.delete("p", grace_s=0)
        await site.until(lambda: remains(site) == ([], {}, [], []))
        answer.set()
        await site.until(lambda: bool(site.runtime and site.runtime.upkeep._stale.is_idle))
        assert remains(site) == ([], {}, [], [])

    play(tmp_path, act)


def test_hosts_file_of_one_namespace_holds_up_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor the start of pods elsewhere."""
    honest = HostsFiles._write

    def write(self: HostsFiles, namespace: str) -> None:
        if namespace == "bad":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        honest(self, namespace)

    monkeypatch.setattr(HostsFiles, "_write", write)

    async def act(site: Site) -> None:
        assert site.runtime
        site.runtime._deps.hosts._namespaces["bad"] = None
        site.runtime._deps.hosts.mark()
        await site.service("peer", app="p")
        await site.pod("p", "sleep", "1000")
        await site.running("p")
        await site.service("later", app="p")
        hosts = tmp_path / "hosts" / NAMESPACE
        await site.until(lambda: "later" in hosts.read_text(), within_s=5)

    play(tmp_path, act)


def test_disk_that_does_not_answer_about_kept_logs_holds_up_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Names of services become known meanwhile, and logs of deleted jobs are put away."""
    asked, answer = threading.Event(), threading.Event()

    def wait(*_: object) -> list[OSError]:
        asked.set()
        answer.wait(60)
        return []

    monkeypatch.setattr(upkeep, "prune", wait)
    folder = tmp_path / "logs" / NAMESPACE / "a"
    folder.mkdir(parents=True)
    (folder / ".owner").write_text("gone")

    async def act(site: Site) -> None:
        try:
            await site.until(asked.is_set)
            await site.service("peer", app="p")
            await site.pod("p", "sleep", "1000")
            await site.running("p")
            await site.service("later", app="p")
            hosts = tmp_path / "hosts" / NAMESPACE
            await site.until(lambda: "later" in hosts.read_text(), within_s=5)
            await site.until(lambda: not folder.exists(), within_s=5)
        finally:
            answer.set()

    play(tmp_path, act)


def test_logs_that_cannot_be_put_away_hold_up_no_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All other logs of deleted jobs are kept elsewhere, and these when it is possible."""
    broken = True
    honest = keptlogs.keep

    def keep(logs: Path, kept: Path, folder: Path, owner: Uid) -> None:
        if broken and folder.name == "a":
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        honest(logs, kept, folder, owner)

    monkeypatch.setattr(folders, "keep", keep)
    monkeypatch.setattr(upkeep, "RETRY_S", 0.2)
    for job in ("a", "b"):
        folder = tmp_path / "logs" / NAMESPACE / job
        folder.mkdir(parents=True)
        (folder / ".owner").write_text(f"gone-{job}")

    async def act(site: Site) -> None:
        nonlocal broken
        logs = tmp_path / "logs" / NAMESPACE
        await site.until(lambda: not (logs / "b").exists())
        assert (logs / "a").exists()
        broken = False
        await site.until(lambda: not (logs / "a").exists())

    play(tmp_path, act)


def test_removal_that_times_out_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """GPUs stay with processes that live, come back when they are gone, and nothing is left."""
    monkeypatch.setattr(runtimes, "REMOVE_S", 0.3)
    immortal = pytest.MonkeyPatch()

    async def act(site: Site) -> None:
        await site.pod("p", "sleep", "1000", container={"resources": GPU})
        await site.running("p")
        immortal.setattr(SupervisedRun, "kill", lambda _: None)
        immortal.setattr(SupervisedRun, "kill_supervisor", lambda _: None)
        await site.delete("p", grace_s=0)
        await asyncio.sleep(1)
        assert len(given(site)) == 1
        # The same name is free for a new pod, which does not wait for the old one.
        await site.pod("p", "sleep", "1000")
        await site.running("p")
        immortal.undo()
        await site.until(lambda: not given(site))
        await site.until(lambda: len(list((tmp_path / "pods").iterdir())) == 1)
        await site.delete("p", grace_s=0)
        await site.until(lambda: remains(site) == ([], {}, [], []))

    try:
        play(tmp_path, act)
    finally:
        immortal.undo()


def test_folder_that_cannot_be_removed_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its GPUs are free meanwhile: its processes are gone."""
    is_broken = True
    honest = remove_tree

    def refusing(folder: Path) -> None:
        if is_broken:
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        honest(folder)

    monkeypatch.setattr(runtimes, "remove_tree", refusing)

    async def act(site: Site) -> None:
        nonlocal is_broken
        await site.pod("p", "sleep", "1000", container={"resources": GPU})
        await site.running("p")
        await site.delete("p", grace_s=0)
        await site.until(lambda: not given(site))
        await asyncio.sleep(0.3)
        assert list((tmp_path / "pods").iterdir())
        is_broken = False
        await site.until(lambda: remains(site) == ([], {}, [], []))

    play(tmp_path, act)


@pytest.mark.parametrize(
    "command",
    [
        ("sh", "-c", "kill -STOP $PPID; sleep 1000"),
        ("python", "-c", "import os\nfor n in range(3000): os.mkdir('d'); os.chdir('d')"),
    ],
    ids=["stopped supervisor", "nested folders"],
)
def test_container_cannot_keep_its_pod(tmp_path: Path, command: tuple[str, ...]) -> None:
    """A pod is gone after its deletion, whatever its processes have done."""

    async def act(site: Site) -> None:
        await site.pod("p", *command)
        await asyncio.sleep(1)
        await site.delete("p", grace_s=1)
        await site.until(lambda: remains(site) == ([], {}, [], []))

    play(tmp_path, act)


def test_secrets_are_not_kept_in_memory(tmp_path: Path) -> None:
    """Neither while a pod has them, nor afterwards."""

    async def act(site: Site) -> None:
        await site.secret("s", word="-".join(("very", "well", "hidden")))
        env = [{"name": "W", "valueFrom": {"secretKeyRef": {"name": "s", "key": "word"}}}]
        mounts = [{"name": "v", "mountPath": "/given"}]
        volumes = [{"name": "v", "secret": {"secretName": "s"}}]
        script = "cat /given/word; echo $W; sleep 1000"
        more = {"env": env, "volumeMounts": mounts}
        await site.pod("p", "sh", "-c", script, container=more, volumes=volumes)
        word = "-".join(("very", "well", "hidden"))
        encoded = base64.b64encode(word.encode()).decode()
        await site.until(lambda: site.log("p").count(word) == 2)
        gc.collect()
        # A dict of texts alone is not tracked: it is found through those that refer to it.
        dicts = [
            held
            for one in gc.get_objects()
            for held in gc.get_referents(one)
            if isinstance(held, dict)
        ]
        assert [held for held in dicts if held.get("word") in {word, encoded}] == []

    play(tmp_path, act)


Fault = Callable[[pytest.MonkeyPatch], None]


def refuse(*_: object, **__: object) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def no_spec(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(provision, "run_spec", refuse)


def no_volume(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(provision, "_make_sub_paths", refuse)


def no_launcher(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Launcher, "launch", refuse)


def no_answer(patch: pytest.MonkeyPatch) -> None:
    async def wait(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    patch.setattr(ProcessInformers, "read", wait)
    patch.setattr(provision, "READ_S", 0.1)


def a_bug(patch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    patch.setattr(provision, "run_spec", fail)


@pytest.mark.parametrize("fault", [no_spec, no_volume, no_launcher, no_answer, a_bug])
@pytest.mark.parametrize("heals", [True, False])
def test_preparation_that_fails_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: Fault, heals: bool
) -> None:
    """No cgroup, no GPU, no folder: neither when the pod starts later nor when it is deleted."""
    monkeypatch.setattr(runtimes, "RETRY_S", 0.2)
    broken = pytest.MonkeyPatch()
    fault(broken)

    async def act(site: Site) -> None:
        await site.pod("p", "sleep", "1000", container={"resources": GPU})
        await asyncio.sleep(0.5)
        cgroups, gpus, _, _ = remains(site)
        if fault is not no_launcher:  # whose answer was lost: the supervisor may have begun
            assert not cgroups
            assert not gpus
        if heals:
            broken.undo()
            await site.running("p")
            assert len(given(site)) == 1
        await site.delete("p", grace_s=0)
        await site.until(lambda: remains(site) == ([], {}, [], []))

    try:
        play(tmp_path, act)
    finally:
        broken.undo()


def test_asking_for_runs_changes_nothing(tmp_path: Path) -> None:
    """A query with another object of the pod, even of a pod that is over, is only a query."""

    async def act(site: Site) -> None:
        await site.pod("p", "sleep", "1000", container={"resources": GPU})
        pod = await site.running("p")
        assert site.runtime
        entry = site.runtime._entries[pod.metadata.uid]
        before, known = remains(site), entry.pod
        over = convert(
            {
                "metadata": {"name": "p", "namespace": NAMESPACE, "uid": pod.metadata.uid},
                "spec": {"nodeName": pod.spec.node_name},
                "status": {"phase": "Succeeded"},
            },
            BoundPod,
        )
        site.runtime.runs(over)
        assert remains(site) == before
        assert entry.pod is known
        assert site.runtime.upkeep._stale.is_idle

    play(tmp_path, act)
