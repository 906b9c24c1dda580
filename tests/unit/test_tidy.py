"""House style as a test: what a machine can say, no reviewer has to."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from tests.tidiness import ALL_PYTHON, SOURCES, facts_of, name, tracked

FILE_LINES_MAX = 600
FUNCTION_LINES_MAX = 70
BANNED_FILES = {"utils.py", "helpers.py", "common.py", "misc.py", "util.py"}
MARKS = re.compile(r"\b(TO" r"DO|FIX" r"ME|X" r"XX|HA" r"CK)\b")
# Time, chance and the network reach a decision only as arguments.
IMPURE = {"asyncio", "time", "random", "uuid", "socket", "threading", "aiohttp", "urllib", "http"}
HARMLESS = {"urllib.parse"}  # takes texts apart, and reaches no network
PURE = (
    "src/swell/api",
    "src/swell/scheduler",
    "src/swell/autoscaler",
    "src/swell/cel",
    "src/swell/schema",
    "src/swell/operator/aitrainingjob",
    "src/swell/operator/trainingjob",
    "src/swell/node/decide.py",
    "src/swell/node/nodes.py",
    "src/swell/node/pods.py",
    "src/swell/node/restarts.py",
    "src/swell/node/runs.py",
    "src/swell/node/status.py",
    "src/swell/node/process/setup/addresses.py",
    "src/swell/node/process/setup/environment.py",
    "src/swell/node/process/setup/spec.py",
    "src/swell/node/process/setup/volumes.py",
    "src/swell/train/bus",
)
# What makes decisions of the same folder happen.
SHELLS = (
    "src/swell/autoscaler/controller.py",
    "src/swell/autoscaler/informers.py",
    "src/swell/autoscaler/pacing.py",
    "src/swell/scheduler/live/",
    "src/swell/train/bus/shell/",
)
BROAD_EXCEPT_ALLOWED = {"src/swell/runtime/manager.py"}


def is_pure(path: Path) -> bool:
    return name(path).startswith(PURE) and not name(path).startswith(SHELLS)


def untidy(path: Path) -> Iterator[str]:
    """What a reader of the file would stumble over."""
    facts = facts_of(path)
    if not facts.docstring:
        yield "does not say what it is for"
    if facts.n_lines > FILE_LINES_MAX:
        yield f"has more than {FILE_LINES_MAX} lines"
    if path.name in BANNED_FILES:
        yield "has a name that says nothing"
    for one in facts.definitions:
        if one.n_lines > FUNCTION_LINES_MAX and not one.is_class:
            yield f"{one.name} is longer than {FUNCTION_LINES_MAX} lines"


def test_files_are_tidy() -> None:
    """A file opens with a docstring, has one subject's length and no overlong function."""
    paths = [path for path in ALL_PYTHON if path.stat().st_size]
    found = {name(path): problems for path in paths if (problems := [*untidy(path)])}

    assert found == {}


def test_pure_modules_import_nothing_impure() -> None:
    """A decision sees no clock, chance, loop or network."""
    pure = [path for path in SOURCES if is_pure(path)]
    found = {
        name(path): impure
        for path in pure
        if (impure := {one.split(".")[0] for one in facts_of(path).imported - HARMLESS} & IMPURE)
    }

    assert pure
    assert found == {}


def test_broad_except_only_in_the_manager() -> None:
    """An exception nobody expected is a bug, and exactly one place decides what happens then."""
    broad = {name(path): lines for path in SOURCES if (lines := facts_of(path).broad_lines)}

    assert {file: broad[file] for file in broad.keys() - BROAD_EXCEPT_ALLOWED} == {}


def test_no_unfinished_marks() -> None:
    """What is not done is written down where people look for it, not in the code."""
    files = [*ALL_PYTHON, *tracked("*.md", "Makefile", "*.toml")]
    found = [
        f"{name(path)}:{number}"
        for path in files
        if "recorded" not in path.parts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if MARKS.search(line)
    ]

    assert not found
