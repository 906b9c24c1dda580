"""Options that several commands share, said once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from swell.cli.failure import CommandError


class Output(StrEnum):
    """Formats of an answer; the default is a table."""

    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"
    NAME = "name"


Kubeconfig = Annotated[
    str, typer.Option("--kubeconfig", metavar="FILE", help="Kubeconfig file.", show_default=False)
]
Context = Annotated[
    str, typer.Option("--context", metavar="NAME", help="Kubeconfig context.", show_default=False)
]
Embedded = Annotated[bool, typer.Option("--embedded", help="The embedded cluster.")]
Namespace = Annotated[
    str, typer.Option("-n", "--namespace", metavar="NAME", help="Namespace.", show_default=False)
]
AllNamespaces = Annotated[bool, typer.Option("-A", "--all-namespaces", help="Every namespace.")]
Labels = Annotated[
    str, typer.Option("-l", "--selector", metavar="LABELS", help="Label selector, as key=value.")
]
Format = Annotated[
    Output | None, typer.Option("-o", "--output", help="Format; a table without it.")
]
Files = Annotated[
    list[str], typer.Option("-f", "--filename", metavar="FILE", help="Manifest; - is stdin.")
]


def check_amounts(*, cpu: str, memory: str, gpu: str) -> None:
    """Refuse what is no amount of something, by the name of the flag that says it."""
    from swell.node.machine import GPU, CapacityError, canonical

    given = {"cpu": cpu, "memory": memory, GPU: gpu}
    try:
        canonical({name: text for name, text in given.items() if text})
    except CapacityError as error:
        raise CommandError(str(error), "write it as 4, 500m or 2Gi", exit_code=2) from error
