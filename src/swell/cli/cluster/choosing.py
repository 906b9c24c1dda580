"""The commands `swell cluster` and `use`: which cluster commands talk to, and a lasting choice."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from swell.cli import options
from swell.cli.choice import (
    RULES,
    ClusterChoice,
    NoClusterError,
    choose_running_or_not,
    state_folder,
)
from swell.cli.command_line import CommandError, note
from swell.cli.connection import access_of, current_environment
from swell.cli.error_texts import CHECK_KUBECONFIG
from swell.cli.options import ClusterOptions, option_groups
from swell.cli.saved_choice import (
    LAST_USED,
    SavedChoice,
    SavedChoiceError,
    forget_saved_choice,
    read_saved_choice,
    saved_choice_file,
    write_saved_choice,
)
from swell.cluster.home import is_running

EMBEDDED, FORGET = "embedded", "-"
_HEADING = "A command asks the first of these that applies:"


@option_groups
def cluster(*, output: options.JsonOption = None, flags: ClusterOptions) -> None:
    """Tell which cluster commands talk to, and why."""
    try:
        choice = choose_running_or_not(flags, current_environment())
    except NoClusterError as error:
        raise CommandError(str(error), error.hint) from error
    is_up = not choice.embedded or is_running(choice.kubeconfigs[0].parent)
    if output is options.JsonFormat.JSON:
        from swell.cli.output import to_json

        sys.stdout.write(to_json(_facts(choice, is_up=is_up)))
        return
    lines = [
        f"cluster: {_title(choice)}",
        f"server:  {access_of(choice).server if is_up else 'not running; start it: swell up'}",
        f"chosen:  {choice.by.value}",
    ]
    if choice.rival:
        lines.append(f"beside:  KUBECONFIG names {choice.rival}; commands that write ask which")
    rules = [
        f"{'*' if rule is choice.by else ' '} {number}. {rule.value}"
        for number, rule in enumerate(RULES, 1)
    ]
    sys.stdout.write("\n".join([*lines, "", _HEADING, *rules, ""]))


def use(
    which: Annotated[
        str, typer.Argument(metavar="embedded|CONTEXT|-", help="The cluster; - forgets the choice.")
    ],
    *,
    kubeconfig: options.Kubeconfig = "",
) -> None:
    """Choose the cluster of all further commands, until flags or SWELL_HOME say otherwise."""
    path = saved_choice_file(os.environ, Path.home())
    if which == FORGET:
        had_one = forget_saved_choice(path)
        note("the choice is forgotten" if had_one else "there was no choice")
        return
    if which == EMBEDDED:
        write_saved_choice(path, SavedChoice())
        note("commands go to the embedded cluster from now on")
    else:
        files = _kubeconfig_files(kubeconfig)
        server = _server_of(files, which)
        write_saved_choice(path, SavedChoice(which, tuple(map(str, files))))
        note(f"commands go to {which} ({server}) from now on")
    if os.environ.get("SWELL_HOME"):
        note("  SWELL_HOME is set and comes first: unset it")


def remember_embedded() -> None:
    """Record that the embedded cluster of the default place was used last.

    A choice of the user's stays, and is named: commands will not go to the cluster that begins.
    """
    if os.environ.get("SWELL_HOME"):
        return  # which names that cluster for as long as it is set
    path = saved_choice_file(os.environ, Path.home())
    try:
        saved = read_saved_choice(path)
        if saved is None:
            write_saved_choice(path, LAST_USED)
        elif saved.context:
            hint = "swell use embedded changes that"
            note(f"commands go to {saved.context}, as chosen before; {hint}")
    except (SavedChoiceError, OSError) as error:
        # The cluster can be used without it: it is found as long as it runs.
        sys.stderr.write(f"warning: the choice of this cluster is not kept: {error}\n")


def _title(choice: ClusterChoice) -> str:
    if choice.embedded:
        return f"the embedded cluster in {choice.kubeconfigs[0].parent}"
    files = os.pathsep.join(map(str, choice.kubeconfigs))
    return f"{access_of(choice).context}{f' in {files}' if files else ''}"


def _facts(choice: ClusterChoice, *, is_up: bool) -> dict[str, object]:
    access = access_of(choice) if is_up else None
    return {
        "embedded": choice.embedded,
        "running": is_up,
        "server": access.server if access else None,
        "context": access.context if access else None,
        "kubeconfigs": [str(path) for path in choice.kubeconfigs],
        "chosenBy": choice.by.name,
        "rival": choice.rival or None,
    }


def _kubeconfig_files(asked: str) -> list[Path]:
    """Return the files in which a context is looked for, as absolute paths: they are kept."""
    home = Path.home()
    named = asked or os.environ.get("KUBECONFIG", "") or str(home / ".kube" / "config")
    own = state_folder(os.environ, home) / "kubeconfig"
    files = [Path(part).absolute() for part in named.split(os.pathsep) if part]
    return [file for file in files if file != own] or [home / ".kube" / "config"]


def _server_of(files: list[Path], context: str) -> str:
    from swell.cluster.kube.access import AccessError
    from swell.cluster.kube.kubeconfig import read_kubeconfig

    try:
        return read_kubeconfig(files, context).server
    except AccessError as error:
        raise CommandError(str(error), CHECK_KUBECONFIG) from error
