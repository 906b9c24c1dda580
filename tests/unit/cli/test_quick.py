"""The plain forms of `swell get`, which are answered without the rest of the command line."""

from __future__ import annotations

import subprocess
import sys
from contextlib import nullcontext
from itertools import product
from pathlib import Path

import pytest

from swell.api.kinds import ALL, EVENTS
from swell.cli.choice import NoClusterError, choose
from swell.cli.connection import current_environment
from swell.cli.options import ClusterOptions
from swell.cli.quick import KINDS, kubeconfig_file, parse
from swell.cli.saved_choice import (
    LAST_USED,
    SavedChoice,
    saved_choice_file,
    write_saved_choice,
)
from swell.cluster.home import hold_lock

SLOW = {"typer", "msgspec", "asyncio", "dataclasses", "typing", "pathlib", "inspect", "http.client"}
SAVED = (None, LAST_USED, SavedChoice(), SavedChoice("prod", ("/p",)))
CONFIG = '{"clusters": [{"name": "a", "cluster": {"server": "https://%s"}}], "users": [],'
CONFIG += ' "current-context": "a", "contexts": [{"name": "a", "context": {"cluster": "a"}}]}'


def test_kinds_are_those_that_the_other_way_finds() -> None:
    """A name means the same kind, at the same path, as in the list of all kinds."""
    for kind, path, is_namespaced, names in KINDS:
        for name in (kind, *names):
            meant = next(
                one for one in ALL if name in {one.kind.lower(), one.plural, *one.short_names}
            )
            assert (meant.path(), meant.namespaced) == (path, is_namespaced)
            assert meant.kind.lower() == kind
            assert meant.plural != EVENTS.plural  # whose rows are sorted by what they say


@pytest.mark.parametrize(
    "words",
    ["", "pods", "jobs", "AITJ", "cm a b", "-n x", "--namespace=x -A", "po -o wide --no-headers"],
)
def test_plain_forms_are_taken(words: str) -> None:
    """The forms that people type most."""
    assert parse(words.split()) is not None


@pytest.mark.parametrize(
    "words",
    [
        *("fit", "job fit", "all", "pods,cm", "pod/a", "events", "sweep x", "crd", "jobs.batch"),
        *("-w", "-o json", "-o", "-o=wide", "-n", "-n -A", "--sort-by x", "--help", "--", "-x"),
        *("no -o wide",),  # whose FAULTS are counted by the whole command
        *("cm a -A", "cm a -l b=c", "--namespace=", "--context c", "--ignore-not-found"),
    ],
)
def test_all_other_forms_are_left_alone(words: str) -> None:
    """Names of jobs, other formats and mistakes are for the whole command."""
    assert parse(words.split()) is None


@pytest.mark.parametrize("is_running", [True, False])
def test_cluster_is_the_one_that_the_rules_choose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_running: bool
) -> None:
    """In every environment that is answered here, `choice` chooses the same and has no rival."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    home, other = tmp_path / ".local/state/swell", tmp_path / "other"
    saved_file = saved_choice_file({}, tmp_path)
    other.mkdir()
    with hold_lock(home) if is_running else nullcontext():
        home.mkdir(parents=True, exist_ok=True)
        for folder in (home, other):
            (folder / "kubeconfig").write_text(CONFIG % folder.name)
        named = ("", str(other / "kubeconfig"), str(home / "kubeconfig"), f"{home}:{other}")
        taken = 0
        for swell_home, kubeconfig, saved, flag in product(
            ("", str(home), str(other)), named, SAVED, ("", "embedded", "kubeconfig")
        ):
            monkeypatch.setenv("SWELL_HOME", swell_home)
            monkeypatch.setenv("KUBECONFIG", kubeconfig)
            saved_file.unlink(missing_ok=True)
            if saved is not None:
                write_saved_choice(saved_file, saved)
            taken += _is_chosen_alike(flag)
    assert taken >= 48


def _is_chosen_alike(flag: str) -> bool:
    """Compare both ways; False where the quick one leaves the choice to the other."""
    environment = current_environment()
    flags = {"embedded": "true"} if flag == "embedded" else {}
    flags |= {"kubeconfig": "/some/file"} if flag == "kubeconfig" else {}
    file = kubeconfig_file(flags, environment.environ)
    if file is None:
        return False
    options = ClusterOptions(flags.get("kubeconfig", ""), embedded=flag == "embedded")
    try:
        choice = choose(options, environment)
    except NoClusterError as error:
        pytest.fail(f"{file} was chosen, and there is none: {error}")
    assert (choice.kubeconfigs, choice.context, choice.rival) == ((Path(file),), "", "")
    return True


def test_quick_way_loads_nothing_slow() -> None:
    """The command stays quick because of what it does not import."""
    program = "import sys, json, socket, ssl, swell, swell.cli.main, swell.cli.quick"
    shown = f"print(*sorted(set({sorted(SLOW)}) & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-I", "-c", f"{program}; {shown}"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "\n"
