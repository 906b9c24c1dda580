"""The flags that say what nodes this machine plays, for `swell node` and `swell up`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from swell.api.core import Taint

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")

Nodes = Annotated[int, typer.Option("--nodes", min=1, help="How many nodes to play.")]
Name = Annotated[
    str, typer.Option("--name", metavar="PREFIX", help="Nodes are PREFIX-0, PREFIX-1 …")
]
Hollow = Annotated[
    bool, typer.Option("--hollow", help="Pretend: no processes, pods end as annotated.")
]
Cpu = Annotated[str, typer.Option("--cpu", help="Processors of each node.")]
Memory = Annotated[str, typer.Option("--memory", help="Memory of each node.")]
Gpu = Annotated[str, typer.Option("--gpu", help="GPUs of each node.")]
Pods = Annotated[int, typer.Option("--pods", min=1, help="Pods each node takes.")]
Labels = Annotated[
    list[str], typer.Option("--label", metavar="KEY=VALUE", help="A label of each node.")
]
Taints = Annotated[
    list[str], typer.Option("--taint", metavar="KEY[=VALUE]:EFFECT", help="A taint of each node.")
]


def pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not key or not sign:
        raise typer.BadParameter(f"{text!r} is no label; write key=value", param_hint="--label")
    return key, value


def taint(text: str) -> Taint:
    from swell.api.core import Taint

    written, _, effect = text.rpartition(":")
    key, _, value = written.partition("=")
    if not key or effect not in EFFECTS:
        raise typer.BadParameter(
            f"{text!r} is no taint; write key=value:effect, the effect one of {', '.join(EFFECTS)}",
            param_hint="--taint",
        )
    return Taint(key=key, value=value, effect=effect)
