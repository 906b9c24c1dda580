"""A run is repeated by its subject, its scenario and its seed, whatever scenarios come later."""

from __future__ import annotations

import io
import json
import shlex

from swell.sim.campaign.command import CampaignEntry, main
from swell.sim.campaign.figures import CampaignFigures, print_report, replay_command
from swell.sim.campaign.trial import TrialResult, try_seed
from swell.sim.scenario import SimulationSubject
from tests.sim.toy.flaws import PLANTED
from tests.sim.toy.scenarios import toy_subject

MODULE = "tests.sim.campaign"
ENTRIES = (CampaignEntry(toy_subject()),)
FLAW = sorted(PLANTED)[0]


def tell(*argv: str) -> tuple[int, str]:
    out = io.StringIO()
    code = main(ENTRIES, MODULE, argv, out)
    return code, out.getvalue()


def test_scenario_is_told_whatever_its_turn() -> None:
    """With a name, each scenario of a subject can be run with any seed."""
    for scenario in toy_subject().scenarios:
        code, told = tell("--seed", "3", "--scenario", scenario.name)

        assert code == 0
        assert told.startswith(f"toy, scenario {scenario.name}, seed 3\n")


def test_unknown_scenario_is_named() -> None:
    """A name that no subject has is an error, not an empty success."""
    code, told = tell("--seed", "3", "--scenario", "nonsense")

    assert code == 2
    assert "nonsense" in told


def failed_run(subject: SimulationSubject) -> TrialResult:
    runs = (try_seed(subject, one, seed) for seed in range(50) for one in subject.scenarios)
    return next(result for result in runs if result.violations)


def test_failed_seed_is_printed_with_the_command_that_repeats_it() -> None:
    """The command names the scenario, and the run that it tells is the failed one."""
    subject = toy_subject(PLANTED[FLAW])
    failed = failed_run(subject)
    figures, out = CampaignFigures(), io.StringIO()
    figures.add(failed)

    print_report(figures, MODULE, out)
    command = replay_command(failed, MODULE)
    replayed = io.StringIO()
    code = main((CampaignEntry(subject),), MODULE, shlex.split(command)[3:], replayed)

    assert f"again: {command}\n" in out.getvalue()
    assert code == 1
    assert json.loads(replayed.getvalue().splitlines()[-1])["violations"] == len(failed.violations)


def test_run_with_a_planned_fault_has_no_command() -> None:
    """Its seed alone would draw other faults."""
    figures, out = CampaignFigures(), io.StringIO()
    figures.add_extra("every write", failed_run(toy_subject(PLANTED[FLAW])))

    print_report(figures, MODULE, out)

    assert "FAILED: toy" in out.getvalue()
    assert "again:" not in out.getvalue()
