"""What people do wrong: each mistake gets a sentence that says what, and one what to do."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from swell.api.meta import Body
from swell.cli.main import run
from tests.e2e.up.machine import SWELL, Machine, until

LINES_MAX = 6
GOOD = """\
apiVersion: elasticdeeplearning.ai/v1
kind: AITrainingJob
metadata: {name: fit}
spec:
  replicaSpecs:
    trainer:
      replicas: 1
      template:
        spec:
          containers:
            - {name: aitj-trainer, image: local, command: [sleep, "1000"]}
"""


@dataclass(frozen=True)
class Mistake:
    """A command line, what is said to be wrong, and what is said to help."""

    line: str
    reported: str
    advice: str
    code: int = 1
    text: str | bytes = ""  # what stands in the file f.yaml


def changed(old: str, new: str) -> str:
    assert old in GOOD
    return GOOD.replace(old, new)


APPLY = "apply -f f.yaml"
FILES = {
    "typo-in-a-field": Mistake(
        APPLY, "f.yaml:7: spec.replicaSpecs.trainer.replica: unknown field",
        "did you mean replicas?", text=changed("replicas: 1", "replica: 1"),
    ),
    "tab": Mistake(
        APPLY, "f.yaml:5: a tab in the indentation", "indent with spaces",
        text=changed("spec:\n  replicaSpecs", "spec:\n\treplicaSpecs"),
    ),
    "missing-image": Mistake(
        APPLY, "containers[0].image: is required", "add it", text=changed("image: local, ", "")
    ),
    "negative-replicas": Mistake(
        APPLY, "must be at least 1, is -1", "write 1 or more",
        text=changed("replicas: 1", "replicas: -1"),
    ),
    "min-above-max": Mistake(
        APPLY, "minReplicas must not be greater than maxReplicas",
        "lower minReplicas or raise maxReplicas",
        text=changed("replicas: 1", "minReplicas: 4\n      maxReplicas: 2"),
    ),
    "text-for-a-number": Mistake(
        APPLY, "spec.replicaSpecs.trainer.replicas", "write",
        text=changed("replicas: 1", "replicas: two"),
    ),
    "unknown-policy": Mistake(
        APPLY, "unsupported value", "did you mean OnFailure?",
        text=changed("replicas: 1", "restartPolicy: OnFailur"),
    ),
    "wrong-kind": Mistake(
        APPLY, "has no kind", "did you mean AITrainingJob?",
        text=changed("kind: AITrainingJob", "kind: AiTrainingJob"),
    ),
    "wrong-version": Mistake(
        APPLY, "is not served as", "did you mean elasticdeeplearning.ai/v1?",
        text=changed("ai/v1", "ai/v2"),
    ),
    "kind-of-another-cluster": Mistake(
        APPLY, "the cluster has no kind Widget", "install its CustomResourceDefinition",
        text="apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\n",
    ),
    "name-with-capitals": Mistake(
        APPLY, "metadata.name: must be lower-case", "for example my-job",
        text=changed("name: fit", "name: Fit_1"),
    ),
    "no-name": Mistake(
        APPLY, "metadata.name: is required", "for example", text=changed("{name: fit}", "{}")
    ),
    "no-containers": Mistake(
        APPLY, "containers", "add", text=changed("containers:", "volumes:").replace("image", "x"),
    ),
    "empty-file": Mistake(APPLY, "there is no object", "saved?"),
    "binary-file": Mistake(
        APPLY, "is not UTF-8", "save the file as UTF-8", text=b"\x7fELF\xff\xfe"
    ),
    "prose": Mistake(APPLY, "must be an object", "write kind:", text="hello world\n"),
    "half-of-a-file": Mistake(
        APPLY, "f.yaml:2", "check indentation, quotes and colons", text='{"a": \n'
    ),
    "wrong-indentation": Mistake(
        APPLY, "f.yaml:2", "check indentation, quotes and colons", text="a: b\n c: d\n"
    ),
    "bad-amount": Mistake(
        APPLY, '"lots" is no amount', "such as 500m",
        text=changed("image: local", "image: local, resources: {limits: {cpu: lots}}"),
    ),
    "two-jobs-for-run": Mistake(
        "run f.yaml", "run takes one AITrainingJob", "swell apply", text=GOOD + "---\n" + GOOD,
    ),
    "flags-beside-a-manifest": Mistake(
        "run --cpu 1 f.yaml", "a manifest says itself", "swell run [OPTIONS] -- CMD", 2, GOOD
    ),
    "namespace-of-a-manifest": Mistake(
        APPLY, 'namespaces "nowhere" not found', "swell get namespaces",
        text=changed("{name: fit}", "{name: fit, namespace: nowhere}"),
    ),
}  # fmt: skip
ARGUMENTS = {
    "missing-file": Mistake("apply -f missing.yaml", "missing.yaml: no such file", "you are in"),
    "folder-for-a-file": Mistake("apply -f .", ".: is a folder", "name the files in it"),
    "no-file": Mistake("apply", "Missing option '-f'", "swell apply --help", 2),
    "no-command": Mistake("aply -f x", "there is no command 'aply'", "swell apply", 2),
    "unknown-flag": Mistake("get --wid", "No such option", "swell get --help", 2),
    "wrong-output": Mistake("get -o xml", "'xml' is not one of", "'json', 'yaml'", 2),
    "unknown-job": Mistake("get aitj nobody", '"nobody" not found', "swell get aitrainingjobs"),
    "unknown-pod": Mistake("describe pod nobody", 'pods "nobody" not found', "swell get pods"),
    "delete-unknown": Mistake("delete nobody", '"nobody" not found', "swell get"),
    "delete-nothing": Mistake("delete", "say which objects", "swell delete --help", 2),
    "delete-all-of-a-kind": Mistake("delete pods", "which pods?", "give their names", 2),
    "kind-the-cluster-lacks": Mistake("get widget/x", "has no kind 'widget'", "written like pods"),
    "logs-of-nobody": Mistake("logs nobody", "no job nobody in namespace default", "swell get"),
    "logs-of-a-role": Mistake("logs fit --role boss", "no role boss", "its roles: trainer"),
    "logs-of-an-index": Mistake("logs fit --index 7", "of index 7", "count from 0"),
    "logs-of-a-container": Mistake("logs fit --container x", "no container x", "aitj-trainer"),
    "scale-nobody": Mistake("scale nobody trainer=1", "no job nobody", "swell get"),
    "scale-a-fixed-role": Mistake("scale fit trainer=2", "has a fixed size", "edlPolicy to Manual"),
    "scale-unknown-role": Mistake("scale fit boss=2", "has no role boss", "its roles: trainer"),
    "scale-to-nothing": Mistake("scale fit trainer", "not a role and a size", "trainer=3", 2),
    "job-exists": Mistake("run --name fit -- true", "still there: ", "swell delete fit"),
    "run-nothing": Mistake("run", "give a manifest, or a command", "swell run --help", 2),
    "run-no-command": Mistake("run --", "no command after --", "swell run -- python", 2),
    "run-min-above-max": Mistake("run --min 3 --max 2 -- true", "more than --max", "lower", 2),
    "run-bad-amount": Mistake("run --cpu lots -- true", "--cpu: ", "500m or 2Gi", 2),
    "run-bad-number": Mistake("run --min x -- true", "'--min'", "swell run --help", 2),
    "run-bad-name": Mistake("run --name A_b -- true", "metadata.name: must be", "my-job"),
    "run-nowhere": Mistake("run -n nowhere -- true", '"nowhere" not found', "get namespaces"),
    "chaos-nobody": Mistake("chaos kill-pod x", "no pod x", "swell get pods"),
    "chaos-no-node": Mistake("chaos kill-node x", "no node x", "swell get nodes"),
    "end-what-has-ended": Mistake("fail over", "has ended already: Succeed", "swell describe over"),
    "up-bad-amount": Mistake("up --memory big", "--memory: ", "500m or 2Gi", 2),
    "up-bad-taint": Mistake("up --taint x", "is no taint", "key=value:effect", 2),
    "up-bad-port": Mistake("up --port 99999", "'--port'", "65535", 2),
    "server-beside-up": Mistake("server", "already runs", "swell down"),
    "node-beside-up": Mistake("node", "another node agent runs", "SWELL_HOME"),
    "unknown-shell": Mistake("completion tcsh", "'tcsh' is not one of", "'bash'", 2),
}


Check = Callable[[Machine, Mistake], None]


def check(machine: Machine, mistake: Mistake) -> None:
    """Make the mistake in a process of its own."""
    ended = machine.swell(*mistake.line.split(), expect=None)
    judge(mistake, ended.returncode, ended.stdout, ended.stderr)


def judge(mistake: Mistake, code: int, out: str, reported: str) -> None:
    assert code == mistake.code, reported
    assert out == ""
    assert mistake.reported in reported
    assert mistake.advice in reported
    assert len(reported.splitlines()) <= LINES_MAX, reported


@pytest.fixture
def quick_check(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Check:
    """Makes a mistake in this process: a traceback would be an error of the test."""

    def check(machine: Machine, mistake: Mistake) -> None:
        monkeypatch.setattr(os, "environ", machine.environment)
        monkeypatch.chdir(machine.folder)
        capfd.readouterr()
        code = run(mistake.line.split())
        reported = capfd.readouterr()
        judge(mistake, code, reported.out, reported.err)

    return check


@pytest.fixture(scope="module")
def busy(running: Machine) -> Machine:
    """There is a job `fit` that runs, and one `over` that has ended."""
    (running.folder / "good.yaml").write_text(GOOD)
    running.swell("run", "--detach", "good.yaml")
    running.swell("run", "--name", "over", "--", "true")
    return running


@pytest.mark.parametrize("name", FILES)
def test_mistake_in_a_file(busy: Machine, quick_check: Check, name: str) -> None:
    """It is told with its place, and nothing is done."""
    text = FILES[name].text
    (busy.folder / "f.yaml").write_bytes(text.encode() if isinstance(text, str) else text)

    quick_check(busy, FILES[name])


@pytest.mark.parametrize("name", ARGUMENTS)
def test_mistake_on_the_command_line(busy: Machine, quick_check: Check, name: str) -> None:
    """Wrong words are 2, what is not there is 1, and neither prints an answer."""
    quick_check(busy, ARGUMENTS[name])


def with_server(server: str) -> Callable[[Body], None]:
    def edit(config: Body) -> None:
        config["clusters"][0]["cluster"]["server"] = server

    return edit


def with_authority(text: str | None) -> Callable[[Body], None]:
    def edit(config: Body) -> None:
        config["clusters"][0]["cluster"]["certificate-authority-data"] = text

    return edit


def with_user(user: Body) -> Callable[[Body], None]:
    def edit(config: Body) -> None:
        config["users"][0]["user"] = user

    return edit


def with_plain_http(config: Body) -> None:
    cluster = config["clusters"][0]["cluster"]
    cluster["server"] = cluster["server"].replace("https", "http")


def without_context(config: Body) -> None:
    del config["current-context"]


GET = "get --kubeconfig k"
NO_PLUGIN = {"exec": {"command": "no-such-plugin", "apiVersion": "client.authentication.k8s.io/v1"}}
KUBECONFIGS: dict[str, tuple[Callable[[Body], None], Mistake]] = {
    "server-down": (
        with_server("https://127.0.0.1:1"),
        Mistake(GET, "nothing answers at https://127.0.0.1:1", "check the kubeconfig"),
    ),
    "unknown-host": (
        with_server("https://nowhere.invalid:6443"),
        Mistake(GET, "nowhere.invalid", "check the kubeconfig"),
    ),
    "no-address": (with_server("nonsense"), Mistake(GET, "no http(s) address", "check")),
    "no-port": (with_server("https://h:99999"), Mistake(GET, "no http(s) address", "check")),
    "http-for-https": (with_plain_http, Mistake(GET, "does not speak plain HTTP", "https://")),
    "expired-token": (
        with_user({"token": "old"}),
        Mistake(GET, "does not know this user", "tokens expire"),
    ),
    "no-credentials": (with_user({}), Mistake(GET, "does not know this user", "log in again")),
    "no-login-plugin": (with_user(NO_PLUGIN), Mistake(GET, "no credentials", "check")),
    "wrong-authority": (
        with_authority(None),
        Mistake(GET, "is not trusted", "fetch its kubeconfig again"),
    ),
    "no-authority": (with_authority("bm8="), Mistake(GET, "is no certificate", "check")),
    "no-current-context": (without_context, Mistake(GET, "no current context", "--context")),
    "unknown-context": (
        lambda _: None,
        Mistake(f"{GET} --context other", "contexts has no 'other'", "there are: swell"),
    ),
    "run-with-server-down": (
        with_server("https://127.0.0.1:1"),
        Mistake("run --kubeconfig k -- true", "nothing answers at", "check the kubeconfig"),
    ),
}


@pytest.mark.parametrize("name", KUBECONFIGS)
def test_mistake_in_a_kubeconfig(busy: Machine, quick_check: Check, name: str) -> None:
    """What keeps a command from its cluster is told apart."""
    edit, mistake = KUBECONFIGS[name]
    config: Body = msgspec.json.decode((busy.home / "kubeconfig").read_bytes())
    edit(config)
    (busy.folder / "k").write_bytes(msgspec.json.encode(config))

    quick_check(busy, mistake)


@pytest.mark.parametrize(
    ("text", "reported"),
    [(None, "no such file"), (b"", "not a kubeconfig"), (b"{", "not JSON"), (b"\x96", "not YAML")],
)
def test_kubeconfig_that_is_none(
    busy: Machine, quick_check: Check, text: bytes | None, reported: str
) -> None:
    """Missing, empty, or something else."""
    (busy.folder / "k").unlink(missing_ok=True)
    if text is not None:
        (busy.folder / "k").write_bytes(text)

    quick_check(busy, Mistake(GET, reported, "check the kubeconfig"))


@contextmanager
def some_web_server() -> Iterator[str]:
    """Answers every request, and never as Kubernetes does."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            while True:
                try:
                    caller, _ = listener.accept()
                except OSError:
                    return
                with caller:
                    caller.recv(65536)
                    caller.sendall(b"HTTP/1.1 404 No\r\nContent-Length: 13\r\n\r\n<html></html>")

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join(10)


