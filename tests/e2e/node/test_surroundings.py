"""Real processes: the environment, files, names and devices that containers are given."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.api.kinds import CONFIG_MAPS
from swell.api.meta import Key
from swell.runtime.cluster import merge_patch
from tests.e2e.node.cluster import NAMESPACE, Site, main_of, namespace_kind, play

# Containers with private mounts, with those of an ordinary user, and without any.
KINDS = ["private", "user", "shared"]


def kind_of(kind: str) -> str:
    if kind == "shared" or not namespace_kind():
        return ""
    return namespace_kind() if kind == "private" else kind


def test_variables_come_from_everywhere(tmp_path: Path) -> None:
    """Literals, expansion, fields, resources, keys of maps and secrets, and whole maps."""

    async def act(site: Site) -> None:
        await site.config_map("settings", a="1", b="2")
        await site.secret("hidden", word="abc")
        env = [
            {"name": "X", "value": "x"},
            {"name": "Y", "value": "$(X)y $(NO) $$(X)"},
            {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
            {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
            {"name": "A", "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "a"}}},
            {"name": "W", "valueFrom": {"secretKeyRef": {"name": "hidden", "key": "word"}}},
        ]
        more = {
            "env": env,
            "envFrom": [{"prefix": "P_", "configMapRef": {"name": "settings"}}],
            "resources": {"limits": {"cpu": "1500m"}},
            "args": ["$(X) $(P_b)"],
        }
        script = 'echo "$0|$Y|$POD|$APP|$CPU|$A|$W|$P_a"; echo $IP'
        await site.pod("p", "sh", "-c", script, container=more)
        pod = await site.ended("p")
        lines = site.log("p").splitlines()

        assert lines[0] == "x 2|xy $(NO) $(X)|p|p|2|1|abc|1"
        assert lines[1] == pod.status.pod_ip
        assert lines[1].startswith("127.")

    play(tmp_path, act)


def test_missing_config_map_is_waited_for(tmp_path: Path) -> None:
    """CreateContainerConfigError while it is missing; soon after it appears the pod runs."""

    async def act(site: Site) -> None:
        source = {"configMapKeyRef": {"name": "late", "key": "k"}}
        more = {"env": [{"name": "K", "valueFrom": source}]}
        await site.pod("p", "sh", "-c", "echo $K", container=more)
        pod = await site.pod_that("p", lambda p: bool(p.status.container_statuses))
        await site.config_map("late", k="here")
        await site.ended("p")
        waiting = main_of(pod).state.waiting

        assert waiting is not None
        assert waiting.reason == "CreateContainerConfigError"
        assert "late" in waiting.message
        assert site.log("p") == "here\n"

    play(tmp_path, act)


@pytest.mark.parametrize("kind", KINDS)
def test_volumes_are_where_they_are_mounted(tmp_path: Path, kind: str) -> None:
    """Also at paths the machine has not, and the machine's own folders stay as they were."""

    async def act(site: Site) -> None:
        await site.config_map("settings", **{"a.txt": "from a map"})
        await site.secret("hidden", word="abc")
        (tmp_path / "shared").mkdir()
        (tmp_path / "shared" / "f").write_text("from the host")
        downward = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
        volumes = [
            {"name": "m", "configMap": {"name": "settings"}},
            {"name": "s", "secret": {"secretName": "hidden"}},
            {"name": "e", "emptyDir": {}},
            {"name": "h", "hostPath": {"path": str(tmp_path / "shared")}},
            {"name": "d", "downwardAPI": {"items": downward}},
        ]
        mounts = [
            {"name": "m", "mountPath": "/etc/swell-test/map"},
            {"name": "s", "mountPath": "/swell-test-secret"},
            {"name": "e", "mountPath": "/swell-test/scratch"},
            {"name": "h", "mountPath": "/swell-test/host", "readOnly": True},
            {"name": "d", "mountPath": "/swell-test/about"},
        ]
        script = (
            "echo x > /swell-test/scratch/f && cat /etc/swell-test/map/a.txt; echo; "
            "cat /swell-test-secret/word; echo; cat /swell-test/host/f; echo; "
            "cat /swell-test/about/labels; echo; cat /swell-test/scratch/f; cat /etc/passwd >&-"
        )
        more = {"volumeMounts": mounts}
        await site.pod("p", "sh", "-c", script, container=more, volumes=volumes)
        await site.ended("p")

        assert site.log("p").splitlines()[:5] == [
            "from a map", "abc", "from the host", 'app="p"', "x",
        ]  # fmt: skip

    play(tmp_path, act, kind_of(kind))
    assert not Path("/swell-test").exists()
    assert not Path("/etc/swell-test").exists()


@pytest.mark.parametrize("kind", KINDS)
def test_mounted_config_map_follows_changes(tmp_path: Path, kind: str) -> None:
    """A running process sees the new content."""

    async def act(site: Site) -> None:
        await site.config_map("members", trainer="a\n")
        more = {"volumeMounts": [{"name": "m", "mountPath": "/swell-members"}]}
        script = "while ! grep -q second /swell-members/trainer; do sleep 0.05; done; echo seen"
        volumes = [{"name": "m", "configMap": {"name": "members"}}]
        await site.pod("p", "sh", "-c", script, container=more, volumes=volumes)
        await site.running("p")
        patch = merge_patch({"data": {"trainer": "a\nsecond\n"}})
        await site.cluster.patch(CONFIG_MAPS, Key(NAMESPACE, "members"), patch)
        await site.ended("p")

        assert site.log("p") == "seen\n"

    play(tmp_path, act, kind_of(kind))


