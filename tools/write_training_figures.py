"""Writes docs/training-figures.md and its picture from what `bench training` has kept.

Files that are named take part in it first: results of runs on other machines, whose events replace
those of their ways and events, or with `MORE=1` are added to them.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import string
import sys
from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path

from bench.training_at_once import Found, add_events, merged
from bench.training_figures import CHANGES, Events, Row, rows

DOCS = Path(__file__).parents[1] / "docs"
RESULT = DOCS / "training-figures.json"
PAGE = DOCS / "training-figures.md"
PICTURE = DOCS / "pictures" / "pauses.svg"

WIDTH, LEFT, RIGHT = 760, 190, 70
LINE, HEAD, TOP, BOTTOM = 20, 30, 40, 44
# The axis is logarithmic: pauses differ a hundredfold.
AXIS_S = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
FONT = 'font-family="sans-serif" font-size="12" fill="#333"'
COLOURS = {"library": "#1b6ca8", "launcher": "#2e933c", "torchrun": "#d1495b"}

INTRO = """\
# Figures of elastic training

Written by `python -m tools.write_training_figures` from [the events](training-figures.json) that
the bench has kept; do not edit.

Four members of one job on `swell up`: real operator, scheduler and node agent, real PyTorch, JAX
and PaddlePaddle, on two processors. A *pause* is the longest time in which a member that stays has
done no step, from the event until every member of the new group has done one. *Load* is the load
average of the machine at the events, the job's own four processes included: rows with more than 10
were taken beside far more other work than a job should have. Each row has `n` events; *worst* is
the worst single one of them; *on* says by a letter on which machine, as listed below the table.

![pauses of survivors, by event and by way](pictures/pauses.svg)

Every dot is one event, every bar ends at the median; the axis is logarithmic.

"""

OUTRO = """\

Where a machine has 16 processors, eight ways were measured at once, each on two processors of its
own: the load there is that of all eight together.

What the words mean:

- *Full size again, after the load*: from the moment at which the new processes have imported
  their framework and built the model, until all four have done a step together. *In all* it takes
  as long as a pod takes to start and a framework to load besides.
- *Preempted whole*: a job of higher priority takes the node, all four members save and leave;
  when it is gone they are started again, and go on.
- *Frozen*: all processes of one member are stopped (SIGSTOP). No answer is not death, so the
  others wait until its line has been silent for 10 s, and go on without it as they are most of
  the group.