@pytest.mark.parametrize(
    ("scheme", "reported", "advice"),
    [
        ("http", "does not answer as a Kubernetes API server does (HTTP 404)", "kubeconfig"),
        ("https", "does not speak TLS", "is the port right?"),
    ],
)
def test_server_of_another_kind(busy: Machine, scheme: str, reported: str, advice: str) -> None:
    """A web server, or one without TLS, is not mistaken for an API server."""
    config: Body = msgspec.json.decode((busy.home / "kubeconfig").read_bytes())
    with some_web_server() as place:
        with_server(f"{scheme}://{place}")(config)
        (busy.folder / "k").write_bytes(msgspec.json.encode(config))

        check(busy, Mistake(GET, reported, advice))


def test_namespace_that_is_not_there(busy: Machine) -> None:
    """An empty answer says whether there could have been another."""
    ended = busy.swell("get", "-n", "nowhere")

    assert "there is no such namespace" in ended.stderr
    assert "swell get namespaces" in ended.stderr


def test_command_that_is_not_there(busy: Machine) -> None:
    """The job fails, and both its output and its message say what could not be started."""
    ended = busy.swell("run", "--", "no-such-program", expect=1)

    assert "cannot start no-such-program: No such file or directory" in ended.stdout
    assert "StartError" in ended.stderr


