"""What a container is given: variables, command line, files, names, GPUs, an order."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from swell.api.codec import convert
from swell.api.meta import Body, Key, Uid
from swell.node.pods import BoundPod
from swell.node.process.setup.addresses import (
    AddressBook,
    ServiceNames,
    check_ports,
    hosts_text,
    resolved,
    substituted,
)
from swell.node.process.setup.environment import (
    ContainerConfigError,
    NodeContext,
    ReferencedObjects,
    command_line,
    environment,
    expand,
)
from swell.node.process.setup.resources import GpuBoard
from swell.node.process.setup.spec import HostSettings, RunInputs, RunPaths, run_spec
from swell.node.process.setup.volume_files import write_volume
from swell.node.process.setup.volumes import FileContent, volume_files

AROUND = NodeContext("127.1.1.1", "127.0.0.1", {"cpu": "4", "memory": "8Gi"})
NOTHING = ReferencedObjects({}, {})


def a_pod(container: Body, **spec: object) -> BoundPod:
    body: Body = {
        "metadata": {
            "name": "p",
            "namespace": "n",
            "uid": "u",
            "labels": {"b": "2", "a": 'say "x"'},
        },
        "spec": {"containers": [{"name": "c", **container}], "nodeName": "here", **spec},
    }
    return convert(body, BoundPod)


def env_of(container: Body, referred: ReferencedObjects = NOTHING) -> dict[str, str]:
    pod = a_pod(container)
    return environment(pod, pod.spec.containers[0], referred, AROUND)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("$(A)", "1"),
        ("x$(A)y$(B)", "x1y2"),
        ("$(NO)", "$(NO)"),
        ("$$(A)", "$(A)"),
        ("$$$(A)", "$1"),
        ("$A $", "$A $"),
        ("$(A", "$(A"),
        ("$()", "$()"),
    ],
)
def test_references_are_expanded(text: str, expected: str) -> None:
    """Known ones are replaced, unknown ones stay, a doubled dollar is one."""
    assert expand(text, {"A": "1", "B": "2"}, 1_000) == expected


def test_later_variables_win_and_see_the_earlier() -> None:
    """In the order of the manifest, whole maps first."""
    container = {
        "envFrom": [{"configMapRef": {"name": "m"}}],
        "env": [{"name": "A", "value": "$(FROM)-$(B)"}, {"name": "B", "value": "b"},
                {"name": "C", "value": "$(B)"}, {"name": "FROM", "value": "own"}],
    }  # fmt: skip
    env = env_of(container, ReferencedObjects({"m": {"FROM": "map", "bad name": "x"}}, {}))

    assert env == {"FROM": "own", "A": "map-$(B)", "B": "b", "C": "b"}


@pytest.mark.parametrize(
    ("source", "value"),
    [
        ({"fieldRef": {"fieldPath": "metadata.namespace"}}, "n"),
        ({"fieldRef": {"fieldPath": "metadata.labels['b']"}}, "2"),
        ({"fieldRef": {"fieldPath": "spec.nodeName"}}, "here"),
        ({"fieldRef": {"fieldPath": "status.podIP"}}, "127.1.1.1"),
        ({"resourceFieldRef": {"resource": "limits.cpu"}}, "2"),
        ({"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}, "1500"),
        ({"resourceFieldRef": {"resource": "limits.memory", "divisor": "1Mi"}}, "8192"),
        ({"resourceFieldRef": {"resource": "requests.memory"}}, "0"),
    ],
)
def test_fields_and_amounts_are_reported(source: Body, value: str) -> None:
    """Amounts are rounded up; a limit nobody set is what the node has."""
    container = {
        "resources": {"limits": {"cpu": "1500m"}},
        "env": [{"name": "X", "valueFrom": source}],
    }

    assert env_of(container) == {"X": value}


@pytest.mark.parametrize(
    "source",
    [
        {"configMapKeyRef": {"name": "no", "key": "k"}},
        {"configMapKeyRef": {"name": "m", "key": "no"}},
        {"secretKeyRef": {"name": "no", "key": "k"}},
        {"fieldRef": {"fieldPath": "spec.containers"}},
    ],
)
def test_missing_source_is_an_error_unless_optional(source: Body) -> None:
    """The message names what is missing."""
    referred = ReferencedObjects({"m": {"k": "v"}}, {})
    with pytest.raises(ContainerConfigError) as caught:
        env_of({"env": [{"name": "X", "valueFrom": source}]}, referred)
    assert caught.value.reason == "CreateContainerConfigError"
    kind = next(iter(source))
    if kind != "fieldRef":
        optional = {kind: {**source[kind], "optional": True}}
        assert env_of({"env": [{"name": "X", "valueFrom": optional}]}, referred) == {}


@pytest.mark.parametrize(
    "env",
    [
        [{"name": f"E{n}", "value": f"$(E{n - 1})$(E{n - 1})" if n else "ab"} for n in range(60)],
        [{"name": f"E{n}", "value": "$(E0)" if n else "x" * 100_000} for n in range(1_000)],
        [{"name": "A", "value": "x" * 140_000}],
    ],
)
def test_variables_that_no_program_could_be_given_are_refused(env: list[Body]) -> None:
    """Sixty doublings would fill any memory, and so would a thousand copies of a long value."""
    with pytest.raises(ContainerConfigError) as caught:
        env_of({"env": env})
    assert "131,071 bytes" in str(caught.value)


def test_arguments_that_no_program_could_be_given_are_refused() -> None:
    container = a_pod({"command": ["echo", "$(A)" * 100]}).spec.containers[0]
    with pytest.raises(ContainerConfigError, match="argument 1 has more than"):
        command_line(container, {"A": "x" * 100_000})


def test_container_without_a_command_cannot_be_made() -> None:
    """There is no image to ask."""
    with pytest.raises(ContainerConfigError):
        command_line(a_pod({}).spec.containers[0], {})


def test_volumes_show_their_sources() -> None:
    """All keys, or those chosen under other names; labels as the downward API writes them."""
    labels = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
    pod = a_pod(
        {},
        volumes=[
            {"name": "m", "configMap": {"name": "m", "defaultMode": 0o600}},
            {"name": "i", "configMap": {"name": "m", "items": [{"key": "k", "path": "d/f"}]}},
            {"name": "d", "downwardAPI": {"items": [labels]}},
            {"name": "b", "configMap": {"name": "m", "items": [{"key": "k", "path": "../f"}]}},
        ],
    )
    referred = ReferencedObjects({"m": {"k": "v", "l": "w"}}, {})
    whole, chosen, downward, bad = pod.spec.volumes
    files = volume_files(pod, downward, referred, AROUND)

    assert volume_files(pod, whole, referred, AROUND) == {
        "k": FileContent("v", 0o600),
        "l": FileContent("w", 0o600),
    }
    assert volume_files(pod, chosen, referred, AROUND) == {"d/f": FileContent("v", 0o644)}
    assert files["labels"].text == 'a="say \\"x\\""\nb="2"'
    with pytest.raises(ContainerConfigError):
        volume_files(pod, bad, referred, AROUND)


def test_volume_is_replaced_in_one_step(tmp_path: Path) -> None:
    """Names stay links, content changes together, and what is gone is gone."""
    first = {"a": FileContent("1", 0o644), "d/b": FileContent("2", 0o644)}
    second = {"a": FileContent("3", 0o644)}

    assert write_volume(tmp_path / "v", first)
    assert not write_volume(tmp_path / "v", first)
    assert (tmp_path / "v/d/b").read_text() == "2"
    assert write_volume(tmp_path / "v", second)
    assert (tmp_path / "v/a").read_text() == "3"
    assert sorted(p.name for p in (tmp_path / "v").iterdir()) == ["..1", "..data", "a"]


def test_volume_that_a_container_has_spoilt(tmp_path: Path) -> None:
    """Where a container sees the folder itself: nothing is waited for, and nothing else removed."""
    folder, other = tmp_path / "v", tmp_path / "other" / "..5"
    files = {"a": FileContent("1", 0o644), "b": FileContent("2", 0o644)}
    write_volume(folder, files)
    other.mkdir(parents=True)
    (folder / "..data" / "a").unlink()
    os.mkfifo(folder / "..data" / "a")
    (folder / "b").unlink()
    (folder / "b" / "c").mkdir(parents=True)
    (folder / "more").mkdir()
    (folder / "..1").symlink_to(other)
    assert write_volume(folder, files)
    assert [(folder / name).read_text() for name in "ab"] == ["1", "2"]
    assert not (folder / "more").exists()

    for target in (str(other), "../other/..5", "..9", "nowhere"):
        (folder / "..data").unlink()
        (folder / "..data").symlink_to(target)
        write_volume(folder, files)
        assert (folder / "a").read_text() == "1"
    assert other.is_dir()
    assert not list(other.iterdir())


def test_volume_of_modules_that_were_imported_is_as_it_was(tmp_path: Path) -> None:
    """What Python compiles beside a module is no reason to write the volume again."""
    files = {"m.py": FileContent("1", 0o644)}
    write_volume(tmp_path / "v", files)
    compiled = tmp_path / "v/..data/__pycache__"
    compiled.mkdir()
    (compiled / "m.pyc").touch()

    assert not write_volume(tmp_path / "v", files)


def test_addresses_are_distinct_and_stay() -> None:
    """A name has one address as long as it is kept; another cluster has others."""
    book = AddressBook("one")
    keys = [Key("n", f"p{number}") for number in range(2000)]
    found = {key: book.address(key) for key in keys}
    book.keep_only(keys[1:])

    assert len(set(found.values())) == 2000
    assert all(address.startswith("127.") for address in found.values())
    assert all(book.address(key) == found[key] for key in keys)
    assert AddressBook("two").address(keys[0]) != found[keys[0]]


def test_adopted_address_is_kept() -> None:
    """What a pod was told before counts, unless somebody else has it now."""
    book = AddressBook("one")
    book.adopt(Key("n", "a"), "127.77.7.7")
    book.adopt(Key("n", "b"), "127.77.7.7")

    assert book.address(Key("n", "a")) == "127.77.7.7"
    assert book.address(Key("n", "b")) != "127.77.7.7"


def test_services_lead_to_their_pods() -> None:
    """By short and long names in their own namespace, by long names elsewhere."""
    book = AddressBook("one")
    pods = [Key("n", "a"), Key("n", "b")]
    services = [
        ServiceNames(Key("n", "a"), ("a",)),
        ServiceNames(Key("n", "all"), ("a", "b")),
        ServiceNames(Key("o", "none"), ()),
    ]
    names = resolved(book, services, pods)
    text = hosts_text("127.0.0.1 localhost", "n", names)
    a = book.address(pods[0])

    assert names[Key("n", "all")] == (a, book.address(pods[1]))
    assert f"{a}\ta.n a.n.svc a.n.svc.cluster.local a\n" in text
    assert text.count("all.n ") == 2
    assert "none.o.svc.cluster.local\n" in text


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.n", "1.1.1.1"),
        ("a.n:24446,b.n:24446", "1.1.1.1:24446,2.2.2.2:24446"),
        ("http://a.n.svc.cluster.local/x", "http://1.1.1.1/x"),
        ("a.n.svc", "1.1.1.1"),
        ("xa.n a.nn a.n.org no.n", "xa.n a.nn a.n.org no.n"),
        ("a-b.n", "a-b.n"),
    ],
)
def test_names_in_texts_are_replaced(text: str, expected: str) -> None:
    """Whole names only, with or without their long ends."""
    names = {Key("n", "a"): ("1.1.1.1",), Key("n", "b"): ("2.2.2.2",)}

    assert substituted(text, names) == expected


def test_gpus_are_given_once() -> None:
    """Also over restarts of the container and of the agent."""
    board = GpuBoard(range(3))
    one, two = Uid("one"), Uid("two")

    assert board.give(one, "c", 2) == (0, 1)
    assert board.give(two, "c", 2) is None
    assert board.give(one, "c", 2) == (0, 1)
    board.take_back(one)
    board.restore(two, "c", [1])
    assert board.give(one, "c", 2) == (0, 2)


def order_of(namespace: str, container: Body) -> dict[str, object]:
    pod = a_pod(container, volumes=[{"name": "v", "emptyDir": {}}])
    host = HostSettings(
        {"PATH": "/bin", "HOME": "/h", "SECRET": "s"}, "/opt/py/bin/python", namespace
    )
    places = RunPaths(
        work=Path("/w"),
        message=Path("/m"),
        stage=Path("/s"),
        log=Path("/l"),
        hosts=Path("/hosts"),
        volumes={"v": Path("/real")},
    )
    given = RunInputs(NOTHING, AROUND, {}, (), lambda text: text.replace("a.n", "127.9.9.9"))
    return run_spec(pod, pod.spec.containers[0], host, places, given)


CONTAINER = {
    "command": ["python", "/data/x.py", "a.n"],
    "env": [{"name": "PEER", "value": "a.n:1"}, {"name": "IN", "value": "/data/in"}],
    "volumeMounts": [{"name": "v", "mountPath": "/data"}],
}


def test_order_mounts_where_it_can() -> None:
    """Texts stay as they are; python is the one we run on; little is inherited."""
    order = order_of("user", CONTAINER)

    assert order["argv"] == ("/opt/py/bin/python", "/data/x.py", "a.n")
    assert order["env"] == {
        "PATH": "/opt/py/bin:/bin",
        "HOME": "/h",
        "HOSTNAME": "p",
        "PEER": "a.n:1",
        "IN": "/data/in",
    }
    assert order["mounts"] == (("/hosts", "/etc/hosts", True), ("/real", "/data", False))


def test_order_substitutes_where_it_cannot() -> None:
    """Names and paths lead to the same things without a mount."""
    order = order_of("", CONTAINER)

    assert order["argv"] == ("/opt/py/bin/python", "/real/x.py", "127.9.9.9")
    assert order["env"]["PEER"] == "127.9.9.9:1"  # type: ignore[index]
    assert order["env"]["IN"] == "/real/in"  # type: ignore[index]
    assert order["mounts"] == ()


def test_pods_own_path_decides_which_python() -> None:
    """Whoever sets PATH has chosen."""
    container = {"command": ["python"], "env": [{"name": "PATH", "value": "/own"}]}
    order = order_of("user", container)

    assert order["argv"] == ("python",)
    assert order["env"]["PATH"] == "/own"  # type: ignore[index]


def test_port_of_a_sibling_is_refused() -> None:
    """Only of the same job, and only where addresses are shared."""

    def member(uid: str, job: str, port: int) -> BoundPod:
        labels = {"TrainingJobName": job}
        body: Body = {
            "metadata": {"name": uid, "namespace": "n", "uid": uid, "labels": labels},
            "spec": {"containers": [{"name": "c", "ports": [{"containerPort": port}]}]},
        }
        return convert(body, BoundPod)

    first = member("a", "j", 1)
    wanted = first.spec.containers[0]

    check_ports(first, wanted, [first, member("b", "other", 1), member("c", "j", 2)])
    with pytest.raises(ContainerConfigError, match="port 1 is used by pod d"):
        check_ports(first, wanted, [member("d", "j", 1)])
