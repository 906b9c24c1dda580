"""`swell completion`: a script that lets a shell finish the names of commands and of jobs."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from swell.cli.main import COMMANDS

# Commands whose first word is the name of a job.
OF_JOBS = ("delete", "describe", "explain", "fail", "get", "logs", "preempt", "scale")

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
ZSH = "autoload -U +X bashcompinit && bashcompinit\n" + BASH
FISH = """\
complete -c swell -n __fish_use_subcommand -f -a "{commands}"
complete -c swell -n "__fish_seen_subcommand_from {words}" \\
  -a "(swell get -o name 2>/dev/null | cut -d/ -f2)"
"""


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {Shell.BASH: BASH, Shell.ZSH: ZSH, Shell.FISH: FISH}


def completion(shell: Annotated[Shell, typer.Argument(help="Which shell.")]) -> None:
    """Print a script for a shell; try: source <(swell completion bash)"""
    sys.stdout.write(script_for(shell))


def script_for(shell: Shell) -> str:
    commands = " ".join(name for name, _, _ in COMMANDS)
    text = SCRIPTS[shell].replace("{commands}", commands)
    return text.replace("{jobs}", "|".join(OF_JOBS)).replace("{words}", " ".join(OF_JOBS))
