"""The flags of `swell operator`: from the command line, the environment and a file."""

from __future__ import annotations

from pathlib import Path

import pytest

from swell.cli.command_line import CommandError
from swell.cli.controllers import operator as command
from swell.cli.controllers.options import ApiServerOptions, ControllerProcess
from swell.cli.controllers.process import _access, host_port, level_of
from swell.cli.main import run
from swell.history.settings import HistorySettings
from swell.operator.aitrainingjob.settings import AITrainingJobSettings

FLAGS = (
    "--kubeconfig", "--master", "--context", "--namespace", "--workers", "--thread-num",
    "--cluster-objects", "--no-cluster-objects",
    "--resync-period", "--gc-period", "--creating-restart-period", "--creating-duration-period",
    "--enable-creating-failed", "--node-lost-after", "--node-fence-after", "--default-scheduler",
    "--gpu-fault-conditions", "--gpu-fault-taints", "--gpu-drivers",
    "--gpu-fault-device-taints", "--gpu-allocatable-drop",
    "--autoclean", "--restartlimit", "--etcd-image", "--adopt-original",
    "--creating-restart-limit", "--node-avoid-period", "--save-seconds-max",
    "--fault-half-life", "--cordon-suspects", "--straggler-ratio", "--straggler-steps",
    "--gang", "--no-gang", "--gang-api", "--install-crds", "--leader-elect", "--lease-name",
    "--lease-duration", "--renew-deadline", "--retry-period", "--metrics-addr", "--health-addr",
    "--log-level", "--v", "--log-format", "--config",
    "--reports-addr", "--reports-url", "--reports-cert-dir", "--reports-proxy",
)  # fmt: skip

Started = tuple[ControllerProcess, command.OperatorServices]


@pytest.fixture
def started(
    monkeypatch: pytest.MonkeyPatch,
) -> list[Started]:
    """What the command would run, instead of running it."""
    calls: list[Started] = []
    monkeypatch.setattr(
        command,
        "_run",
        lambda process, services: calls.append((process, services)),
    )
    return calls


def test_every_flag_is_there(capsys: pytest.CaptureFixture[str]) -> None:
    """And each is an environment variable as well."""
    assert run(["operator", "--help"]) == 0
    shown = capsys.readouterr().out.replace("\n", " ")

    assert [flag for flag in FLAGS if flag not in shown] == []
    assert "SWELL_NODE_LOST_AFTER" in "".join(shown.split())


