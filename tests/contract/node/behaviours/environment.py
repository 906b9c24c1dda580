"""Where the variables of a container come from."""

from __future__ import annotations

from swell.api.meta import Body
from tests.contract.node.bench import Bench, behaviour


def _from(name: str, **source: object) -> Body:
    return {"name": name, "valueFrom": source}


def _field(name: str, path: str) -> Body:
    return _from(name, fieldRef={"fieldPath": path})


def _resource(name: str, resource: str, **more: str) -> Body:
    return _from(name, resourceFieldRef={"resource": resource, **more})


@behaviour
async def literals_refer_to_earlier_ones(bench: Bench) -> None:
    """$(NAME) is replaced where NAME is known, and $$ escapes."""
    env = [
        {"name": "A", "value": "a"},
        {"name": "B", "value": "$(A)b $(NO) $$(A)"},
        {"name": "EARLY", "value": "$(LATE)"},
        {"name": "LATE", "value": "late"},
    ]

    assert await bench.output('echo "$B $EARLY"', main={"env": env}) == ["ab $(NO) $(A) $(LATE)"]


@behaviour
async def command_line_refers_to_variables(bench: Bench) -> None:
    """In command and args, too, before any shell sees them."""
    env = [{"name": "A", "value": "a'b"}]
    main = {"env": env, "command": ["echo"], "args": ["$(A)", "$$(A)", "$(NO)"]}

    assert await bench.output("", main=main) == ["a'b $(A) $(NO)"]


@behaviour
async def later_values_win(bench: Bench) -> None:
    """A name that is given twice has its last value."""
    env = [{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]

    assert await bench.output("echo $A", main={"env": env}) == ["2"]


@behaviour
async def fields_of_the_pod(bench: Bench) -> None:
    """Name, namespace, uid, a label and an annotation."""
    env = [
        _field("NAME", "metadata.name"),
        _field("NS", "metadata.namespace"),
        _field("ID", "metadata.uid"),
        _field("LABEL", "metadata.labels['app']"),
        _field("NOTE", "metadata.annotations['example.com/note']"),
        _field("NONE", "metadata.labels['none']"),
    ]
    about = {"labels": {"app": "x"}, "annotations": {"example.com/note": "hello there"}}
    script = 'echo "$NAME|$NS|$LABEL|$NOTE|$NONE|"; echo $ID'
    lines = await bench.output(script, main={"env": env}, metadata=about)

    assert lines == [f"p|{bench.ns}|x|hello there||", (await bench.get())["metadata"]["uid"]]


@behaviour
async def where_the_pod_is(bench: Bench) -> None:
    """Node, addresses, account."""
    env = [
        _field("NODE", "spec.nodeName"),
        _field("IP", "status.podIP"),
        _field("IPS", "status.podIPs"),
        _field("HOST", "status.hostIP"),
        _field("ACCOUNT", "spec.serviceAccountName"),
    ]
    lines = await bench.output('echo "$NODE $IP $IPS $HOST [$ACCOUNT]"', main={"env": env})
    pod = await bench.get()
    own, host = pod["status"]["podIP"], pod["status"]["hostIP"]
    account = pod["spec"].get("serviceAccountName", "")

    assert lines == [f"{bench.node} {own} {own} {host} [{account}]"]


@behaviour
async def amounts_of_resources(bench: Bench) -> None:
    """CPU in whole cores rounded up, memory in bytes, both in what a divisor says."""
    env = [
        _resource("CPU", "limits.cpu"),
        _resource("MILLI", "limits.cpu", divisor="1m"),
        _resource("MEMORY", "limits.memory"),
        _resource("MEBI", "requests.memory", divisor="1Mi"),
    ]
    resources = {
        "limits": {"cpu": "1500m", "memory": "64Mi"},
        "requests": {"cpu": "10m", "memory": "32Mi"},
    }
    main = {"env": env, "resources": resources}

    assert await bench.output('echo "$CPU $MILLI $MEMORY $MEBI"', main=main) == [
        "2 1500 67108864 32"
    ]


@behaviour
async def keys_of_maps_and_secrets(bench: Bench) -> None:
    """A variable may be one key of either."""
    await bench.map("m", k="one")
    await bench.secret("s", k="two")
    env = [
        _from("A", configMapKeyRef={"name": "m", "key": "k"}),
        _from("B", secretKeyRef={"name": "s", "key": "k"}),
        {"name": "C", "value": "$(A)$(B)"},
    ]

    assert await bench.output('echo "$C"', main={"env": env}) == ["onetwo"]


@behaviour
async def whole_maps_and_secrets(bench: Bench) -> None:
    """envFrom takes all keys, with a prefix if there is one; later sources win, env over all."""
    await bench.map("first", a="1", b="2", c="3")
    await bench.secret("second", b="4")
    sources = [
        {"configMapRef": {"name": "first"}},
        {"secretRef": {"name": "second"}},
        {"prefix": "P_", "configMapRef": {"name": "first"}},
    ]
    main = {"envFrom": sources, "env": [{"name": "c", "value": "5"}]}

    assert await bench.output('echo "$a$b$c $P_a$P_b"', main=main) == ["145 12"]


@behaviour
async def nothing_is_inherited(bench: Bench) -> None:
    """Variables of whoever starts containers do not reach them."""
    script = 'echo "${KUBECONFIG-no} ${SWELL_HOME-no} ${PYTHONPATH-no}"'

    assert await bench.output(script) == ["no no no"]


@behaviour
async def later_changes_do_not_reach_it(bench: Bench) -> None:
    """Variables are those of the start, whatever becomes of the labels."""
    env = [_field("LABEL", "metadata.labels['app']")]
    about = {"labels": {"app": "before"}}
    await bench.pod("sleep 8; echo $LABEL", main={"env": env}, metadata=about)
    await bench.runs()
    await bench.change({"metadata": {"labels": {"app": "after"}}})
    await bench.ended()

    assert await bench.log() == "before\n"