- *torchrun* runs a plain DDP script that saves after every step, with the variables that the
  operator sets; the launcher and torchrun's `swell` backend run the same script. Its *leader* is
  the member that keeps the agents' store: when it dies all other agents end, and the operator
  starts them again. *With a keeper*, a pod in which nothing but that store runs, or *with a
  file* in a folder that all members share, there is no such member
  ([how](launch.md#when-the-keeper-of-the-store-dies)).

## How they were taken

```
make .venv/torch/.ready .venv/paddle/.ready .venv/.examples     # what `make e2e` installs
RESULT=docs/training-figures.json .venv/bin/python -m bench training   # ROUNDS=10; WAYS=name,name
.venv/bin/python -m tools.write_training_figures
```

A run of one way replaces its events in the file and leaves the others, so that ways can be
measured one after the other; with `MORE=1` it adds to them. Each event has its machine and load.
`python -m bench launching` runs those without the library. With `AT_ONCE=1` the ways are measured
at once, each on two processors of its own, and end after `WITHIN_MINUTES` (8); one that is named
twice in `WAYS` is measured twice, and what was measured is in the file all the time.
`SWELL_TORCH_PYTHON`, `SWELL_JAX_PYTHON` and `SWELL_PADDLE_PYTHON` name interpreters that have the
frameworks. On a machine without a network whose own Python has them, the wheels of
`requirements/core.txt` are enough, unpacked into a folder:

```
for wheel in wheels/*.whl; do python3 -m zipfile -e "$wheel" core; done
export PYTHONPATH="$PWD/src:$PWD/core" SWELL_TORCH_PYTHON="$(command -v python3)"
AT_ONCE=1 ROUNDS=100 RESULT=figures.json python3 -m bench training
```

`python -m tools.write_training_figures figures.json` takes such results over. A way `on a GPU` has
the state of its four members on one, by NCCL.
"""


def page(found: Events) -> str:
    return INTRO + "\n".join(_table(rows(found))) + "\n" + OUTRO


def _table(found: Sequence[Row]) -> Iterator[str]:
    machines = list(dict.fromkeys(one for row in found for one in row.machines))
    letters = dict(zip(machines, string.ascii_uppercase, strict=False))
    yield "| event | bound | median | worst | n | load | on | |"
    yield "| --- | --- | --- | --- | --- | --- | --- | --- |"
    for row in found:
        *cells, verdict = row.cells()
        on = " ".join(letters[one] for one in row.machines) or "-"
        yield f"| {' | '.join([*cells, on, verdict])} |"
    yield ""
    for machine, letter in letters.items():
        yield f"- **{letter}**: {machine}"


def picture(found: Events) -> str:
    """The pauses of all ways, event by event, as the text of an SVG file."""
    ways = list(found)
    height = TOP + len(CHANGES) * (HEAD + LINE * len(ways)) + BOTTOM
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}">',
        "<title>Pauses of survivors when a training job changes</title>",
        f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>',
        f'<text x="{LEFT}" y="24" {FONT} font-weight="bold">seconds without a step</text>',
    ]
    for second in AXIS_S:
        x = _x(second)
        lines.append(f'<path d="M{x:.1f} {TOP}V{height - BOTTOM}" stroke="#ddd"/>')
        label = f'<text x="{x:.1f}" y="{height - BOTTOM + 18}" {FONT} text-anchor="middle">'
        lines.append(f"{label}{second:g}</text>")
    y = TOP
    for event in CHANGES:
        y += HEAD
        lines.append(f'<text x="8" y="{y - 8}" {FONT} font-weight="bold">{escape(event)}</text>')
        for way in ways:
            lines += _bar(way, [float(one["pause_s"]) for one in found[way].get(event, [])], y)
            y += LINE
    return "\n".join([*lines, "</svg>", ""])


def _bar(way: str, pauses: Sequence[float], y: int) -> Iterator[str]:
    colour = next(shade for name, shade in COLOURS.items() if way.startswith(name))
    yield f'<text x="{LEFT - 8}" y="{y + 13}" {FONT} text-anchor="end">{escape(way)}</text>'
    if not pauses:
        return
    median = statistics.median(pauses)
    width = _x(median) - LEFT
    yield f'<rect x="{LEFT}" y="{y + 4}" width="{width:.1f}" height="11" fill="{colour}"/>'
    for one in pauses:
        yield f'<circle cx="{_x(one):.1f}" cy="{y + 9.5}" r="2.5" fill="#333" opacity="0.6"/>'
    x = max(_x(max(pauses)), LEFT) + 8
    yield f'<text x="{x:.1f}" y="{y + 13}" {FONT}>{median:.2f}</text>'


def _x(seconds: float) -> float:
    low, high = math.log(AXIS_S[0]), math.log(AXIS_S[-1])
    share = (math.log(max(seconds, AXIS_S[0])) - low) / (high - low)
    return LEFT + share * (WIDTH - RIGHT - LEFT)


def taken_over(found: Found, others: Sequence[Found], *, adds: bool) -> Found:
    """The kept events with those of other runs."""
    news: Found = {}
    for other in others:
        add_events(news, other)
    return found | {way: merged(found.get(way, {}), news[way], adds=adds) for way in news}


def main() -> int:
    found: Found = json.loads(RESULT.read_text())
    if others := [json.loads(Path(name).read_text()) for name in sys.argv[1:]]:
        found = taken_over(found, others, adds=bool(os.environ.get("MORE")))
        RESULT.write_text(json.dumps(found, indent=1) + "\n")
    PAGE.write_text(page(found))
    PICTURE.write_text(picture(found))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