def test_job_deleted_while_its_log_is_followed(busy: Machine) -> None:
    """Following ends, and says why."""
    busy.swell("run", "--detach", "--name", "brief", "--", "sh", "-c", "echo hi; sleep 60")
    with busy.begin("logs", "-f", "brief") as logs:
        assert logs.stdout is not None
        assert logs.stdout.readline() == "[trainer-0] hi\n"
        busy.swell("delete", "brief")
        _, errors = logs.communicate(timeout=30)

    assert logs.returncode == 1
    assert "brief was deleted meanwhile" in errors


@pytest.mark.parametrize("arguments", ["get -o json", "crds", "--help", "logs over"])
def test_reader_that_has_seen_enough(busy: Machine, arguments: str) -> None:
    """A closed pipe ends a command quietly."""
    reading, writing = os.pipe()
    os.close(reading)
    ended = typed(busy, arguments, writing)
    os.close(writing)

    assert ended.stderr == ""


@pytest.mark.parametrize("arguments", ["get -o json", "crds", "--help"])
def test_answer_that_finds_no_room(busy: Machine, arguments: str) -> None:
    """A full disk under the answer is told."""
    with Path("/dev/full").open("wb") as full:
        ended = typed(busy, arguments, full.fileno())

    assert ended.returncode == 1
    assert ended.stderr.splitlines()[0] == "error: No space left on device"


