"""Files that containers are given."""

from __future__ import annotations

from swell.api.kinds import CONFIG_MAPS, SECRETS
from swell.api.meta import Body, Key
from swell.runtime.cluster import merge_patch
from tests.contract.node.bench import Bench, behaviour, shell


def mounted(volume: Body, path: str = "/given", **mount: object) -> Body:
    """A pod's volume and where its container finds it."""
    mounts = [{"name": "v", "mountPath": path, **mount}]
    return {"volumes": [{"name": "v", **volume}], "main": {"volumeMounts": mounts}}


@behaviour
async def empty_folder_is_shared(bench: Bench) -> None:
    """Containers of a pod see each other's files in an emptyDir."""
    spec = mounted({"emptyDir": {}}, "/here")
    other = shell(
        "other", "echo hello > /there/f", volumeMounts=[{"name": "v", "mountPath": "/there"}]
    )
    script = "while ! [ -s /here/f ]; do sleep 0.1; done; cat /here/f"

    assert await bench.output(script, beside=[other], **spec) == ["hello"]


@behaviour
async def empty_folder_is_anyones(bench: Bench) -> None:
    """It is empty at first and everybody may write to it."""
    spec = mounted({"emptyDir": {}})

    assert await bench.output("ls /given | wc -l; stat -c %a /given", **spec) == ["0", "777"]


@behaviour
async def folder_of_the_machine(bench: Bench) -> None:
    """hostPath is read and written in place."""
    folder = bench.shared / bench.ns
    folder.mkdir()
    (folder / "in").write_text("from outside\n")
    spec = mounted({"hostPath": {"path": str(folder)}})

    assert await bench.output("cat /given/in; echo inside > /given/out", **spec) == ["from outside"]
    assert (folder / "out").read_text() == "inside\n"


@behaviour
async def folder_of_the_machine_may_be_made(bench: Bench) -> None:
    """DirectoryOrCreate makes what is missing."""
    folder = bench.shared / bench.ns / "made"
    spec = mounted({"hostPath": {"path": str(folder), "type": "DirectoryOrCreate"}})
    await bench.output("echo x > /given/f", **spec)

    assert (folder / "f").read_text() == "x\n"


@behaviour
async def map_is_a_file_for_each_key(bench: Bench) -> None:
    """By the names of the keys, readable for all."""
    await bench.map("m", **{"a.txt": "A", "b": "B"})
    spec = mounted({"configMap": {"name": "m"}})
    script = "ls /given; cat /given/a.txt /given/b; echo; stat -L -c %a /given/b"

    assert await bench.output(script, **spec) == ["a.txt", "b", "AB", "644"]


@behaviour
async def map_may_give_some_keys(bench: Bench) -> None:
    """items choose keys, their paths and modes."""
    await bench.map("m", a="A", b="B")
    items = [{"key": "b", "path": "deep/down", "mode": 0o400}]
    spec = mounted({"configMap": {"name": "m", "items": items}})
    script = "ls /given; cat /given/deep/down; echo; stat -L -c %a /given/deep/down"

    assert await bench.output(script, **spec) == ["deep", "B", "400"]


@behaviour
async def map_is_followed(bench: Bench) -> None:
    """A running container sees a change of the map, all files at once."""
    await bench.map("m", a="1", b="1")
    spec = mounted({"configMap": {"name": "m"}})
    script = "while grep -q 1 /given/a; do sleep 0.1; done; cat /given/a /given/b"
    await bench.pod(script, **spec)
    await bench.runs()
    await bench.cluster.patch(
        CONFIG_MAPS, Key(bench.ns, "m"), merge_patch({"data": {"a": "2", "b": "2"}})
    )
    await bench.change({"metadata": {"annotations": {"example.com/look": "now"}}})
    await bench.ended()

    assert await bench.log() == "22"


@behaviour
async def single_file_is_not_followed(bench: Bench) -> None:
    """A key mounted by subPath stays what it was."""
    await bench.map("m", a="1")
    spec = mounted({"configMap": {"name": "m"}}, "/given/one", subPath="a")
    await bench.pod("sleep 3; cat /given/one", **spec)
    await bench.runs()
    await bench.cluster.patch(CONFIG_MAPS, Key(bench.ns, "m"), merge_patch({"data": {"a": "2"}}))
    await bench.ended()

    assert await bench.log() == "1"


