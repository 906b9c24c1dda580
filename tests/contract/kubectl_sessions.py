"""Sessions of kubectl commands, kept as data, and what one of them shows on a server.

A session is a file of `tests/data/kubectl`: some files, and commands that run one after the other
in a namespace of the session's own, which its first command creates. Times, identities and
whatever else differs between two runs on one server are masked; all the rest is compared.
"""

from __future__ import annotations

import difflib
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import msgspec
import yaml

from tests.testbed.kubectl import Kubectl

FOLDER = Path(__file__).parents[1] / "data" / "kubectl"
UNTIL_S = 20.0
POLL_S = 0.2

MASKS = [
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "UID"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"), "TIME"),
    (re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d [+-]\d{4}"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+ \+0000"), "TIME"),
    # kubectl's own race at a deadline of its own: whether its reflector or it sees that first.
    (re.compile(r"^[EWI]\d{4} .*reflector\.go.*\n", re.MULTILINE), ""),
    (re.compile(r"^[EWI]\d{4} [\d:.]+ +\d+ \S+\]", re.MULTILINE), "LOG"),
    (re.compile(r"\b(\d+m)?\d+(\.\d+)?s\b"), "AGE"),
    (re.compile(r"""(resource-?[Vv]ersion"?:? ?"?|Resource Version: +)\d+"""), r"\1VERSION"),
    (re.compile(r"https://127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"\b127\.0\.0\.1:\d+"), "SERVER"),
    (re.compile(r"\b10\.96\.\d+\.\d+"), "CLUSTER-IP"),
    (re.compile(r"\b3[0-2]\d{3}\b"), "NODE-PORT"),
    # The alphabet of generated names.
    (re.compile(r"-[bcdfghjklmnpqrstvwxz2456789]{5}\b"), "-SUFFIX"),
    (re.compile(r"v1\.36\.3\+\S+"), "v1.36.3"),
    (re.compile(r"/tmp/\S+"), "FILE"),
    (re.compile(r"  +"), "  "),
    (re.compile(r" +$", re.MULTILINE), ""),
]


class Step(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One command, with its input and editor.

    `lines` is a pattern of the lines that are compared, where a real server serves more kinds;
    a command with `until` is repeated until it shows that text. With `own_words` the reason of a
    refusal is compared, but not its text, which the list of deliberate differences says to be the
    server's own. The lines of an `unordered` command come from tasks that kubectl runs at once.
    """

    run: str
    stdin: str = ""
    editor: str = ""
    lines: str = ""
    until: str = ""
    own_words: bool = False
    unordered: bool = False


class Session(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The commands of one file, and the files that they read."""

    steps: list[Step | str]
    files: Mapping[str, str] = {}

    def commands(self) -> list[Step]:
        return [Step(step) if isinstance(step, str) else step for step in self.steps]


class Shown(NamedTuple):
    """All that a user sees of one command."""

    exit_code: int
    stdout: str
    stderr: str

    def lines(self) -> list[str]:
        return [
            f"exit {self.exit_code}",
            *self.stdout.splitlines(),
            "--",
            *self.stderr.splitlines(),
        ]


def names() -> list[str]:
    return sorted(file.stem for file in FOLDER.glob("*.yaml"))


def load(name: str) -> Session:
    return msgspec.convert(yaml.safe_load((FOLDER / f"{name}.yaml").read_text()), Session)


def differences(
    name: str, session: Session, ours: Kubectl, theirs: Kubectl, folder: Path
) -> Iterator[str]:
    """The commands that do not show the same on both servers, each with the differing lines."""
    for file, content in session.files.items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode("latin-1"))  # so that a character is a byte
    with ThreadPoolExecutor(2) as pool:
        mine, wanted = pool.map(
            lambda kubectl: list(play(kubectl, f"k-{name}", session, folder)), (ours, theirs)
        )
    for step, one, other in zip(session.commands(), mine, wanted, strict=True):
        if one != other:
            yield _described(step.run, one.lines(), other.lines())


def play(kubectl: Kubectl, namespace: str, session: Session, folder: Path) -> Iterator[Shown]:
    """Run a session on one server, in a new namespace."""
    kubectl.ok("create", "namespace", namespace)
    for step in session.commands():
        deadline = time.monotonic() + UNTIL_S
        shown = show(kubectl, namespace, step, folder)
        while step.until not in shown.stdout + shown.stderr and time.monotonic() < deadline:
            time.sleep(POLL_S)
            shown = show(kubectl, namespace, step, folder)
        yield shown


def show(kubectl: Kubectl, namespace: str, step: Step, folder: Path) -> Shown:
    arguments = [word.replace("{files}", str(folder)) for word in words(step.run)]
    result = kubectl.run(
        f"--namespace={namespace}", *arguments, stdin=step.stdin, editor=step.editor
    )
    stdout, stderr = (masked(text, folder) for text in (result.stdout, result.stderr))
    if step.lines:
        wanted = re.compile(step.lines)
        stdout = "\n".join(line for line in stdout.splitlines() if wanted.search(line))
    if step.unordered:
        stdout = "\n".join(sorted(stdout.splitlines()))
    if step.own_words:
        stderr = stderr.partition(":")[0]
    return Shown(result.exit_code, stdout, stderr)


def words(command: str) -> Sequence[str]:
    """The words of a command. Only single quotes quote: JSON is full of the others."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=False)
    lexer.whitespace_split, lexer.quotes, lexer.escape, lexer.commenters = True, "'", "", ""
    return list(lexer)


def masked(text: str, folder: Path) -> str:
    text = text.replace(str(folder), "FILES")
    for pattern, word in MASKS:
        text = pattern.sub(word, text)
    return text


def _described(command: str, ours: Iterable[str], theirs: Iterable[str]) -> str:
    lines = difflib.unified_diff(list(theirs), list(ours), "theirs", "ours", lineterm="", n=1)
    return "\n".join((f"kubectl {command}", *lines))