def test_command_line_before_environment_before_file(
    started: list[Started],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The nearer to the user, the stronger."""
    config = tmp_path / "operator.yaml"
    config.write_text("gc-period: 1m\nnode-lost-after: 1m\nworkers: 9\nno_such: 1\n")
    assert run(["operator", "--config", str(config)]) == 2
    config.write_text("gc-period: 1m\nnode-lost-after: 1m\nworkers: 9\ngang: false\n")
    monkeypatch.setenv("SWELL_NODE_LOST_AFTER", "2m")
    monkeypatch.setenv("SWELL_WORKERS", "8")

    assert run(["operator", "--config", str(config), "--thread-num", "7", "--logtostderr"]) == 0

    settings = started[-1][1].jobs
    assert (settings.gc_period_s, settings.node_lost_after_s, settings.workers) == (60, 120, 7)
    assert not settings.gang


def test_defaults_are_the_settings_own(
    started: list[Started],
) -> None:
    """Said in one place."""
    assert run(["operator"]) == 0
    assert started[-1][1].jobs == AITrainingJobSettings(history=HistorySettings())
    assert started[-1][0].lease.leader_elect


def test_leader_election_can_be_left_out(
    started: list[Started],
) -> None:
    """For a single process on a machine of one's own."""
    assert run(["operator", "--no-leader-elect", "--v", "4"]) == 0
    assert not started[-1][0].lease.leader_elect


@pytest.mark.parametrize(("text", "level"), [("4", "debug"), ("2", "info"), ("warning", "warning")])
def test_level_by_name_or_number(text: str, level: str) -> None:
    """Numbers are what other operators count verbosity with."""
    assert level_of(text) == level


@pytest.mark.parametrize(
    ("address", "place"), [(":8080", ("0.0.0.0", 8080)), ("127.0.0.1:0", ("127.0.0.1", 0))]
)
def test_address_is_host_and_port(address: str, place: tuple[str, int]) -> None:
    """Without a host, all of them: probes come from outside the pod."""
    assert host_port(address) == place


def test_limits_of_ai_training_jobs_reach_them(started: list[Started]) -> None:
    """A number and a time; without the number there is no limit."""
    flags = ["--creating-restart-limit", "3", "--node-avoid-period", "10m"]
    flags += ["--save-seconds-max", "2m", "--fault-half-life", "20m", "--cordon-suspects"]
    flags += ["--straggler-ratio", "2", "--straggler-steps", "100"]
    assert run(["operator", *flags]) == 0
    settings = started[-1][1].jobs
    assert (settings.straggler_ratio, settings.straggler_steps) == (2.0, 100)
    assert (settings.fault_half_life_s, settings.cordon_suspects) == (1200.0, True)

    assert (settings.creating_restart_limit, settings.node_avoid_s) == (3, 600.0)
    assert settings.save_seconds_max == 120.0


def test_flags_about_broken_gpus_reach_them(
    started: list[Started], capsys: pytest.CaptureFixture[str]
) -> None:
    """Old lists keep their meaning; an entry that means nothing stops the start, and is named."""
    flags = ["--gpu-fault-conditions", "GPUUnhealthy,Ready=False!Monitor"]
    flags += ["--gpu-fault-taints", "x/gpu:NoSchedule"]
    flags += ["--gpu-fault-after", "30s", "--gpu-fault-max-nodes", "10%"]
    assert run(["operator", *flags]) == 0
    settings = started[-1][1].jobs

    assert settings.gpu_fault_conditions == ("GPUUnhealthy", "Ready=False!Monitor")
    assert (settings.gpu_fault_after_s, settings.gpu_fault_max_share) == (30.0, 0.1)
    for flag, entry in (
        ("--gpu-fault-conditions", "Gpu=Maybe"),
        ("--gpu-fault-taints", "x:Never"),
        ("--gpu-fault-max-nodes", "many"),
        ("--gpu-fault-device-taints", "x:PreferNoSchedule"),
        ("--gpu-allocatable-drop", "ignore"),
    ):
        assert run(["operator", f"{flag}={entry}"]) == 2
        said = capsys.readouterr().err
        assert flag in said
        assert entry in said


@pytest.mark.parametrize("limit", [-1, -100])
def test_negative_limit_is_refused(
    limit: int, started: list[Started], capsys: pytest.CaptureFixture[str]
) -> None:
    """With the flag and the value in the message."""
    assert run(["operator", f"--creating-restart-limit={limit}"]) == 2
    assert f"--creating-restart-limit is {limit}," in capsys.readouterr().err
    assert not started


def test_adoption_is_off_unless_asked_for(started: list[Started]) -> None:
    """Nobody's objects are deleted by an upgrade."""
    assert run(["operator"]) == 0
    assert run(["operator", "--adopt-original"]) == 0

    assert [one.training_jobs.adopt_original for _, one in started] == [False, True]


def test_training_jobs_share_what_both_kinds_have(
    started: list[Started],
) -> None:
    """A flag of both kinds is said once; those of TrainingJobs alone reach them."""
    flags = ["--autoclean", "--restartlimit", "2", "--etcd-image", "e", "--no-gang"]
    assert run(["operator", *flags, "--namespace", "team", "--gc-period", "1m"]) == 0

    found = started[-1][1].training_jobs
    assert (found.autoclean, found.restart_limit, found.etcd_image) == (True, 2, "e")
    assert (found.namespace, found.gc_period_s, found.gang) == ("team", 60, False)


SEED_LINE = (
    "operator --master 10.0.0.1:8080 --v 4 --thread-num 1000 --logtostderr --leader-elect=true"
    " --enable-creating-failed=true"
)


def test_start_command_of_the_older_operator_runs_as_it_is(started: list[Started]) -> None:
    """Its flags, with its spelling of booleans; CRDs are installed, as it did itself."""
    assert run(SEED_LINE.split()) == 0

    process, services = started[-1]
    assert (process.server.master, process.endpoints.log_level) == ("10.0.0.1:8080", "4")
    assert process.lease.leader_elect
    assert (services.jobs.workers, services.jobs.enable_creating_failed) == (1000, True)
    assert services.install_crds


@pytest.mark.parametrize(
    ("line", "installs"),
    [
        ("", False),
        ("--install-crds", True),
        ("--install-crds=1", True),
        ("--master 10.0.0.1:8080", True),
        ("--master 10.0.0.1:8080 --install-crds=false", False),
    ],
)
def test_crds_are_installed_for_a_server_that_is_named_by_hand(
    line: str, installs: bool, started: list[Started]
) -> None:
    """Deployments have them applied before; `--install-crds` decides where it is given."""
    assert run(["operator", *line.split()]) == 0
    assert started[-1][1].install_crds is installs


@pytest.mark.parametrize(
    ("master", "kubeconfig", "server"),
    [
        ("10.0.0.1:8080", False, "http://10.0.0.1:8080"),
        ("http://10.0.0.1:8080/", False, "http://10.0.0.1:8080"),
        ("10.0.0.1:6443", True, "https://10.0.0.1:6443"),
        ("[::1]:6443", True, "https://[::1]:6443"),
    ],
)
def test_master_without_a_scheme(
    master: str,
    kubeconfig: bool,
    server: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Plain http for an anonymous client, https where a file says how to log in."""
    for name in ("KUBECONFIG", "SWELL_HOME", "KUBERNETES_SERVICE_HOST"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: tmp_path)
    if kubeconfig:
        (tmp_path / ".kube").mkdir()
        (tmp_path / ".kube" / "config").write_text(KUBECONFIG)

    access = _access(ApiServerOptions(master=master))

    assert (access.server, access.user.token) == (server, "secret" if kubeconfig else "")


def test_master_that_is_no_address_is_refused() -> None:
    """With the flag and the value in the message."""
    with pytest.raises(CommandError, match=r"--master: not an address: '10\.0\.0\.1:port'"):
        _access(ApiServerOptions(master="10.0.0.1:port"))


KUBECONFIG = """
current-context: here
clusters: [{name: c, cluster: {server: 'https://elsewhere:6443'}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: here, context: {cluster: c, user: u}}]
"""


def test_history_is_as_long_as_asked_for(started: list[Started]) -> None:
    """For both kinds of job, and none at all on request."""
    assert run(["operator", "--history", "--history-days", "7", "--history-jobs", "100"]) == 0
    kept = started[-1][1].jobs.history

    assert kept == HistorySettings(days=7, jobs_max=100)
    assert started[-1][1].training_jobs.history == kept
    assert run(["operator", "--no-history"]) == 0
    assert started[-1][1].jobs.history is None


def test_a_history_of_nothing_is_refused(
    started: list[Started], capsys: pytest.CaptureFixture[str]
) -> None:
    """Rather than kept for no time, which nobody means."""
    assert run(["operator", "--history-days", "0"]) == 2
    assert "--history-days is 0" in capsys.readouterr().err
    assert not started


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (["--reports-addr", ":1"], "given together"),
        (["--reports-url", "http://x"], "given together"),
        (["--reports-addr", ":1", "--reports-url", "https://x"], "must begin with http://"),
        (
            ["--reports-addr", ":1", "--reports-url", "http://x", "--reports-cert-dir", "/c"],
            "must begin with https://",
        ),
    ],
)
def test_flags_of_the_report_endpoint_have_to_fit(
    started: list[Started], capsys: pytest.CaptureFixture[str], given: list[str], problem: str
) -> None:
    assert run(["operator", *given]) == 2

    assert problem in capsys.readouterr().err
    assert started == []


def test_pods_are_told_the_address_of_the_report_endpoint(started: list[Started]) -> None:
    assert run(["operator", "--reports-addr", ":1", "--reports-url", "http://x"]) == 0

    ((_, services),) = started
    assert services.reports.reports_addr == ":1"
    assert (services.jobs.report_url, services.training_jobs.report_url) == ("http://x", "http://x")