SERVER = """
import os, socket
s = socket.create_server((os.environ["ME"].split(":")[0], 24446))
while True:
    c, _ = s.accept()
    c.sendall(os.environ["POD"].encode())
    c.close()
"""
# Not Python: names must work for every program.
CLIENT = "for n in a b; do cat < /dev/tcp/$(eval echo \\$PEER_$n)/24446 || exit 1; echo; done"


@pytest.mark.parametrize("kind", KINDS)
def test_peers_listen_on_the_same_port(tmp_path: Path, kind: str) -> None:
    """Each pod has its own address, and finds the others by the names of their services."""

    async def act(site: Site) -> None:
        for name in ("a", "b"):
            await site.service(name, app=name)
            me = {"name": "ME", "value": f"{name}.default:24446"}
            pod = {"name": "POD", "value": name}
            await site.pod(name, "python", "-c", SERVER, container={"env": [me, pod]})
        first, second = await site.running("a"), await site.running("b")
        peers = [{"name": f"PEER_{n}", "value": f"{n}.default"} for n in ("a", "b")]
        script = f"for i in 1 2 3 4 5 6 7 8 9; do ({CLIENT}) && exit 0; sleep 0.3; done; exit 1"
        await site.pod("c", "bash", "-c", script, container={"env": peers})
        ended = await site.ended("c")

        assert ended.status.phase.value == "Succeeded", site.log("c")
        assert site.log("c").split()[-2:] == ["a", "b"]
        assert first.status.pod_ip != second.status.pod_ip

    play(tmp_path, act, kind_of(kind))


def test_name_of_a_later_service_becomes_known(tmp_path: Path) -> None:
    """A process that already runs finds peers that come after it."""

    async def act(site: Site) -> None:
        script = "while ! getent hosts late.default; do sleep 0.05; done"
        await site.pod("p", "sh", "-c", script)
        await site.running("p")
        await site.service("late", app="late")
        await site.ended("p")

        assert site.log("p").split()[0].startswith("127.")

    if namespace_kind():
        play(tmp_path, act)


def test_gpu_belongs_to_one_pod(tmp_path: Path) -> None:
    """Two pods have one each, a third waits until one is free; others see none."""

    async def act(site: Site) -> None:
        one = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
        script = "echo [$CUDA_VISIBLE_DEVICES]; sleep 60"
        for name in ("a", "b"):
            await site.pod(name, "sh", "-c", script, container=one)
            await site.running(name)
        await site.pod("c", "sh", "-c", script, container=one)
        await site.pod("none", "sh", "-c", "echo [$CUDA_VISIBLE_DEVICES]")
        await site.ended("none")
        waiting = main_of(await site.pod_that("c", lambda p: bool(p.status.container_statuses)))
        seen = {site.log("a"), site.log("b")}
        await site.delete("a", grace_s=1)
        await site.running("c")

        assert seen == {"[0]\n", "[1]\n"}
        assert site.log("none") == "[]\n"
        assert waiting.state.waiting is not None
        assert "GPU" in waiting.state.waiting.message

    play(tmp_path, act)


def test_readiness_and_liveness_are_asked_for(tmp_path: Path) -> None:
    """Ready only when the probe says so; a container that is not alive is restarted."""

    async def act(site: Site) -> None:
        ready, alive = tmp_path / "ready", tmp_path / "alive"
        alive.touch()
        often = {"periodSeconds": 1, "failureThreshold": 1}
        probes = {
            "readinessProbe": {"exec": {"command": ["test", "-e", str(ready)]}, **often},
            "livenessProbe": {"exec": {"command": ["test", "-e", str(alive)]}, **often},
        }
        await site.pod("p", "sleep", "1000", container=probes, restartPolicy="Always")
        before = await site.running("p")
        ready.touch()
        await site.pod_that("p", lambda pod: main_of(pod).ready)
        alive.unlink()
        after = await site.pod_that("p", lambda pod: main_of(pod).restart_count == 1)

        assert not main_of(before).ready
        assert main_of(after).last_state.terminated is not None

    play(tmp_path, act)


def test_tcp_and_http_probes_reach_the_pods_address(tmp_path: Path) -> None:
    """A server on the pod's own address is found ready."""

    async def act(site: Site) -> None:
        ip = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
        for name, probe in (
            ("tcp", {"tcpSocket": {"port": 24446}}),
            ("http", {"httpGet": {"path": "/", "port": "web"}}),
        ):
            more = {
                "env": [ip],
                "args": ["-m", "http.server", "24446", "--bind", "$(IP)"],
                "ports": [{"name": "web", "containerPort": 24446}],
                "readinessProbe": {**probe, "periodSeconds": 1},
            }
            await site.pod(name, "python", container=more)
        for name in ("tcp", "http"):
            await site.pod_that(name, lambda pod: bool(pod.status.container_statuses)
                                and main_of(pod).ready)  # fmt: skip

    play(tmp_path, act)


def test_pre_stop_runs_before_the_end(tmp_path: Path) -> None:
    """Its command is done before the process is asked to end."""

    async def act(site: Site) -> None:
        out = tmp_path / "out"
        hook = {"exec": {"command": ["sh", "-c", f"sleep 0.3; echo hook >> {out}"]}}
        script = f"trap 'echo term >> {out}; exit 0' TERM; echo up; while :; do sleep 0.02; done"
        await site.pod("p", "sh", "-c", script, container={"lifecycle": {"preStop": hook}})
        await site.until(lambda: "up" in site.log("p"))
        await site.delete("p")
        await site.gone("p")

        assert out.read_text().split() == ["hook", "term"]

    play(tmp_path, act)
