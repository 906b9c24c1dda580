"""The `swell` command: finds the subcommand, loads it and nothing else, and ends cleanly.

A subcommand is one line in COMMANDS. Its module is imported only when it is asked for, so that
`swell --help` and quick commands stay quick; this file imports nothing that they can do without.
"""

from __future__ import annotations

import os
import sys

from swell.cli.command_line import (
    END_OF_OPTIONS,
    INTERRUPTED,
    USAGE,
    CommandError,
    Quietness,
    collect_seldom,
)

TYPE_CHECKING = False  # that of `typing` is slow to load
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, TextIO

    import typer

    from swell.cli.invocation import Invocation

# Name, module and attribute, and the overview's text. A typer.Typer is a group of commands.
COMMANDS: tuple[tuple[str, str, str], ...] = (
    ("up", "swell.cli.cluster.up:up", "Run a whole cluster on this machine."),
    ("down", "swell.cli.cluster.up:down", "Stop that cluster, and all it runs."),
    ("cluster", "swell.cli.cluster.choosing:cluster", "Tell which cluster commands talk to."),
    ("use", "swell.cli.cluster.choosing:use", "Choose the cluster of all further commands."),
    (
        "dashboard",
        "swell.cli.cluster.dashboard:dashboard",
        "Serve the page of a cluster: jobs, queues, nodes, history.",
    ),
    ("run", "swell.cli.jobs.run:run", "Submit a job, print what it prints, end as it ends."),
    (
        "sweep",
        "swell.cli.sweeps.command:sweep",
        "Run a command for every row of parameters, each in a job.",
    ),
    ("attach", "swell.cli.jobs.run:attach", "Follow a job that was submitted."),
    ("launch", "swell.cli.jobs.launch:launch", "Run a training script, in place of torchrun."),
    ("logs", "swell.cli.jobs.log_command:logs", "Print what the containers of a job have printed."),
    ("exec", "swell.cli.pods.command:execute", "Run a command in a container of a pod."),
    ("cp", "swell.cli.pods.command:copy", "Copy files to and from containers."),
    (
        "port-forward",
        "swell.cli.pods.command:port_forward",
        "Let local ports lead to ports of a pod.",
    ),
    ("apply", "swell.cli.objects.apply:apply", "Create or update objects from manifests."),
    ("create", "swell.cli.objects.creating:app", "Create objects, and only new ones."),
    ("patch", "swell.cli.objects.patching:patch", "Change some fields of objects."),
    ("diff", "swell.cli.objects.editing:diff", "Show what apply would change."),
    ("edit", "swell.cli.objects.editing:edit", "Change an object in your editor."),
    ("replace", "swell.cli.objects.apply:replace", "Delete objects and create them anew."),
    ("get", "swell.cli.objects.get:get", "Show objects: jobs, or those of a kind."),
    (
        "describe",
        "swell.cli.objects.commands:describe",
        "Tell all about objects, with their events.",
    ),
    ("delete", "swell.cli.objects.commands:delete", "Delete objects and wait until they are gone."),
    ("events", "swell.cli.objects.listing:events", "Show what has happened, the oldest first."),
    ("wait", "swell.cli.objects.waiting:wait", "Wait until a condition holds for objects."),
    ("label", "swell.cli.objects.marking:label", "Set or remove labels of objects."),
    ("annotate", "swell.cli.objects.marking:annotate", "Set or remove annotations of objects."),
    (
        "history",
        "swell.cli.history.command:history",
        "Show what became of jobs, also of deleted ones.",
    ),
    (
        "report",
        "swell.cli.history.report_command:report",
        "Write what became of jobs as one HTML file.",
    ),
    ("explain", "swell.cli.explain.command:explain", "Tell why a job waits, or what fields mean."),
    ("top", "swell.cli.objects.top:top", "Show sizes of jobs and the cluster's load, refreshing."),
    ("stop", "swell.cli.jobs.stopping:stop", "End jobs; their records and logs stay."),
    ("fail", "swell.cli.jobs.stopping:fail", "The older form of stop."),
    ("preempt", "swell.cli.jobs.stopping:preempt", "The older form of stop --as Preempted."),
    ("retry", "swell.cli.sweeps.retry:retry", "Run jobs again that have ended."),
    ("scale", "swell.cli.jobs.scaling:scale", "Set the size of a job's roles."),
    ("suspend", "swell.cli.jobs.suspension:suspend", "Take all pods from jobs, for a while."),
    ("resume", "swell.cli.jobs.suspension:resume", "Let suspended jobs queue anew."),
    ("queue", "swell.cli.queue.command:app", "Create, show, close, open and delete queues."),
    ("chaos", "swell.cli.cluster.chaos:app", "Break things on purpose: kill pods and nodes."),
    ("cordon", "swell.cli.objects.marking:cordon", "Keep new pods away from nodes."),
    ("uncordon", "swell.cli.objects.marking:uncordon", "Let new pods onto nodes again."),
    ("taint", "swell.cli.objects.tainting:taint", "Set or remove taints of nodes."),
    (
        "trust",
        "swell.cli.objects.node_faults:trust",
        "Forget the failures that jobs blame on nodes.",
    ),
    ("drain", "swell.cli.objects.draining:drain", "Move the pods of nodes elsewhere."),
    ("auth", "swell.cli.objects.rights:app", "Tell what you may do."),
    (
        "api-resources",
        "swell.cli.objects.listing:api_resources",
        "Show the kinds that the cluster serves.",
    ),
    ("backup", "swell.cli.cluster.store:backup", "Copy what the embedded cluster has stored."),
    ("restore", "swell.cli.cluster.store:restore", "Put such a copy back."),
    ("check", "swell.cli.cluster.store:check", "Read the whole store and tell what is wrong."),
    ("user", "swell.cli.cluster.users:app", "Let others in, with rights and tokens that expire."),
    ("rotate", "swell.cli.cluster.rotation:app", "Replace the cluster's token or certificate."),
    ("validate", "swell.cli.manifests:validate", "Check manifests, without a cluster."),
    ("render", "swell.cli.manifests:render", "Print jobs with their defaults filled in."),
    ("crds", "swell.cli.manifests:crds", "Print our CustomResourceDefinitions."),
    ("plan", "swell.cli.plan.command:app", "Decide without a cluster: what would happen."),
    ("replay", "swell.cli.replay:replay", "Run a trace of jobs in virtual time, by any policy."),
    ("node", "swell.cli.controllers.standalone:node", "Run pods on this machine, or hollow nodes."),
    ("operator", "swell.cli.controllers.operator:operator", "Run the job controllers."),
    ("scheduler", "swell.cli.controllers.scheduler:scheduler", "Run the gang scheduler."),
    ("server", "swell.cli.controllers.standalone:server", "Run the embedded API server alone."),
    ("uninstall", "swell.cli.cluster.uninstall:uninstall", "Take Swell out of a cluster."),
    ("completion", "swell.cli.about:completion", "Print a script for your shell."),
    ("version", "swell.cli.about:version", "Print the versions of client and server."),
)
_MODULES = {name: module for name, module, _ in COMMANDS}
# Commands that take a command of the user's after `--`, which must reach them unparsed.
_TAKES_COMMAND = frozenset({"exec", "run", "sweep"})
# Commands that read their arguments themselves: those of another program, whose place they take.
_READS_ARGUMENTS = frozenset({"launch"})
# Asked by the scripts of `swell completion`, for what could follow; no command of people's.
_COMPLETE = "__complete"
QUIET = "--quiet"
_HELP = frozenset({"-h", "--help", "help"})