def test_output_that_is_closed(busy: Machine) -> None:
    """Nobody wants the answer: that is no mistake."""
    script = f"exec {' '.join(SWELL)} get >&-"
    ended = subprocess.run(
        ["sh", "-c", script], env=busy.environment, stderr=subprocess.PIPE, check=False
    )

    assert (ended.returncode, ended.stderr) == (0, b"")


def typed(machine: Machine, arguments: str, out: int) -> subprocess.CompletedProcess[str]:
    """A command whose answer goes somewhere in particular."""
    return subprocess.run(
        [*SWELL, *arguments.split()],
        env=machine.environment,
        stdout=out,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def test_cluster_that_is_not_running(machine: Machine, quick_check: Check) -> None:
    """Every command that needs one says how to start it."""
    (machine.folder / "good.yaml").write_text(GOOD)
    for line in ("get", "logs fit", "apply -f good.yaml", "top", "scale fit trainer=2"):
        quick_check(machine, Mistake(line, "is not running", "start it with: swell up"))
    machine.environ["SWELL_HOME"] = ""
    quick_check(machine, Mistake("get", "no cluster is chosen", "start it with: swell up"))


def test_port_that_is_taken(machine: Machine) -> None:
    """Somebody else's port is named, with the flag for another."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        for command in ("up", "server"):
            check(machine, Mistake(f"{command} --port {port}", str(port), "another with --port"))


def test_store_of_another_version(machine: Machine) -> None:
    """What another version has written is left alone."""
    machine.home.mkdir()
    with sqlite3.connect(machine.home / "store.db") as store:
        store.execute("PRAGMA user_version = 99")
    store.close()
    for command in ("up", "server"):
        check(machine, Mistake(command, "format 99", "the version of Swell that wrote it"))


def test_folder_that_cannot_be_used(machine: Machine) -> None:
    """Neither a file nor a place that takes no folders is a state folder."""
    machine.home.write_text("a file")
    check(machine, Mistake("up", "Not a directory", "SWELL_HOME"))
    machine.home.unlink()
    machine.environ["SWELL_HOME"] = "/proc/none"
    for command in ("up", "server", "up --detach"):
        check(machine, Mistake(command, "/proc/none", "SWELL_HOME"))


def test_interrupted_command_ends_quietly(busy: Machine) -> None:
    """Ctrl-C is 130, without a word too many."""
    busy.swell("run", "--detach", "--name", "still", "--", "sh", "-c", "echo hi; sleep 60")
    until(lambda: "hi" in busy.swell("logs", "still").stdout)
    with busy.begin("logs", "-f", "still") as logs:
        assert logs.stdout is not None
        logs.stdout.readline()
        logs.send_signal(signal.SIGINT)
        _, errors = logs.communicate(timeout=30)

    assert (logs.returncode, errors) == (130, "")
    busy.swell("delete", "still")


def test_node_agent_without_its_server(machine: Machine) -> None:
    """An agent whose API server does not run says so, in the words of every other command."""
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "c"}}],
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
    }
    (machine.folder / "k").write_bytes(msgspec.json.encode(config))

    check(
        machine,
        Mistake("node --kubeconfig k", "nothing answers at https://127.0.0.1:1", "kubeconfig"),
    )
