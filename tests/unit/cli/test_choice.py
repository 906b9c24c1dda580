"""Which cluster a command talks to."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.cli.choice import (
    RULES,
    ChosenBy,
    ClusterChoice,
    CommandEnvironment,
    NoClusterError,
    choose,
    choose_running_or_not,
    home_to_use,
)
from swell.cli.options import ClusterOptions
from swell.cli.saved_choice import (
    LAST_USED,
    SavedChoice,
    SavedChoiceError,
    forget_saved_choice,
    read_saved_choice,
    saved_choice_file,
    write_saved_choice,
)

USER = Path("/home/ada")
STATE = USER / ".local/state/swell"
OWN = STATE / "kubeconfig"
KUBE = USER / ".kube/config"
IN_POD = {"KUBERNETES_SERVICE_HOST": "10.0.0.1"}
PROD = SavedChoice("prod", ("/p",))


def environment(
    environ: dict[str, str] | None = None,
    running: Path | None = None,
    *files: Path,
    saved: SavedChoice | None = None,
    servers: dict[Path, str] | None = None,
) -> CommandEnvironment:
    """Return a machine on which every kubeconfig names a server of its own."""
    known = servers or {}
    return CommandEnvironment(
        environ=environ or {},
        user_home=USER,
        is_running=lambda home: home == running,
        is_file=lambda path: path in files,
        server_of=lambda paths: known.get(paths[0], f"https://{paths[0].parent.name or 'root'}"),
        saved=saved,
    )


# Each row has everything that the rows below it have, and one thing more, which decides.
ORDER = [
    (ClusterOptions(kubeconfig="/x"), {"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, PROD, "FLAG"),
    (ClusterOptions(), {"SWELL_HOME": "/s", "KUBECONFIG": "/k", **IN_POD}, PROD, "SWELL_HOME"),
    (ClusterOptions(), {"KUBECONFIG": "/k", **IN_POD}, PROD, "SAVED"),
    (ClusterOptions(), {"KUBECONFIG": "/k", **IN_POD}, LAST_USED, "LAST_USED"),
    (ClusterOptions(), {"KUBECONFIG": "/k", **IN_POD}, None, "RUNNING"),
]


@pytest.mark.parametrize(("flags", "environ", "saved", "by"), ORDER, ids=[row[3] for row in ORDER])
def test_choose_takes_the_first_rule_that_applies(
    flags: ClusterOptions, environ: dict[str, str], saved: SavedChoice | None, by: str
) -> None:
    """Flags, SWELL_HOME, a saved choice, a running cluster: in this order."""
    machine = environment(environ, STATE, KUBE, saved=saved)

    assert choose_running_or_not(flags, machine).by.name == by


def test_choose_without_a_running_cluster_goes_on_in_order() -> None:
    """KUBECONFIG, then the account of a pod, then the usual file."""
    both = environment({"KUBECONFIG": "/k", **IN_POD}, None, KUBE)
    pod = environment(IN_POD, None, KUBE)
    usual = environment({}, None, KUBE)

    assert choose(ClusterOptions(), both) == ClusterChoice(ChosenBy.KUBECONFIG, (Path("/k"),))
    assert choose(ClusterOptions(), pod) == ClusterChoice(ChosenBy.POD)
    assert choose(ClusterOptions(), usual) == ClusterChoice(ChosenBy.USUAL_FILE, (KUBE,))


def test_rules_are_listed_once_each() -> None:
    """`swell cluster` prints every rule there is."""
    assert sorted(RULES) == sorted(ChosenBy)


def test_choose_takes_the_context_of_a_kubeconfig_flag() -> None:
    """Both flags together mean that context of that file."""
    chosen = choose(ClusterOptions(kubeconfig="/x", context="c"), environment())

    assert chosen == ClusterChoice(ChosenBy.FLAG, (Path("/x"),), "c")


def test_choose_refuses_a_swell_home_that_does_not_run() -> None:
    """The named embedded cluster is meant even when it is down; nothing else is taken instead."""
    with pytest.raises(NoClusterError) as refused:
        choose(ClusterOptions(), environment({"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, None, KUBE))

    assert "/s" in str(refused.value)
    assert "swell up" in refused.value.hint


@pytest.mark.parametrize("saved", [LAST_USED, SavedChoice()])
def test_choose_goes_nowhere_else_after_down(saved: SavedChoice) -> None:
    """A stopped embedded cluster that was the last choice is named, with both ways on."""
    machine = environment({"KUBECONFIG": "/k"}, None, KUBE, saved=saved)

    with pytest.raises(NoClusterError, match="is not running") as refused:
        choose(ClusterOptions(), machine)

    assert "swell up" in refused.value.hint
    assert "swell use" in refused.value.hint


def test_choose_reports_the_other_cluster_of_the_kubeconfig_variable() -> None:
    """A running embedded cluster is taken, and the one it competes with is named."""
    chosen = choose(ClusterOptions(), environment({"KUBECONFIG": "/far/k"}, STATE))

    assert chosen == ClusterChoice(ChosenBy.RUNNING, (OWN,), embedded=True, rival="https://far")


@pytest.mark.parametrize(
    ("flags", "saved"),
    [
        (ClusterOptions(embedded=True), None),
        (ClusterOptions(), SavedChoice()),
        (ClusterOptions(), PROD),
        (ClusterOptions(kubeconfig="/x"), None),
    ],
)
def test_choose_knows_no_rival_where_the_user_has_decided(
    flags: ClusterOptions, saved: SavedChoice | None
) -> None:
    """A flag or `swell use` is an answer."""
    machine = environment({"KUBECONFIG": "/far/k"}, STATE, saved=saved)

    assert not choose(flags, machine).rival


@pytest.mark.parametrize("server", ["", "https://here"])
def test_choose_knows_no_rival_in_files_of_the_same_cluster_or_of_none(server: str) -> None:
    """A copy of the embedded kubeconfig, or a file that is not there, competes with nothing."""
    servers = {Path("/k"): server, OWN: "https://here"}

    assert not choose(
        ClusterOptions(), environment({"KUBECONFIG": "/k"}, STATE, servers=servers)
    ).rival


def test_choose_takes_every_file_of_the_kubeconfig_variable() -> None:
    """`$KUBECONFIG` may be a list, whose files are merged."""
    chosen = choose(ClusterOptions(), environment({"KUBECONFIG": "/a:/b"}))

    assert chosen.kubeconfigs == (Path("/a"), Path("/b"))


def test_choose_with_a_context_means_a_kubeconfig() -> None:
    """A context has a meaning only in a kubeconfig, so the embedded cluster is not taken."""
    machine = environment({"SWELL_HOME": "/s"}, Path("/s"), KUBE)

    assert choose(ClusterOptions(context="prod"), machine) == ClusterChoice(
        ChosenBy.FLAG, (KUBE,), "prod"
    )


def test_choose_says_how_to_get_a_cluster() -> None:
    """With nothing there, the way to have one is named."""
    with pytest.raises(NoClusterError) as refused:
        choose(ClusterOptions(), environment())

    assert refused.value.hint == "start it with: swell up"


def test_choose_knows_its_own_kubeconfig_again() -> None:
    """The file that `swell up` prints for other tools names the embedded cluster for us, too."""
    chosen = choose(ClusterOptions(), environment({"KUBECONFIG": str(OWN)}, STATE))

    assert chosen == ClusterChoice(ChosenBy.KUBECONFIG, (OWN,), embedded=True)


@pytest.mark.parametrize(
    ("flags", "environ", "saved", "expected"),
    [
        (ClusterOptions(), {}, None, STATE),
        (ClusterOptions(), IN_POD, None, STATE),
        (ClusterOptions(), {"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, None, Path("/s")),
        (ClusterOptions(), {"KUBECONFIG": str(OWN)}, None, STATE),
        (ClusterOptions(), {"KUBECONFIG": "/k"}, None, None),
        (ClusterOptions(), {"KUBECONFIG": "/k"}, LAST_USED, STATE),
        (ClusterOptions(), {}, PROD, None),
        (ClusterOptions(embedded=True), {"KUBECONFIG": "/k"}, None, STATE),
        (ClusterOptions(kubeconfig="/x"), {"SWELL_HOME": "/s"}, None, None),
        (ClusterOptions(context="c"), {"SWELL_HOME": "/s"}, None, None),
    ],
)
def test_home_to_use_is_none_only_for_a_named_cluster(
    flags: ClusterOptions,
    environ: dict[str, str],
    saved: SavedChoice | None,
    expected: Path | None,
) -> None:
    """A job lands on the embedded cluster unless another one was named; never by surprise."""
    assert home_to_use(flags, environment(environ, None, KUBE, saved=saved)) == expected


def test_saved_choice_is_read_back_and_forgotten(tmp_path: Path) -> None:
    """The file holds what was written until it is forgotten."""
    path = saved_choice_file({"XDG_CONFIG_HOME": str(tmp_path / "etc")}, USER)
    assert read_saved_choice(path) is None

    write_saved_choice(path, PROD)

    assert read_saved_choice(path) == PROD
    assert forget_saved_choice(path)
    assert not forget_saved_choice(path)
    assert read_saved_choice(path) is None


def test_saved_choice_that_is_damaged_is_reported(tmp_path: Path) -> None:
    """A file of another shape is not taken for no choice."""
    path = tmp_path / "cluster.json"
    path.write_text("[]")

    with pytest.raises(SavedChoiceError, match=r"cluster\.json"):
        read_saved_choice(path)
