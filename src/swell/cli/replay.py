"""The command `swell replay`: what a policy would have made of the jobs of a trace."""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from swell.api.wording import count_of
from swell.cli.command_line import USAGE, CommandError
from swell.cli.progress import ProgressLine

if TYPE_CHECKING:
    from swell.replay.engine import ReplayLog
    from swell.replay.figures import ReplayFigures
    from swell.replay.physics import JobRun, ResizeCost

_NODES = re.compile(r"([1-9][0-9]{0,4})x([1-9][0-9]{0,3})")


class ReplayFormat(StrEnum):
    """Formats of a replay's figures."""

    TABLE = "table"
    JSON = "json"
    HTML = "html"
    SVG = "svg"
    HISTORY = "history"


class ReplayTier(StrEnum):
    """How much is known of jobs: see `swell.replay.sizers.ReplayCluster`."""

    MEASURED = "measured"
    SHARED = "shared"
    BLIND = "blind"


def replay(
    trace: Annotated[Path, typer.Argument(metavar="TRACE", help="CSV file of jobs.")],
    *,
    policy: Annotated[
        list[str] | None,
        typer.Option("--policy", metavar="NAME", help="How sizes are chosen; may be repeated."),
    ] = None,
    nodes: Annotated[
        str, typer.Option("--nodes", metavar="NxG", help="Nodes, and devices of each.")
    ] = "16x4",
    profiles: Annotated[
        Path | None,
        typer.Option("--profiles", metavar="FOLDER", help="Profiles of the trace's programs."),
    ] = None,
    tier: Annotated[
        ReplayTier, typer.Option("--tier", help="What is known of jobs.")
    ] = ReplayTier.MEASURED,
    policy_only: Annotated[
        bool,
        typer.Option(
            "--policy-only",
            help="Apply sizes at once, without operator and scheduler: quick, for exploring.",
        ),
    ] = False,
    first_size: Annotated[
        int,
        typer.Option(
            "--first-size", metavar="N", min=0, help="The most that jobs begin with; 0: no limit."
        ),
    ] = 0,
    restart: Annotated[
        str,
        typer.Option(
            "--restart",
            metavar="SECONDS|elastic",
            help="What a resize costs: a restart of so long, or as with Swell's own library.",
        ),
    ] = "elastic",
    period: Annotated[
        float, typer.Option("--period", metavar="SECONDS", help="Choose sizes this often.", min=1.0)
    ] = 60.0,
    cooldown: Annotated[
        float,
        typer.Option(
            "--cooldown", metavar="SECONDS", help="Leave a resized job alone for so long.", min=0.0
        ),
    ] = 60.0,
    output: Annotated[
        ReplayFormat, typer.Option("-o", "--output", help="Format.")
    ] = ReplayFormat.TABLE,
) -> None:
    """Run the jobs of a trace in virtual time, with the real operator, scheduler and autoscaler."""
    policies = policy or ["goodput"]
    rules = _Rules(
        _shape(nodes), tier.value, first_size, _cost(restart), period, cooldown, policy_only
    )
    logs, figures = _replay_all(trace, profiles, rules, policies)
    sys.stdout.write(_text(output, f"{trace.name} on {nodes} devices", logs, figures))


