"""House style as a test: what a machine can say, no reviewer has to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

from tests.tidiness import ALL_PYTHON, SOURCES, name, tracked

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
    "src/swell/scheduler/live/",
    "src/swell/train/bus/shell/",
)
BROAD_EXCEPT_ALLOWED = {"src/swell/runtime/manager.py"}


def is_pure(path: Path) -> bool:
    return name(path).startswith(PURE) and not name(path).startswith(SHELLS)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            yield node.module


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What the tests ask of a file, so that one reading of it serves all of them."""

    docstring: str | None
    n_lines: int
    long_functions: tuple[str, ...]
    modules: frozenset[str]
    broad_lines: tuple[int, ...]


@cache
def facts_of(path: Path) -> FileFacts:
    text = path.read_text()
    tree = ast.parse(text)
    return FileFacts(
        ast.get_docstring(tree),
        len(text.splitlines()),
        tuple(
            one.name
            for one in functions(tree)
            if (one.end_lineno or 0) - one.lineno >= FUNCTION_LINES_MAX
        ),
        frozenset(imported(tree)),
        tuple(
            node.lineno
            for node in ast.walk(tree)
            if isinstance(node, ast.ExceptHandler)
            and (node.type is None or (isinstance(node.type, ast.Name) and is_broad(node.type.id)))
        ),
    )


@pytest.mark.parametrize("path", [p for p in ALL_PYTHON if p.stat().st_size], ids=name)
def test_file_is_tidy(path: Path) -> None:
    """A file opens with a docstring, has one subject's length and no overlong function."""
    facts = facts_of(path)

    assert facts.docstring, "a file says what it is for"
    n_lines = facts.n_lines
    assert n_lines <= FILE_LINES_MAX
    assert path.name not in BANNED_FILES
    assert not facts.long_functions, f"longer than {FUNCTION_LINES_MAX} lines"


@pytest.mark.parametrize("path", [p for p in SOURCES if is_pure(p)], ids=name)
def test_pure_module_imports_nothing_impure(path: Path) -> None:
    """A decision sees no clock, chance, loop or network."""
    modules = facts_of(path).modules - HARMLESS
    found = {module.split(".")[0] for module in modules} & IMPURE

    assert not found


@pytest.mark.parametrize("path", SOURCES, ids=name)
def test_broad_except_only_in_the_manager(path: Path) -> None:
    """An exception nobody expected is a bug, and exactly one place decides what happens then."""
    broad = facts_of(path).broad_lines

    assert not broad or name(path) in BROAD_EXCEPT_ALLOWED, f"lines {broad}"


def is_broad(exception: str) -> bool:
    return exception in {"Exception", "BaseException"}


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