def run(arguments: Sequence[str]) -> int:
    """Run one command line and return its exit code. Errors end in one sentence on stderr."""
    arguments = _without_quiet(arguments)
    try:
        return _dispatch(arguments)
    except CommandError as error:
        return _refuse(error)
    except ModuleNotFoundError as error:
        from swell.cli.extras import missing_extra

        return _refuse(missing_extra(error))
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # The reader of the pipe has closed it, as `head` does. Python flushes stdout at exit,
        # which would fail again: point it at nothing.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        from pathlib import Path

        from swell.cli.choice import state_folder
        from swell.cli.error_texts import from_os_error

        return _refuse(from_os_error(error, state_folder(os.environ, Path.home())))


def _dispatch(arguments: Sequence[str]) -> int:
    if list(arguments) in (["--version"], ["-V"]):
        return _run_command(["version"])
    if list(arguments[:1]) == ["help"] and arguments[1:]:
        return _run_command([*arguments[1:], "--help"])
    if not arguments or arguments[0] in _HELP:
        return _show_overview(sys.stdout if arguments else sys.stderr)
    if arguments[0] == _COMPLETE:
        from swell.cli.completing import print_candidates

        return print_candidates(arguments[1:])
    if arguments[0] == "get":
        from swell.cli.quick import try_get

        code = try_get(arguments[1:], os.environ)
        if code is not None:
            return code
    return _run_command(arguments)


def _without_quiet(arguments: Sequence[str]) -> list[str]:
    """Take `--quiet` out of a command line: every command has it, before or behind its name."""
    rest = list(arguments)
    end = rest.index(END_OF_OPTIONS) if END_OF_OPTIONS in rest else len(rest)
    # What another program reads is that program's.
    if set(rest[:1]) & _READS_ARGUMENTS:
        end = 0
    kept = [word for word in rest[:end] if word != QUIET]
    Quietness.is_on = len(kept) < end
    return [*kept, *rest[end:]]


def _refuse(error: CommandError) -> int:
    from swell.cli.output import printable

    sys.stderr.write("".join(f"{printable(line)}\n" for line in error.details))
    sys.stderr.write(f"error: {printable(str(error))}\n")
    if error.hint:
        sys.stderr.write(f"  {printable(error.hint)}\n")
    return error.exit_code


