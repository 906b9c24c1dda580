"""Which cluster a command talks to."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.cli.choice import ClusterChoice, CommandEnvironment, NoClusterError, choose, home_to_use
from swell.cli.options import ClusterOptions

USER = Path("/home/ada")
STATE = USER / ".local/state/swell"
KUBE = USER / ".kube/config"


def environment(
    environ: dict[str, str] | None = None, running: Path | None = None, *files: Path
) -> CommandEnvironment:
    return CommandEnvironment(
        environ=environ or {},
        user_home=USER,
        is_running=lambda home: home == running,
        is_file=lambda path: path in files,
    )


def test_choose_takes_the_kubeconfig_flag_before_all_else() -> None:
    """A flag says more than any surroundings."""
    chosen = choose(
        ClusterOptions(kubeconfig="/x", context="c"),
        environment({"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, STATE),
    )

    assert chosen == ClusterChoice((Path("/x"),), "c")


def test_choose_prefers_swell_home_to_kubeconfig_variable() -> None:
    """`$SWELL_HOME` names an embedded cluster on purpose."""
    chosen = choose(
        ClusterOptions(), environment({"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, Path("/s"))
    )

    assert chosen == ClusterChoice((Path("/s/kubeconfig"),), embedded=True)


def test_choose_refuses_a_swell_home_that_does_not_run() -> None:
    """The named embedded cluster is meant even when it is down; nothing else is taken instead."""
    with pytest.raises(NoClusterError) as refused:
        choose(ClusterOptions(), environment({"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, None, KUBE))

    assert "/s" in str(refused.value)
    assert "swell up" in refused.value.hint


def test_choose_takes_the_kubeconfig_variable_before_a_running_embedded_cluster() -> None:
    """What the user exported is more specific than what happens to run."""
    assert choose(ClusterOptions(), environment({"KUBECONFIG": "/k"}, STATE)) == ClusterChoice(
        (Path("/k"),)
    )


def test_choose_takes_every_file_of_the_kubeconfig_variable() -> None:
    """`$KUBECONFIG` may be a list, whose files are merged."""
    chosen = choose(ClusterOptions(), environment({"KUBECONFIG": "/a:/b"}))

    assert chosen == ClusterChoice((Path("/a"), Path("/b")))


def test_choose_takes_a_running_embedded_cluster_before_the_users_kubeconfig() -> None:
    """A laptop with `swell up` running means that one, not production."""
    assert choose(ClusterOptions(), environment({}, STATE, KUBE)) == ClusterChoice(
        (STATE / "kubeconfig",), embedded=True
    )


def test_choose_falls_back_to_the_users_kubeconfig_then_to_the_pod() -> None:
    """Outside a laptop the usual places of Kubernetes are looked at."""
    assert choose(ClusterOptions(), environment({}, None, KUBE)) == ClusterChoice((KUBE,))
    assert (
        choose(ClusterOptions(), environment({"KUBERNETES_SERVICE_HOST": "10.0.0.1"}))
        == ClusterChoice()
    )


def test_choose_with_a_context_means_a_kubeconfig() -> None:
    """A context has a meaning only in a kubeconfig, so the embedded cluster is not taken."""
    chosen = choose(
        ClusterOptions(context="prod"), environment({"SWELL_HOME": "/s"}, Path("/s"), KUBE)
    )

    assert chosen == ClusterChoice((KUBE,), "prod")


def test_choose_says_how_to_get_a_cluster() -> None:
    """With nothing there, the way to have one is named."""
    with pytest.raises(NoClusterError) as refused:
        choose(ClusterOptions(), environment())

    assert refused.value.hint == "start it with: swell up"


def test_choose_embedded_flag_beats_the_kubeconfig_variable() -> None:
    """`--embedded` is a flag, and flags come first."""
    chosen = choose(ClusterOptions(embedded=True), environment({"KUBECONFIG": "/k"}, STATE))

    assert chosen == ClusterChoice((STATE / "kubeconfig",), embedded=True)


def test_choose_knows_its_own_kubeconfig_again() -> None:
    """What `swell up` prints for other tools names the embedded cluster, for us as well."""
    chosen = choose(ClusterOptions(), environment({"KUBECONFIG": str(STATE / "kubeconfig")}, STATE))

    assert chosen == ClusterChoice((STATE / "kubeconfig",), embedded=True)


@pytest.mark.parametrize(
    ("flags", "environ", "expected"),
    [
        (ClusterOptions(), {}, STATE),
        (ClusterOptions(), {"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, Path("/s")),
        (ClusterOptions(), {"KUBECONFIG": str(STATE / "kubeconfig")}, STATE),
        (ClusterOptions(), {"KUBECONFIG": "/k"}, None),
        (ClusterOptions(embedded=True), {"KUBECONFIG": "/k"}, STATE),
        (ClusterOptions(kubeconfig="/x"), {"SWELL_HOME": "/s"}, None),
        (ClusterOptions(context="c"), {"SWELL_HOME": "/s"}, None),
    ],
)
def test_home_to_use_is_none_only_for_a_named_cluster(
    flags: ClusterOptions, environ: dict[str, str], expected: Path | None
) -> None:
    """A job lands on the embedded cluster unless another one was named; never by surprise."""
    assert home_to_use(flags, environment(environ, None, KUBE)) == expected