@behaviour
async def secret_is_a_file_for_each_key(bench: Bench) -> None:
    """Decoded, and with the mode that is asked for."""
    await bench.secret("s", word="abc")
    spec = mounted({"secret": {"secretName": "s", "defaultMode": 0o440}})
    script = "cat /given/word; echo; stat -L -c %a /given/word"

    assert await bench.output(script, **spec) == ["abc", "440"]


@behaviour
async def secret_is_followed(bench: Bench) -> None:
    """As maps are."""
    await bench.secret("s", word="old")
    spec = mounted({"secret": {"secretName": "s"}})
    await bench.pod("while grep -q old /given/word; do sleep 0.1; done; cat /given/word", **spec)
    await bench.runs()
    await bench.cluster.patch(
        SECRETS, Key(bench.ns, "s"), merge_patch({"stringData": {"word": "new"}})
    )
    await bench.change({"metadata": {"annotations": {"example.com/look": "now"}}})
    await bench.ended()

    assert await bench.log() == "new"


@behaviour
async def pod_describes_itself(bench: Bench) -> None:
    """downwardAPI has labels line by line, quoted, and single fields as they are."""
    items = [
        {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}},
        {"path": "name", "fieldRef": {"fieldPath": "metadata.name"}},
        {
            "path": "cpu",
            "resourceFieldRef": {
                "containerName": "main",
                "resource": "requests.cpu",
                "divisor": "1m",
            },
        },
    ]
    spec = mounted({"downwardAPI": {"items": items}})
    spec["main"]["resources"] = {"requests": {"cpu": "20m"}}
    about = {"labels": {"b": "2", "a": "x"}}
    script = "cat /given/labels; echo; cat /given/name; echo; cat /given/cpu"

    assert await bench.output(script, metadata=about, **spec) == ['a="x"', 'b="2"', "p", "20"]


@behaviour
async def description_is_followed(bench: Bench) -> None:
    """New labels reach the file."""
    items = [{"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}]
    spec = mounted({"downwardAPI": {"items": items}})
    script = "while ! grep -q after /given/labels; do sleep 0.1; done"
    await bench.pod(script, metadata={"labels": {"app": "before"}}, **spec)
    await bench.runs()
    await bench.change({"metadata": {"labels": {"app": "after"}}})
    pod = await bench.ended()

    assert pod["status"]["phase"] == "Succeeded"


@behaviour
async def several_sources_in_one_folder(bench: Bench) -> None:
    """A projected volume has the files of all its sources."""
    await bench.map("m", a="A")
    await bench.secret("s", b="B")
    sources = [
        {"configMap": {"name": "m"}},
        {"secret": {"name": "s", "items": [{"key": "b", "path": "c"}]}},
        {"downwardAPI": {"items": [{"path": "d", "fieldRef": {"fieldPath": "metadata.name"}}]}},
    ]
    spec = mounted({"projected": {"sources": sources}})

    assert await bench.output("cd /given; echo *; cat a c d", **spec) == ["a c d", "ABp"]


@behaviour
async def part_of_a_volume(bench: Bench) -> None:
    """subPath mounts one folder of a volume, which is made if it is missing."""
    volumes = [{"name": "v", "emptyDir": {}}]
    mounts = [
        {"name": "v", "mountPath": "/whole"},
        {"name": "v", "mountPath": "/part", "subPath": "inner"},
    ]
    main = {"volumeMounts": mounts}

    assert await bench.output(
        "echo x > /part/f; cat /whole/inner/f", volumes=volumes, main=main
    ) == ["x"]


@behaviour
async def read_only_is_read_only(bench: Bench) -> None:
    """A mount that may only be read cannot be written."""
    spec = mounted({"emptyDir": {}}, readOnly=True)

    assert await bench.output("(echo x > /given/f) 2> /dev/null || echo refused", **spec) == [
        "refused"
    ]


@behaviour
async def maps_are_read_only(bench: Bench) -> None:
    """What comes from an API object cannot be changed by a container."""
    await bench.map("m", a="A")
    spec = mounted({"configMap": {"name": "m"}})

    assert await bench.output("(echo x > /given/f) 2> /dev/null || echo refused", **spec) == [
        "refused"
    ]
