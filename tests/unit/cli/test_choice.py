"""Which cluster a command talks to."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.cli.choice import Choice, Flags, NoClusterError, Surroundings, choose, home_to_use

USER = Path("/home/ada")
STATE = USER / ".local/state/swell"
KUBE = USER / ".kube/config"


def seen(
    environ: dict[str, str] | None = None, running: Path | None = None, *files: Path
) -> Surroundings:
    return Surroundings(
        environ=environ or {},
        user_home=USER,
        is_running=lambda home: home == running,
        is_file=lambda path: path in files,
    )


def test_choose_takes_the_kubeconfig_flag_before_all_else() -> None:
    """A flag says more than any surroundings."""
    chosen = choose(
        Flags(kubeconfig="/x", context="c"), seen({"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, STATE)
    )

    assert chosen == Choice((Path("/x"),), "c")


def test_choose_prefers_swell_home_to_kubeconfig_variable() -> None:
    """`$SWELL_HOME` names an embedded cluster on purpose."""
    chosen = choose(Flags(), seen({"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, Path("/s")))

    assert chosen == Choice((Path("/s/kubeconfig"),), embedded=True)


def test_choose_refuses_a_swell_home_that_does_not_run() -> None:
    """The named embedded cluster is meant even when it is down; nothing else is taken instead."""
    with pytest.raises(NoClusterError) as refused:
        choose(Flags(), seen({"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, None, KUBE))

    assert "/s" in str(refused.value)
    assert "swell up" in refused.value.hint


def test_choose_takes_the_kubeconfig_variable_before_a_running_embedded_cluster() -> None:
    """What the user exported is more specific than what happens to run."""
    assert choose(Flags(), seen({"KUBECONFIG": "/k"}, STATE)) == Choice((Path("/k"),))


def test_choose_takes_every_file_of_the_kubeconfig_variable() -> None:
    """`$KUBECONFIG` may be a list, whose files are merged."""
    chosen = choose(Flags(), seen({"KUBECONFIG": "/a:/b"}))

    assert chosen == Choice((Path("/a"), Path("/b")))


def test_choose_takes_a_running_embedded_cluster_before_the_users_kubeconfig() -> None:
    """A laptop with `swell up` running means that one, not production."""
    assert choose(Flags(), seen({}, STATE, KUBE)) == Choice((STATE / "kubeconfig",), embedded=True)


def test_choose_falls_back_to_the_users_kubeconfig_then_to_the_pod() -> None:
    """Outside a laptop the usual places of Kubernetes are looked at."""
    assert choose(Flags(), seen({}, None, KUBE)) == Choice((KUBE,))
    assert choose(Flags(), seen({"KUBERNETES_SERVICE_HOST": "10.0.0.1"})) == Choice()


def test_choose_with_a_context_means_a_kubeconfig() -> None:
    """A context has a meaning only in a kubeconfig, so the embedded cluster is not taken."""
    chosen = choose(Flags(context="prod"), seen({"SWELL_HOME": "/s"}, Path("/s"), KUBE))

    assert chosen == Choice((KUBE,), "prod")


def test_choose_says_how_to_get_a_cluster() -> None:
    """With nothing there, the way to have one is named."""
    with pytest.raises(NoClusterError) as refused:
        choose(Flags(), seen())

    assert refused.value.hint == "start it with: swell up"


def test_choose_embedded_flag_beats_the_kubeconfig_variable() -> None:
    """`--embedded` is a flag, and flags come first."""
    chosen = choose(Flags(embedded=True), seen({"KUBECONFIG": "/k"}, STATE))

    assert chosen == Choice((STATE / "kubeconfig",), embedded=True)


def test_choose_knows_its_own_kubeconfig_again() -> None:
    """What `swell up` prints for other tools names the embedded cluster, for us as well."""
    chosen = choose(Flags(), seen({"KUBECONFIG": str(STATE / "kubeconfig")}, STATE))

    assert chosen == Choice((STATE / "kubeconfig",), embedded=True)


@pytest.mark.parametrize(
    ("flags", "environ", "expected"),
    [
        (Flags(), {}, STATE),
        (Flags(), {"SWELL_HOME": "/s", "KUBECONFIG": "/k"}, Path("/s")),
        (Flags(), {"KUBECONFIG": str(STATE / "kubeconfig")}, STATE),
        (Flags(), {"KUBECONFIG": "/k"}, None),
        (Flags(embedded=True), {"KUBECONFIG": "/k"}, STATE),
        (Flags(kubeconfig="/x"), {"SWELL_HOME": "/s"}, None),
        (Flags(context="c"), {"SWELL_HOME": "/s"}, None),
    ],
)
def test_home_to_use_is_none_only_for_a_named_cluster(
    flags: Flags, environ: dict[str, str], expected: Path | None
) -> None:
    """A job lands on the embedded cluster unless another one was named; never by surprise."""
    assert home_to_use(flags, seen(environ, None, KUBE)) == expected
