"""The job that `swell run -- CMD` makes of a command line: its flags, and the caller's environment.

On the embedded cluster the command runs on this machine, so it gets what it would have had in the
caller's shell: the folder, PATH, and the active virtual or conda environment.
"""

from __future__ import annotations

import os
import secrets
import string
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, get_type_hints

import typer

from swell.api import codec
from swell.api.manifest import Document, read
from swell.api.meta import Body
from swell.api.times import format_time
from swell.cli import options
from swell.cli.command_line import USAGE, CommandError
from swell.cli.jobs.launching import add_checkpoints, launched, trains_with_library
from swell.cli.manifests import problems_in, refuse_problems
from swell.cli.options import days_or_seconds_of, seconds_of, text_of_file

ROLE, CONTAINER, IMAGE = "trainer", "aitj-trainer", "local"
MEMBERS_FOLDER = "/etc/swell-members"
# A port of this name becomes part of the pod's service; the number is that of the examples.
PORT_NAME, PORT = "aitj-24446", 24446
# As long as the suffixes of generateName.
SUFFIX_LENGTH = 5
# Stands for the file's name in messages about a job made from flags.
COMMAND_LINE = "command line"
# The caller's variables by which programs find a Python environment.
PASSED = ("VIRTUAL_ENV", "CONDA_PREFIX")


def _flag(name: str, text: str, metavar: str = "TEXT") -> object:
    return typer.Option(name, metavar=metavar, help=text, show_default=False)


@dataclass(frozen=True, slots=True)
class CommandOptions:
    """The flags that describe the job of a command; a manifest says all of it itself."""

    least: Annotated[int | None, typer.Option("--min", min=1, help="Pods at least; 1.")] = None
    most: Annotated[int | None, typer.Option("--max", min=1, help="Pods at most; as --min.")] = None
    cpu: Annotated[str, _flag("--cpu", "Processors of each pod.")] = ""
    memory: Annotated[str, _flag("--memory", "Memory of each pod.")] = ""
    gpu: Annotated[str, _flag("--gpu", "GPUs of each pod.")] = ""
    image: Annotated[str, _flag("--image", "Image, where pods are containers.")] = ""
    after: Annotated[
        list[str] | None,
        typer.Option("--after", metavar="JOB", help="Begin when this job has succeeded."),
    ] = None
    deadline: Annotated[str, _flag("--deadline", "When it should be done, or as 8h.", "TIME")] = ""
    queue: Annotated[str, _flag("--queue", "Queue of the job.", "NAME")] = ""
    priority: Annotated[str, _flag("--priority", "PriorityClass of the job.", "NAME")] = ""
    framework: Annotated[str, _flag("--framework", "Such as pytorch: its variables.")] = ""
    restart: Annotated[
        int | None, typer.Option("--restart", min=0, help="Times to restart what fails.")
    ] = None
    time_limit: Annotated[
        float | None,
        typer.Option("--time-limit", parser=seconds_of, metavar="DURATION", help="As 2h."),
    ] = None
    label: Annotated[
        list[str] | None, typer.Option("--label", metavar="KEY=VALUE", help="Label of the job.")
    ] = None
    env: Annotated[
        list[str] | None,
        typer.Option("--env", metavar="NAME[=VALUE]", help="Variable; the caller's without value."),
    ] = None
    env_file: Annotated[str, _flag("--env-file", "File of such lines.", "FILE")] = ""
    clean_env: Annotated[
        bool, typer.Option("--clean-env", help="Without PATH and environment of the caller.")
    ] = False
    nproc_per_node: Annotated[
        str, _flag("--nproc-per-node", "Workers of each pod: a number, gpu, cpu or auto.", "N")
    ] = ""
    checkpoints: Annotated[
        str, _flag("--checkpoints", "Folder of all pods, or CLAIM:DIR.", "DIR")
    ] = ""
    workdir: Annotated[str, _flag("--workdir", "Working directory; the caller's.", "DIR")] = ""
    reporting: Annotated[
        bool | None,
        typer.Option(
            "--reporting/--no-reporting",
            help="Give pods what swell.train needs; by default if the script imports it.",
            show_default=False,
        ),
    ] = None

    @property
    def resources(self) -> dict[str, str]:
        asked = {"cpu": self.cpu, "memory": self.memory, "nvidia.com/gpu": self.gpu}
        return {name: amount for name, amount in asked.items() if amount}


def command_job(
    name: str, command: Sequence[str], asked: CommandOptions, environ: Mapping[str, str]
) -> Document:
    """Return the job that runs a command. Its problems are shown as those of a manifest are."""
    if not command:
        hint = "for example: swell run -- python train.py"
        raise CommandError("there is no command after --", hint, USAGE)
    if asked.nproc_per_node:
        command = launched(command, asked.nproc_per_node)
    options.check_amounts(cpu=asked.cpu, memory=asked.memory, gpu=asked.gpu)
    name = name or random_name("run")
    reporting = _reporting(command, asked)
    spec: Body = {"replicaSpecs": {ROLE: _role(name, command, asked, environ)}}
    spec |= {"queue": asked.queue} if asked.queue else {}
    spec |= {"after": list(dict.fromkeys(asked.after))} if asked.after else {}
    spec |= {"deadline": _deadline(asked.deadline)} if asked.deadline else {}
    spec |= {"priority": asked.priority} if asked.priority else {}
    spec |= {"frameworkType": asked.framework} if asked.framework else {}
    spec |= {"reporting": reporting} if reporting is not None else {}
    spec |= {"timeLimit": max(1, round(asked.time_limit))} if asked.time_limit else {}
    metadata: Body = {"name": name}
    labels = dict(_pair(text, "--label") for text in asked.label or ())
    body: Body = {
        "apiVersion": "elasticdeeplearning.ai/v1",
        "kind": "AITrainingJob",
        "metadata": metadata | ({"labels": labels} if labels else {}),
        "spec": spec,
    }
    reading = read(codec.encode(body), COMMAND_LINE)
    refuse_problems(problems_in([reading]))
    return reading.documents[0]


