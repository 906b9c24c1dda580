"""The commands `swell version` and `swell completion`: about the command itself."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.options import ClusterOptions, option_groups

# Commands whose first argument is the name of a job.
JOB_COMMANDS = (
    "delete",
    "describe",
    "explain",
    "fail",
    "get",
    "logs",
    "preempt",
    "resume",
    "scale",
    "suspend",
)

BASH = """\
_swell() {
  local word=${COMP_WORDS[COMP_CWORD]}
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "{commands}" -- "$word"))
  else
    case "${COMP_WORDS[1]}" in
      {jobs})
        COMPREPLY=($(compgen -W "$(swell get -o name 2>/dev/null | cut -d/ -f2)" -- "$word")) ;;
    esac
  fi
}
complete -o default -F _swell swell
"""
# zsh runs bash's script in its compatibility mode.
ZSH = "autoload -U +X bashcompinit && bashcompinit\n" + BASH
FISH = """\
complete -c swell -n __fish_use_subcommand -f -a "{commands}"
complete -c swell -n "__fish_seen_subcommand_from {words}" \\
  -a "(swell get -o name 2>/dev/null | cut -d/ -f2)"
"""


class CompletionShell(StrEnum):
    """Shells that a completion script can be printed for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {CompletionShell.BASH: BASH, CompletionShell.ZSH: ZSH, CompletionShell.FISH: FISH}


@option_groups
def version(*, output: options.JsonOption = None, cluster: ClusterOptions) -> None:
    """Print the versions of client and server; without a server, only the client's."""
    from swell import __version__
    from swell.cli.output import to_json

    server = _server_version(cluster)
    if output is options.JsonFormat.JSON:
        sys.stdout.write(to_json({"client": __version__, "server": server}))
        return
    sys.stdout.write(f"client {__version__}\nserver {server or 'none'}\n")


def completion(shell: Annotated[CompletionShell, typer.Argument(help="Which shell.")]) -> None:
    """Print a script for a shell; try: source <(swell completion bash)"""
    sys.stdout.write(script_for(shell))


def script_for(shell: CompletionShell) -> str:
    """Return the shell's script with the names of all commands filled in."""
    from swell.cli.main import COMMANDS

    commands = " ".join(name for name, _, _ in COMMANDS)
    text = SCRIPTS[shell].replace("{commands}", commands)
    return text.replace("{jobs}", "|".join(JOB_COMMANDS)).replace("{words}", " ".join(JOB_COMMANDS))


def _server_version(cluster: ClusterOptions) -> str | None:
    # Imported here: a shell that starts up runs `completion`, which talks to no cluster.
    from swell.api import codec
    from swell.cli.connection import connected
    from swell.cluster.kube.calls import raw

    try:
        with connected(cluster) as connection:
            answer = codec.decode(connection.client.send(raw("/version")), dict)
    except CommandError:
        return None  # no cluster is an ordinary answer here
    found = answer.get("gitVersion")
    return found if isinstance(found, str) else None
