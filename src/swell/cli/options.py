"""Options that several commands share, said once."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer


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