def _reporting(command: Sequence[str], asked: CommandOptions) -> bool | None:
    """Return what the flag says; without it, True for scripts that import the library."""
    if asked.reporting is not None:
        return asked.reporting
    return True if trains_with_library(command, Path(asked.workdir)) else None


def _deadline(text: str) -> str:
    """The time of a deadline: as it is given, or so long after now. Checked like a manifest's."""
    try:
        return format_time(time.time() + days_or_seconds_of(text))
    except ValueError:
        return text


def add_caller(job: Body, asked: CommandOptions, environ: Mapping[str, str], folder: Path) -> None:
    """Give the job's container the caller's folder and Python environment; flags outweigh them."""
    container = job["spec"]["replicaSpecs"][ROLE]["template"]["spec"]["containers"][0]
    container.setdefault("workingDir", str(folder))
    if asked.clean_env:
        return
    given = {one["name"] for one in container.get("env") or ()}
    variables = {name: environ[name] for name in PASSED if environ.get(name)}
    path = environ.get("PATH", "")
    # Without an active environment, `python` stays the interpreter that runs Swell.
    own = "" if variables else f"{Path(sys.executable).parent}{os.pathsep if path else ''}"
    variables["PATH"] = own + path
    added = [{"name": n, "value": v} for n, v in variables.items() if v and n not in given]
    container["env"] = [*added, *(container.get("env") or ())]


def _role(
    name: str, command: Sequence[str], asked: CommandOptions, environ: Mapping[str, str]
) -> Body:
    least = asked.least or 1
    most = asked.most or least
    if least > most:
        hint = "lower --min or raise --max"
        raise CommandError(f"--min {least} is more than --max {most}", hint, USAGE)
    container: Body = {"name": CONTAINER, "image": asked.image or IMAGE, "command": list(command)}
    variables = _variables(asked, environ)
    if variables:
        container["env"] = [{"name": key, "value": value} for key, value in variables.items()]
    if asked.workdir:
        container["workingDir"] = str(Path(asked.workdir).absolute())
    if asked.resources:
        container["resources"] = {"requests": asked.resources, "limits": dict(asked.resources)}
    pod: Body = {"containers": [container]}
    role: Body = {
        "replicas": least,
        "minReplicas": least,
        "maxReplicas": most,
        "edlPolicy": "Auto" if least < most else "Never",
        "template": {"spec": pod},
    }
    if least < most:
        # Elastic in fact: its processes learn who is there, can reach each other, and a pod that
        # is lost comes again. A program that fails still fails the job, unless --restart.
        pod["volumes"] = [{"name": "members", "configMap": {"name": f"{name}-members"}}]
        container["volumeMounts"] = [{"name": "members", "mountPath": MEMBERS_FOLDER}]
        container["ports"] = [{"name": PORT_NAME, "containerPort": PORT}]
        role |= {"restartPolicy": "OnNodeFail", "restartScope": "Pod"}
    if asked.checkpoints:
        add_checkpoints(pod, asked.checkpoints)
    if asked.restart is not None:
        role |= {"restartPolicy": "OnFailure", "restartLimit": asked.restart}
    return role


def _variables(asked: CommandOptions, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of --env-file, then --env; a bare name is the caller's."""
    found: dict[str, str] = {}
    for text in [*_lines(asked.env_file), *(asked.env or ())]:
        name, equals, value = text.partition("=")
        if not name or (not equals and name not in environ):
            hint = "write NAME=VALUE, or the name of a variable that is set"
            raise CommandError(f"not a variable: {text!r}", hint, USAGE)
        found[name] = value if equals else environ[name]
    return found


def _lines(file: str) -> list[str]:
    """Return the lines of a file, without comments and empty ones."""
    if not file:
        return []
    lines = (line.strip() for line in text_of_file(file).splitlines())
    return [line.removeprefix("export ") for line in lines if line and not line.startswith("#")]


def given_flags(asked: CommandOptions) -> list[str]:
    """Return the flags that were given a value of their own."""
    hints = get_type_hints(CommandOptions, include_extras=True)
    given = [one.name for one in fields(asked) if getattr(asked, one.name) != one.default]
    # What typer takes for the default of an annotation is its first name.
    return [str(hints[name].__metadata__[0].default) for name in given]


def _pair(text: str, flag: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise CommandError(f"{flag}: {text!r} is no pair", "write KEY=VALUE", USAGE)
    return name, value


def random_name(prefix: str) -> str:
    """Return a name that is free, most likely."""
    letters = string.ascii_lowercase + string.digits
    return f"{prefix}-{''.join(secrets.choice(letters) for _ in range(SUFFIX_LENGTH))}"