@dataclass(frozen=True, slots=True)
class _Rules:
    """The cluster and the rules that all replays of one command have in common."""

    shape: tuple[int, int]
    tier: str
    first_size: int
    cost: ResizeCost
    period_s: float
    cooldown_s: float
    policy_only: bool

    def check(self, policy: str) -> None:
        """Refuses a policy that there is not, or not in this mode."""
        from swell.replay.live.engine import LIVE_POLICIES
        from swell.replay.sizers import SIZERS

        if policy not in SIZERS:
            known = ", ".join(SIZERS)
            raise CommandError(f"there is no policy {policy!r}", f"must be one of: {known}", USAGE)
        if not self.policy_only and policy not in LIVE_POLICIES:
            known = ", ".join(LIVE_POLICIES)
            hint = f"give --policy-only, or one of: {known}"
            raise CommandError(f"no live program has the policy {policy!r}", hint, USAGE)
        if not self.policy_only and self.first_size > 1:
            raise CommandError("--first-size above 1 is for --policy-only alone", exit_code=USAGE)

    def replay(self, runs: list[JobRun], policy: str, line: ProgressLine) -> ReplayLog:
        """Runs all jobs by one policy."""
        from swell.replay.engine import replay
        from swell.replay.live.engine import LiveRules, replay_live
        from swell.replay.sizers import ReplayCluster

        def observe(runs: Sequence[JobRun], _: Sequence[JobRun], __: float) -> None:
            n_ended = sum(job.is_done for job in runs)
            line.count(f"replaying {policy}: jobs", n_ended, len(runs))

        cluster = ReplayCluster(*self.shape, self.tier, self.first_size)
        if self.policy_only:
            return replay(runs, cluster, policy, self.period_s, observe)
        rules = LiveRules(policy, self.period_s, self.cooldown_s)
        return replay_live(runs, cluster, rules, observe)


def _replay_all(
    trace: Path, profiles: Path | None, rules: _Rules, policies: list[str]
) -> tuple[list[ReplayLog], list[ReplayFigures]]:
    from swell.api.jobhistory import HistoryFormatError
    from swell.replay.engine import Programs, new_runs
    from swell.replay.figures import figures_of
    from swell.replay.histories import read_jobs
    from swell.replay.profiles import ProfileError, read_profiles
    from swell.replay.throughputs import read_throughputs
    from swell.replay.traces import TraceError

    for name in policies:
        rules.check(name)
    try:
        programs: Programs = {}
        if profiles is not None:
            is_learned = (profiles / "apps.json").exists()
            programs = read_profiles(profiles) if is_learned else read_throughputs(profiles)
        jobs, n_left_out = read_jobs(trace)
        if n_left_out:
            left_out = count_of(n_left_out, "job is", "jobs are")
            sys.stderr.write(f"{trace}: {left_out} left out, without work or end\n")
        with ProgressLine() as line:
            logs = [
                rules.replay(new_runs(jobs, programs, rules.cost), name, line) for name in policies
            ]
    except (TraceError, ProfileError, HistoryFormatError) as error:
        raise CommandError(f"{trace}: {error}") from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}") from error
    return logs, [figures_of(log, name) for log, name in zip(logs, policies, strict=True)]


def _text(
    output: ReplayFormat, title: str, logs: list[ReplayLog], figures: list[ReplayFigures]
) -> str:
    from swell.cli.output import aligned, to_json
    from swell.replay.figures import rows
    from swell.replay.picture import page, svg

    if output is ReplayFormat.TABLE:
        return aligned(rows(figures)) + "\n"
    if output is ReplayFormat.JSON:
        return to_json([one.body() for one in figures])
    if output is ReplayFormat.HTML:
        return page(title, logs, figures)
    if output is ReplayFormat.HISTORY:
        from swell.api.jobhistory import write_history
        from swell.replay.histories import history_of

        # A replay has no date; its history begins with the epoch.
        return b"".join(write_history(history_of(logs[0], 0.0))).decode()
    return svg(logs[0], f"{figures[0].policy}, {title}") + "\n"


def _shape(text: str) -> tuple[int, int]:
    found = _NODES.fullmatch(text)
    if found is None:
        raise CommandError(f"--nodes: {text!r} is not like 16x4", exit_code=USAGE)
    return int(found[1]), int(found[2])


def _cost(text: str) -> ResizeCost:
    from swell.replay.physics import ELASTIC, restarts

    if text == "elastic":
        return ELASTIC
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds <= 86400:
        raise CommandError(f"--restart: {text!r} is neither seconds nor elastic", exit_code=USAGE)
    return restarts(seconds)
