"""Shows a report to people: the conclusion first, then the numbers, then what would help."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from swell.api.times import parse_time
from swell.api.wording import count_of
from swell.cli.output import aligned
from swell.outlook.explaining import ExplainReport
from swell.outlook.starts import sentence
from swell.outlook.target import RoleSize
from swell.scheduler.explain.explanation import (
    DomainFacts,
    Explanation,
    GroupStanding,
    PodClass,
    QueueFacts,
)

_HEADING_WIDTH = 10
# Groups that wait before this one; the others are counted.
_NAMES_SHOWN = 3
# Timestamps are whole seconds, so that a younger age would be noise.
_JUST_NOW_S = 2.0


def render(report: ExplainReport, now: float) -> str:
    """Return the paragraphs of a report; `now` is for the age of what the scheduler reported."""
    found = report.explanation
    parts = [report.summary]
    if report.target.start is not None:
        parts.append(_line("Starts", sentence(report.target.start, now)))
    if found is not None:
        parts.append("\n".join([*_facts(found), *map(_size, report.target.sizes)]))
        parts += _sections(found)
    if report.pod_problems:
        parts.append("Pods that do not run\n" + "\n".join(f"  {t}" for t in report.pod_problems))
    parts += [f"Note: {note}" for note in report.notes]
    if not report.target.is_final:
        parts.append(_scheduler_report(report, now))
    return "\n\n".join(part for part in parts if part) + "\n"


def _facts(found: Explanation) -> Iterator[str]:
    if found.reason:
        yield _line("Why", f"{found.reason}: {found.message}")
    if found.asks:
        together = f" (together {_amounts(found.asks)})" if len(found.classes) > 1 else ""
        asks = "; ".join(map(_class_asks, found.classes)) or _amounts(found.asks)
        yield _line("Asks", f"{asks}{together}")
    if found.holds:
        yield _line("Holds", _amounts(found.holds))
    for one in found.classes:
        role = f"{one.role}: " if len(found.classes) > 1 else ""
        yield _line("Nodes", role + _nodes(one))
    for of_part in found.domains:
        yield _line("Domains", _domains(of_part))
    if found.topology_not_applied:
        yield _line("Topology", f"has no effect: {found.topology_not_applied}")
    if found.queue is not None:
        yield _line(
            "Queue", _queue(found.queue, is_waiting=found.standing is GroupStanding.WAITING)
        )
        for limit in found.queue.limits:
            of = f"queue {limit.queue}" if limit.queue else "the cluster"
            whole = " (all there is)" if limit.is_whole else ""
            numbers = f"{limit.resource} {limit.held} of {limit.allowed}{whole}"
            yield _line("Limit", f"{of}: {numbers}, {limit.asked} more asked for")
    yield _line("Priority", str(found.priority))


def _sections(found: Explanation) -> Iterator[str]:
    if found.victims:
        yield "Has to leave for it\n" + "\n".join(f"  {victim}" for victim in found.victims)
    if found.holders:
        rows = [("JOB", "QUEUE", "PRIORITY", "PODS", "HOLDS", "CAN IT BE MOVED")]
        rows += [
            (
                one.name,
                one.queue or "-",
                "-" if one.priority is None else str(one.priority),
                str(one.n_pods),
                _amounts(one.holds),
                one.text,
            )
            for one in found.holders
        ]
        more = f"\nand {found.n_holders_more} more" if found.n_holders_more else ""
        yield f"Who holds the room\n{aligned(rows)}{more}"
    if found.advice:
        lines = [
            f"  - {one.text}" + (f"\n      {one.command}" if one.command else "")
            for one in found.advice
        ]
        yield "What would help\n" + "\n".join(lines)


def _line(heading: str, text: str) -> str:
    return f"{heading:<{_HEADING_WIDTH}}{text}"


def _size(one: RoleSize) -> str:
    last = f"; last resized {one.resized}" if one.resized else ""
    bounds = f"{one.minimum} to {one.maximum}, {one.policy}"
    return _line("Size", f"{one.role}: {one.target} of {bounds}{last}")


def _class_asks(one: PodClass) -> str:
    role = f"{one.role}: " if one.role else ""
    return f"{role}{count_of(one.n_pods, 'pod with', 'pods, each')} {_amounts(one.each)}"


def _nodes(one: PodClass) -> str:
    room = f", with room for {count_of(one.n_slots, 'such pod')}" if one.n_slots else ""
    why = ", ".join(f"{refusal.n_nodes} {refusal.text}" for refusal in one.refusals)
    return f"{one.n_nodes_fit} of {one.n_nodes} fit{room}" + (f"; {why}" if why else "")


def _domains(one: DomainFacts) -> str:
    part = f"{one.sub_group}: " if one.sub_group else ""
    pods = count_of(one.n_wanted, "such pod")
    text = f"{one.n_enough} of {one.n_domains} of tier ≤ {one.tier} hold {pods}"
    best = ", ".join(f"{domain.name} {domain.n_pods}" for domain in one.best)
    outside = (
        f"; {count_of(one.n_outside, 'node is', 'nodes are')} in none" if one.n_outside else ""
    )
    return f"{part}{text}; the best: {best or 'none'}{outside}"


def _queue(queue: QueueFacts, *, is_waiting: bool) -> str:
    limit = f" of {_amounts(queue.capability)}" if queue.capability else ""
    text = f"{queue.name}, {queue.state}, holds {_amounts(queue.allocated)}{limit}"
    if not is_waiting:
        return text
    place = f"position {queue.position} of {queue.n_waiting}" if queue.position else "no position"
    if not queue.ahead:
        return f"{text}; {place}, nothing waits before it"
    names = ", ".join(queue.ahead[:_NAMES_SHOWN])
    more = len(queue.ahead) - _NAMES_SHOWN
    also = f" and {more} more" if more > 0 else ""
    return f"{text}; {place}, before it: {names}{also}"


def _amounts(amounts: Mapping[str, str]) -> str:
    # A pod asks for one pod slot always; it is shown only where nothing else is.
    shown = [f"{name} {amount}" for name, amount in amounts.items() if name != "pods"]
    return ", ".join(shown) or (f"pods {amounts['pods']}" if "pods" in amounts else "nothing")


def _scheduler_report(report: ExplainReport, now: float) -> str:
    """Return what the scheduler has reported, and whether it agrees with this explanation."""
    reported, found = report.reported, report.explanation
    if reported is None:
        is_new = found is not None and found.standing is GroupStanding.WAITING and report.is_live
        # Files may be a dump from before a scheduler ran: only a live cluster is asked about.
        return "No scheduler has said anything about it yet: does one run?" if is_new else ""
    when = _ago(reported.last_transition_time, now)
    if found is not None and reported.reason == found.reason:
        return f"The scheduler says the same, since {when}."
    reason = ": ".join(filter(None, (reported.reason, reported.message)))
    return f"The scheduler said {when}: {reported.type}{', ' + reason if reason else ''}"


def _ago(written: str | None, now: float) -> str:
    if not written:
        return "once"
    seconds = now - parse_time(written)
    if seconds < _JUST_NOW_S:
        return "just now"
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size:.0f}{unit} ago"
    return f"{seconds:.0f}s ago"
