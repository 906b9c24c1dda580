"""The report of jobs as one HTML file, without scripts or references to the outside. Pure.

Whatever users and programs have named or printed is escaped on its way in: `text` is the only way
by which a value becomes part of the page.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from itertools import chain, repeat

from swell.api.times import format_time
from swell.history.ledger import LOST, LedgerCause, ledger_of
from swell.history.life import JobLife
from swell.history.pictures import curve, legend, lifeline
from swell.history.pods import cost_of
from swell.history.summary import last_size, length_text

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
_STYLE = """
:root{color-scheme:light dark;--ink:#1b1f24;--soft:#57606a;--line:#d0d7de;--paper:#fff;
--bar:#f3f5f7}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--soft:#9aa4ae;--line:#3d444d;
--paper:#14181d;--bar:#1f252c}}
body{font:15px/1.5 system-ui,sans-serif;margin:0 auto;padding:1.5rem;max-width:64rem;
color:var(--ink);background:var(--paper)}
h1{font-size:1.5rem}h2{font-size:1.15rem;margin-top:2rem;border-top:1px solid var(--line);
padding-top:1rem;overflow-wrap:anywhere}h3{font-size:1rem;margin:1.2rem 0 .3rem}
.scroll{overflow-x:auto}table{border-collapse:collapse;font-variant-numeric:tabular-nums}
td,th{padding:.15rem .8rem .15rem 0;text-align:left;vertical-align:top;
border-bottom:1px solid var(--line);overflow-wrap:anywhere}td.n,th.n{text-align:right}
th{color:var(--soft);font-weight:600}svg{display:block;width:100%;height:auto}
svg text{fill:var(--ink);font:11px system-ui,sans-serif}svg .soft{fill:var(--soft)}
svg .bar{fill:var(--bar)}svg .rule{stroke:var(--line)}svg .trace{stroke:#2f6fdb;fill:none}
.key{display:inline-block;margin-right:1rem;white-space:nowrap}.key svg{display:inline;width:.8em;
height:.8em;margin-right:.35em}pre{background:var(--bar);padding:.8rem;overflow:auto;
white-space:pre-wrap;overflow-wrap:anywhere}.soft{color:var(--soft)}
"""


def report_page(lives: Sequence[JobLife], now: float, *, manifests: Iterable[str] = ()) -> str:
    """Returns the page about these jobs; `manifests` are their specs as YAML, in the same order."""
    one = len(lives) == 1
    title = f"{lives[0].namespace}/{lives[0].name}" if one else f"{len(lives)} jobs"
    texts = chain(manifests, repeat(""))
    jobs = [_job(life, yaml, now) for life, yaml in zip(lives, texts, strict=False)]
    overview = "" if one else _overview(lives, now)
    return (
        "<!doctype html>\n"
        '<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{text(_POLICY)}">'
        '<meta name="viewport" content="width=device-width">'
        f"<title>{text(title)}</title><style>{_STYLE}</style></head><body>"
        f"<h1>{text(title)}</h1>"
        f'<p class="soft">as of {text(format_time(now))}</p>'
        f"{overview}{''.join(jobs)}</body></html>\n"
    )


def text(value: object) -> str:
    """Returns a value as text of the page: nothing in it is markup, also inside an attribute."""
    return escape(str(value), quote=True)


def _overview(lives: Sequence[JobLife], now: float) -> str:
    heads = ["job", "phase", "queue", "wall", "running", "lost", "restarts", "cpu h", "GPU h"]
    rows = []
    for life in lives:
        ledger, cost = ledger_of(life, now), cost_of(life, now)
        running = ledger.seconds.get(LedgerCause.RUNNING, 0.0)
        rows.append(
            [
                f"{life.namespace}/{life.name}",
                life.phase,
                life.queue,
                length_text(ledger.wall_s),
                length_text(running),
                length_text(ledger.lost_s),
                life.restarts,
                f"{cost.cpu_hours:.2f}",
                f"{cost.gpu_hours:.2f}",
            ]
        )
    return _table(heads, rows, numbers_from=3)


def _job(life: JobLife, manifest: str, now: float) -> str:
    ledger = ledger_of(life, now)
    end = life.ended if life.ended is not None else now
    parts = [
        f"<h2>{text(life.namespace)}/{text(life.name)}: {text(life.phase or 'new')}</h2>",
        f"<p>{text(life.message or life.reason)}</p>",
        _facts(life, now),
        "<h3>Timeline</h3>",
        lifeline(life, now),
        legend(one.cause for one in ledger.entries),
        "<h3>Where the time went</h3>",
        _ledger(life, now),
        "<h3>Stretches</h3>",
        _table(
            ["from", "length", "cause", "detail"],
            [
                [format_time(one.start), length_text(one.seconds), one.cause.value, one.detail]
                for one in ledger.entries
            ],
        ),
    ]
    if life.sizes:
        parts += ["<h3>Sizes</h3>", _sizes(life)]
    if life.pods:
        parts += ["<h3>Pods</h3>", _pods(life)]
    for title, points in (
        ("Loss", [(one.at, one.loss) for one in life.progress if one.loss is not None]),
        ("Samples a second", [(one.at, one.rate) for one in life.progress if one.rate is not None]),
    ):
        if len(points) > 1:
            parts += [f"<h3>{text(title)}</h3>", curve(points, life.created, end, title)]
    if manifest:
        parts += ["<h3>Manifest</h3>", f"<pre>{text(manifest)}</pre>"]
    return "".join(parts)


def _facts(life: JobLife, now: float) -> str:
    cost = cost_of(life, now)
    rows: list[list[object]] = [
        ["kind", life.kind],
        ["user", life.user or "-"],
        ["queue", life.queue or "-"],
        ["priority", life.priority or "-"],
        ["created", format_time(life.created)],
        ["ended", format_time(life.ended) if life.ended is not None else "-"],
        ["size", ", ".join(f"{role} {last_size(life, role)}" for role in life.roles)],
        ["restarts", life.restarts],
        ["preemptions", life.preemptions],
        ["held", f"{cost.cpu_hours:.2f} cpu h, {cost.memory_gib_hours:.2f} GiB h of memory, "
         f"{cost.gpu_hours:.2f} GPU h"],
        ["labels", ", ".join(f"{name}={value}" for name, value in life.labels.items()) or "-"],
    ]  # fmt: skip
    return _table([], rows)


def _ledger(life: JobLife, now: float) -> str:
    ledger = ledger_of(life, now)
    rows: list[list[object]] = []
    for cause in LedgerCause:
        length = ledger.seconds.get(cause, 0.0)
        if length:
            share = 100 * length / ledger.wall_s
            note = "lost" if cause in LOST else ""
            rows.append([cause.value, f"{length:.0f}", length_text(length), f"{share:.1f}%", note])
    rows.append(["all", f"{ledger.wall_s:.0f}", length_text(ledger.wall_s), "100%", ""])
    return _table(["cause", "seconds", "", "share", ""], rows)


def _sizes(life: JobLife) -> str:
    first: list[list[object]] = [
        [format_time(life.created), role, shape.first, "", "the first size"]
        for role, shape in life.roles.items()
    ]
    changes: list[list[object]] = [
        [format_time(one.at), one.role, one.size, one.by, one.reason] for one in life.sizes
    ]
    return _table(["time", "role", "size", "by", "reason"], [*first, *changes])


def _pods(life: JobLife) -> str:
    rows = [
        [
            f"{run.role}-{run.index}",
            run.node,
            format_time(run.started),
            format_time(run.ended) if run.ended is not None else "-",
            run.outcome,
        ]
        for run in life.pods
    ]
    more = f'<p class="soft">and {life.n_folded} earlier ones</p>' if life.n_folded else ""
    return _table(["pod", "node", "start", "end", "outcome"], rows) + more


def _table(
    heads: Sequence[str], rows: Sequence[Sequence[object]], *, numbers_from: int = 99
) -> str:
    def row(tag: str, cells: Sequence[object]) -> str:
        number = ' class="n"'
        shown = (
            f"<{tag}{number if at >= numbers_from else ''}>{text(cell)}</{tag}>"
            for at, cell in enumerate(cells)
        )
        return f"<tr>{''.join(shown)}</tr>"

    head = row("th", heads) if heads else ""
    body = "".join(row("td", one) for one in rows)
    return f'<div class="scroll"><table>{head}{body}</table></div>'