def _run_command(arguments: Sequence[str]) -> int:
    name = arguments[0]
    if name not in _MODULES:
        raise CommandError(f"there is no command {name!r}", _hint_for(name), USAGE)
    from importlib import import_module

    module, _, attribute = _MODULES[name].partition(":")
    if name in _READS_ARGUMENTS:
        code: int = getattr(import_module(module), attribute)(list(arguments[1:]))
        return code
    import typer

    from swell.cli.booleans import with_plain_flags
    from swell.cli.invocation import Invocation, split

    invocation = split(arguments) if name in _TAKES_COMMAND else Invocation(tuple(arguments))
    parser = parser_of(name)
    # The base of all complaints about a command line, which typer does not export by its name.
    usage_error: type[typer.BadParameter] = typer.BadParameter.__mro__[1]
    try:
        ended = parser(
            with_plain_flags(parser, invocation.arguments),
            prog_name="swell",
            obj=invocation,
            standalone_mode=False,
        )
    except usage_error as error:
        path = error.ctx.command_path if error.ctx is not None else f"swell {name}"
        raise CommandError(*_usage_texts(error, path, invocation), USAGE) from error
    except SystemExit as left:
        ended = left.code
    return ended if isinstance(ended, int) else 0


def _hint_for(name: str) -> str:
    """Return what to type in place of a command that is not there."""
    import difflib

    from swell.cli.foreign_commands import hint_for_command

    # Another program's command, or else a typing error.
    if known := hint_for_command(name):
        return f"here it is: {known}"
    near = difflib.get_close_matches(name, _MODULES, 1)
    return f"did you mean: swell {near[0]}" if near else "see: swell --help"


def parser_of(name: str) -> Any:
    """Return the parser of a command line that begins with this command."""
    from importlib import import_module

    import typer

    module, _, attribute = _MODULES[name].partition(":")
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.callback()(_several)
    found = getattr(import_module(module), attribute)
    if isinstance(found, typer.Typer):
        app.add_typer(found, name=name)
    else:
        app.command(name)(found)
    return typer.main.get_command(app)


def _usage_texts(error: typer.BadParameter, path: str, invocation: Invocation) -> tuple[str, str]:
    """Return the sentence and the hint for a command line that could not be parsed."""
    message = error.format_message().rstrip(".")
    if path == "swell cluster" and message.startswith("Got unexpected extra"):
        return message, "swell use CONTEXT chooses one; swell cluster tells which is asked"
    if message.startswith("Usage: "):  # a group of commands without one of them
        return "which of its commands?", f"see: {path} --help"
    name, rest = invocation.arguments[0], invocation.arguments[1:]
    if known := _flag_hint(error, name):
        return message.partition(" (Possible options")[0], known
    if message.startswith("No such command "):
        from swell.cli.foreign_commands import hint_for_group

        known = hint_for_group(name, next((one for one in rest if not one.startswith("-")), ""))
        return message, known or f"see: {path} --help"
    plain = [at for at, word in enumerate(rest) if not word.startswith("-")]
    plain = plain[1:] if name == "exec" else plain  # the first is the pod
    if name in _TAKES_COMMAND and invocation.command is None and plain:
        flags, command = rest[: plain[0]], rest[plain[0] :]
        if not os.path.exists(command[0]):  # noqa: PTH110 - pathlib is slow to load
            meant = " ".join(["swell", name, *flags, END_OF_OPTIONS, *command])
            return message, f"put -- before the command: {meant}"
    return message, f"see: {path} --help"


def _flag_hint(error: typer.BadParameter, name: str) -> str:
    """Return what helps with a flag: its name here, or how a duration is written."""
    from swell.cli.foreign_commands import hint_for_flag
    from swell.cli.options import DURATION_HINT, days_or_seconds_of, seconds_of

    # Only errors about the value of an option know it.
    read_by = getattr(getattr(getattr(error, "param", None), "type", None), "func", None)
    if read_by in {days_or_seconds_of, seconds_of}:
        return DURATION_HINT + (", or 7d" if read_by is days_or_seconds_of else "")
    return hint_for_flag(name, str(getattr(error, "option_name", "")))


def _several() -> None:
    """Do nothing. A callback makes typer expect the command's name, though only one is loaded."""


def _show_overview(out: TextIO) -> int:
    """Print the overview. Asked for, it goes to stdout and is a success; otherwise it is usage."""
    out.write(_overview())
    out.flush()
    return 0 if out is sys.stdout else USAGE


def _overview() -> str:
    width = max(len(name) for name, _, _ in COMMANDS)
    lines = [f"  {name:<{width}}  {text}" for name, _, text in COMMANDS]
    return "\n".join(
        [
            "Usage: swell COMMAND [OPTIONS]",
            "",
            "Elastic deep-learning jobs: on one machine, and on Kubernetes.",
            "",
            "Commands:",
            *lines,
            "",
            "swell COMMAND --help tells more about one of them. With --quiet a command writes",
            "only warnings and errors to stderr.",
            "",
        ]
    )


def main() -> None:
    collect_seldom()
    _open_standard_streams()
    sys.exit(run(sys.argv[1:]))


def _open_standard_streams() -> None:
    """Open standard streams that the caller has closed.

    Otherwise the next file that is opened gets the number 0, 1 or 2, and output goes into it.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            os.open(os.devnull, os.O_RDWR)  # takes the lowest free number, which is this one
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))


if __name__ == "__main__":
    main()
