"""The commands `swell version` and `swell completion`: about the command itself."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import Annotated

import typer

from swell.cli import options
from swell.cli.command_line import CommandError
from swell.cli.options import ClusterOptions, option_groups

# The script asks the program itself, which knows commands, flags, their values, kinds and names.
# `-o default` lets the shell offer files where the program has nothing to offer.
BASH = """\
_swell() {
  local IFS=$'\\n' word=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=($(swell __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
  # bash takes `=` for the end of a word.
  [ "$word" = "=" ] && COMPREPLY=()
  return 0
}
complete -o default -F _swell swell
"""
ZSH = """\
#compdef swell
_swell() {
  local -a found
  found=("${(@f)$(swell __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
  if [ -n "$found" ]; then compadd -- "${found[@]}"; else _files; fi
}
compdef _swell swell
"""
FISH = """\
function __swell_complete
  set -l line (commandline -opc) (commandline -ct)
  swell __complete $line[2..-1] 2>/dev/null
end
complete -c swell -a "(__swell_complete)"
"""


class CompletionShell(StrEnum):
    """Shells that a completion script can be printed for."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


SCRIPTS = {CompletionShell.BASH: BASH, CompletionShell.ZSH: ZSH, CompletionShell.FISH: FISH}


@option_groups
def version(
    *,
    client: Annotated[bool, typer.Option("--client", help="Ask no cluster.")] = False,
    output: options.JsonOption = None,
    cluster: ClusterOptions,
) -> None:
    """Print the versions of client and server; without a server, only the client's."""
    from swell import __version__
    from swell.cli.output import to_json

    server = None if client else _server_version(cluster)
    if output is options.JsonFormat.JSON:
        sys.stdout.write(to_json({"client": __version__, "server": server}))
        return
    shown = "" if client else f"server {server or 'none'}\n"
    sys.stdout.write(f"client {__version__}\n{shown}")


def completion(shell: Annotated[CompletionShell, typer.Argument(help="Which shell.")]) -> None:
    """Print a script for a shell; try: source <(swell completion bash)"""
    sys.stdout.write(script_for(shell))


def script_for(shell: CompletionShell) -> str:
    """Return the script of a shell."""
    return SCRIPTS[shell]


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
