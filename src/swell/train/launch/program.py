"""The launcher as a program: puts its parts together for a command line, and takes them apart."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from swell.api.injection import REPORT_FILE_VARIABLE
from swell.train.bus import BusStoppedError, open_group
from swell.train.group import Group
from swell.train.launch.agent import Agent, Signals, say
from swell.train.launch.arguments import LaunchOptions, UsageError, parse
from swell.train.launch.output import Outputs
from swell.train.launch.reports import ReportFile
from swell.train.launch.rollcall import RollCallServer
from swell.train.launch.standalone import SingleNode
from swell.train.launch.starts import MODULES, ColdStart, Script, Starter, WarmStart
from swell.train.place import Place, place_of


def launch(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Run the launcher and return its exit code; UsageError for a command line that cannot be.

    BusStoppedError if it cannot take its place in the job. The text of both is one sentence.
    """
    options = parse(arguments, environ)
    for note in options.notes:
        say(note)
    place = _place(environ)
    if place is None and options.nodes_min > 1:
        raise UsageError(
            f"--nnodes asks for at least {options.nodes_min} members, and this process is no "
            "member of a job: start it in a job of Swell, or use torchrun"
        )
    signals = Signals()
    with _group(options, place, signals) as group:
        # After the group, whose own handlers are kept.
        signals.catch(options.signals)
        with _started(options, group, signals, environ) as starter:
            agent = Agent(options, group, starter, _outputs(options), signals, environ)
            return agent.run() if place is None else _run_in_job(agent, place)


def _run_in_job(agent: Agent, place: Place) -> int:
    agent.index, agent.secret = place.index, place.secret
    agent.servers = _hosts(place, "pserver")
    agent.count_listed = lambda: len(_hosts(place, place.role))
    with tempfile.TemporaryDirectory(prefix="swell-launch-") as folder:
        path = place.report or Path(folder) / "report.json"
        agent.environ = {**agent.environ, REPORT_FILE_VARIABLE: str(path)}
        agent.report = ReportFile(path)
        return agent.run()


def _outputs(options: LaunchOptions) -> Outputs:
    return Outputs(
        log_dir=options.log_dir,
        run_id=options.run_id,
        role=options.role,
        redirects=options.redirects,
        tee=options.tee,
        shown_ranks=options.shown_ranks,
        prefix_template=options.prefix_template,
    )


def _place(environ: Mapping[str, str]) -> Place | None:
    try:
        return place_of(environ)
    except (OSError, ValueError) as error:
        raise UsageError(f"the place that the operator gave cannot be read: {error}") from error


def _hosts(place: Place, role: str) -> tuple[str, ...]:
    """The endpoints of all members of a role, if the job has it."""
    try:
        return tuple((place.members / role).read_text().split())
    except OSError:
        return ()


@contextlib.contextmanager
def _group(options: LaunchOptions, place: Place | None, signals: Signals) -> Iterator[Group]:
    if place is None:
        yield SingleNode(signals.is_any)
        return
    with contextlib.closing(RollCallServer(place.address, place.secret)) as roll_call:
        group = open_group(
            place,
            minimum=options.nodes_min,
            meeting_port=roll_call.port,
            on_abort=lambda _: None,  # workers are looked at every few milliseconds
        )
        with contextlib.closing(group):
            yield group


@contextlib.contextmanager
def _started(
    options: LaunchOptions, group: Group, signals: Signals, environ: Mapping[str, str]
) -> Iterator[Starter]:
    """A way to start workers; a warm one is loaded before this member asks to join."""
    starter = _warm(options, group, signals, environ) if options.is_warm else None
    made: Starter = starter or ColdStart(_script(options, environ))
    try:
        yield made
    finally:
        made.close()


def _warm(
    options: LaunchOptions, group: Group, signals: Signals, environ: Mapping[str, str]
) -> WarmStart | None:
    shared = dict(environ)
    if options.n_local > 1:
        shared.setdefault("OMP_NUM_THREADS", "1")  # read when the framework is loaded
    modules = (*MODULES[options.framework], *options.preload)
    starter = WarmStart(_script(options, environ), modules, shared)
    reason = starter.load(lambda: group.is_leaving or signals.is_any())
    for sentence in starter.failed:
        say(f"not loaded beforehand: {sentence}")
    if not reason:
        return starter
    starter.close()
    say(f"workers are started cold: {reason}")
    return None


def _script(options: LaunchOptions, environ: Mapping[str, str]) -> Script:
    # Unbuffered, as torchrun's: a line is shown when it is printed.
    interpreter = (environ.get("PYTHON_EXEC") or sys.executable, "-u")
    return Script(
        command=options.command,
        is_module=options.is_module,
        interpreter=() if options.is_plain_command else interpreter,
    )


def main() -> int:
    """Run the launcher for the arguments of this process."""
    try:
        return launch(sys.argv[1:], os.environ)
    except UsageError as error:
        sys.stderr.write(f"error: {error}\n  see: swell launch --help\n")
        return 2
    except BusStoppedError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
