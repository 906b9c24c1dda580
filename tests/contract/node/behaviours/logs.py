"""What is kept of a container's output, and which part of it can be asked for."""

from __future__ import annotations

import asyncio

from swell.runtime.errors import BadRequestError
from tests.contract.node.bench import Bench, behaviour, main_of, shell, waits_for

LINES = "echo one; echo two; echo three"


@behaviour
async def everything_is_kept(bench: Bench) -> None:
    """Both streams, each in order, also without a last line break.

    Between the two there is no order: a container runtime reads them by two pipes. And a line
    without an end is written when the pipe ends, which may be after the container has.
    """
    await bench.output("echo out; echo err >&2; printf end")
    await bench.log_has("end")
    text = await bench.log()

    assert text.count("err\n") == 1
    assert text.replace("err\n", "") == "out\nend"


@behaviour
async def last_lines(bench: Bench) -> None:
    """tailLines gives the last ones."""
    await bench.output(LINES)

    assert await bench.log(tailLines=2) == "two\nthree\n"
    assert await bench.log(tailLines=0) == ""


@behaviour
async def first_bytes(bench: Bench) -> None:
    """limitBytes cuts."""
    await bench.output(LINES)

    assert await bench.log(limitBytes=5) == "one\nt"


@behaviour
async def last_seconds(bench: Bench) -> None:
    """sinceSeconds leaves out what is older."""
    await bench.output("echo old; sleep 6; echo new")

    assert await bench.log(sinceSeconds=4) in {"new\n", ""}
    assert await bench.log(sinceSeconds=600) == "old\nnew\n"


@behaviour
async def times_may_be_shown(bench: Bench) -> None:
    """timestamps puts the time of each line before it."""
    await bench.output(LINES)
    lines = (await bench.log(timestamps="true")).splitlines()

    assert [line.split(" ", 1)[1] for line in lines] == ["one", "two", "three"]
    assert all(line[:2] == "20" and line[10] == "T" for line in lines)


@behaviour
async def followed_to_the_end(bench: Bench) -> None:
    """follow answers until the container has ended."""
    await bench.pod("echo one; sleep 2; echo two")
    await bench.log_has("one")

    assert await bench.log(follow="true") == "one\ntwo\n"


@behaviour
async def run_before_the_last(bench: Bench) -> None:
    """previous is the output of the container before its restart."""
    script = (
        "if [ -f /scratch/f ]; then echo second; sleep 100; fi; "
        "touch /scratch/f; echo first; exit 1"
    )
    volumes = [{"name": "scratch", "emptyDir": {}}]
    mounts = {"volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}]}
    await bench.pod(script, restartPolicy="Always", volumes=volumes, main=mounts)
    await bench.until(lambda pod: main_of(pod)["restartCount"] == 1)
    await bench.log_has("second")

    assert await bench.log(previous="true") == "first\n"
    assert await bench.log() == "second\n"


@behaviour
async def no_run_before(bench: Bench) -> None:
    """There is nothing previous without a restart."""
    await bench.output(LINES)
    said = await _refused(bench, previous="true")

    assert "previous terminated container" in said


@behaviour
async def which_container(bench: Bench) -> None:
    """Of several containers one has to be named."""
    await bench.pod("echo a", beside=[shell("other", "echo b")])
    await bench.ended()
    said = await _refused(bench)

    assert "a container name must be specified" in said
    assert await bench.log(container="other") == "b\n"


@behaviour
async def init_containers_have_logs(bench: Bench) -> None:
    """Also after their end."""
    await bench.pod("echo main", initContainers=[shell("first", "echo init")])
    await bench.ended()

    assert await bench.log(container="first") == "init\n"


@behaviour
async def unknown_container(bench: Bench) -> None:
    """A container that is not there has no log."""
    await bench.output(LINES)

    assert "container none is not valid for pod p" in await _refused(bench, container="none")


@behaviour
async def container_that_waits(bench: Bench) -> None:
    """One that has not started yet has no log, and the answer says so."""
    env = [{"name": "K", "valueFrom": {"configMapKeyRef": {"name": "none", "key": "k"}}}]
    await bench.pod("exit 0", main={"env": env})
    await bench.until(lambda pod: waits_for(main_of(pod)) == "CreateContainerConfigError")
    await asyncio.sleep(0.5)

    assert "is waiting to start" in await _refused(bench)


async def _refused(bench: Bench, **query: object) -> str:
    try:
        answer = await bench.log(**query)
    except BadRequestError as refusal:
        return refusal.status.message
    raise AssertionError(f"expected a refusal, got {answer!r}")
