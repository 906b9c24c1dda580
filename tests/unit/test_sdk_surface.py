"""The public surface of the SDK: names, types, and two forms that do not differ."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import swell
import swell.aio
from swell.sdk.cluster import ClusterHandle
from swell.sdk.job import JobHandle
from swell.sdk.options import JobKeywords, command_options
from swell.sdk.sweep import SweepHandle

NAMES = [
    *("Cluster", "Job", "JobChange", "JobEvent", "PrintedLine", "Sweep", "SwellError"),
    *("SwellWarning", "__version__", "aio", "connect", "submit", "sweep", "train", "watch"),
]


def test_public_names_are_these() -> None:
    """A change of them is a change for users."""
    assert sorted(swell.__all__) == sorted(NAMES)
    assert sorted(swell.aio.__all__) == sorted(set(NAMES) - {"__version__", "aio", "train"})


def test_types_are_declared_for_every_name() -> None:
    """Type checkers read the stub, since the names are loaded late."""
    stub = ast.parse(Path(swell.__file__).with_name("__init__.pyi").read_text())
    declared = next(
        [str(ast.literal_eval(name)) for name in statement.value.elts]
        for statement in stub.body
        if isinstance(statement, ast.Assign) and isinstance(statement.value, ast.List)
    )

    assert sorted(declared) == sorted(NAMES)
    assert (Path(swell.__file__).parent / "py.typed").exists()


@pytest.mark.parametrize("name", NAMES)
def test_every_public_name_is_there(name: str) -> None:
    """Also those that are loaded when they are first used."""
    assert getattr(swell, name) is not None
    assert name in dir(swell)


def test_unknown_name_is_an_attribute_error() -> None:
    """As of any module."""
    with pytest.raises(AttributeError, match="module 'swell' has no attribute 'sumbit'"):
        swell.sumbit  # type: ignore[attr-defined]  # noqa: B018


def test_import_loads_nothing_else() -> None:
    """The import costs next to nothing: the parts are loaded when they are used."""
    code = (
        "import sys; before = set(sys.modules); import swell;"
        "print(sorted(one for one in set(sys.modules) - before if one.startswith('swell')))"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert ended.stdout == "['swell']\n"


@pytest.mark.parametrize(
    ("sync", "other"),
    [
        (ClusterHandle, swell.aio.AsyncCluster),
        (JobHandle, swell.aio.AsyncJob),
        (SweepHandle, swell.aio.AsyncSweep),
    ],
)
def test_asynchronous_form_has_the_same_methods(sync: type, other: type) -> None:
    """Of the same names and arguments; those of the implementation are left out."""
    inside = {"opened", "read_again", "command_of", "add_caller_to"}
    names = {name for name in vars(sync) if not name.startswith("_")} - inside

    assert {name for name in vars(other) if not name.startswith("_")} == names
    for name in names:
        ours, theirs = vars(sync)[name], vars(other)[name]
        assert isinstance(ours, property) == isinstance(theirs, property)
        if not isinstance(ours, property):
            assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters
            waits = inspect.iscoroutinefunction(theirs) or name in {"logs", "watch"}
            assert waits, name


@pytest.mark.parametrize("name", ["connect", "submit", "sweep", "watch"])
def test_asynchronous_functions_take_the_same_arguments(name: str) -> None:
    """So that one can be written for the other."""
    ours, theirs = getattr(swell, name), getattr(swell.aio, name)

    assert inspect.signature(ours).parameters == inspect.signature(theirs).parameters


def test_every_keyword_becomes_a_flag() -> None:
    """Each option of a job has its place among the flags of swell run."""
    given: JobKeywords = {
        "min": 1,
        "max": 2,
        "cpu": 0.5,
        "memory": "1Gi",
        "gpu": 1,
        "image": "i",
        "queue": "q",
        "priority": "p",
        "framework": "pytorch",
        "restart": 3,
        "after": ["prepare"],
        "time_limit": "2h",
        "labels": {"a": "b"},
        "env": {"A": "1"},
        "nproc_per_node": 4,
        "checkpoints": "/c",
        "workdir": "/w",
        "clean_env": True,
        "reporting": False,
    }
    asked = command_options(**given)

    assert given.keys() == JobKeywords.__annotations__.keys()
    assert (asked.least, asked.most, asked.cpu, asked.gpu) == (1, 2, "0.5", "1")
    assert (asked.time_limit, asked.label, asked.env) == (7200.0, ["a=b"], ["A=1"])
    assert (asked.after, asked.restart) == (["prepare"], 3)
    assert (asked.nproc_per_node, asked.workdir, asked.clean_env) == ("4", "/w", True)
    assert asked.reporting is False
    with pytest.raises(swell.SwellError, match="time_limit: not a duration"):
        command_options(time_limit="soon")
