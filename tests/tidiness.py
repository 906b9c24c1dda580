"""The files of the repository, for tests of the house style.

A style is asked of all files by one test, which names those that lack it: as a test for each file,
the tests of style would be a third of all tests, and most of their time would be that of pytest.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]


def tracked(*patterns: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", *patterns],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    return [ROOT / line for line in listed.stdout.splitlines() if (ROOT / line).exists()]


SOURCES = tracked("src/*.py")
ALL_PYTHON = tracked("*.py")


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@dataclass(frozen=True, slots=True)
class Definition:
    """A function or class of a file."""

    name: str
    line: int
    n_lines: int
    is_class: bool
    docstring: str | None


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What tests of style ask of a file. Tests of one process share it, see `tests.lanes`.

    The parsed file is not kept: those of the whole tree are millions of objects.
    """

    docstring: str | None
    n_lines: int
    definitions: tuple[Definition, ...]
    imported: frozenset[str]
    broad_lines: tuple[int, ...]  # of handlers that catch every exception


@cache
def facts_of(path: Path) -> FileFacts:
    text = path.read_text()
    tree = ast.parse(text)
    statements = [*_statements(tree.body)]
    return FileFacts(
        ast.get_docstring(tree),
        len(text.splitlines()),
        tuple(_definition(one) for one in statements if isinstance(one, _DEFINES)),
        frozenset(module for one in statements for module in _imported(one)),
        tuple(
            handler.lineno
            for one in statements
            if isinstance(one, ast.Try | ast.TryStar)
            for handler in one.handlers
            if handler.type is None
            or (isinstance(handler.type, ast.Name) and handler.type.id in _EVERY_EXCEPTION)
        ),
    )


_DEFINES = (ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_EVERY_EXCEPTION = frozenset({"Exception", "BaseException"})


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Every statement, also those within others; what is asked for is in no expression."""
    for one in body:
        yield one
        for field in ("body", "orelse", "finalbody"):
            yield from _statements(getattr(one, field, ()))
        for part in (*getattr(one, "handlers", ()), *getattr(one, "cases", ())):
            yield from _statements(part.body)


def _definition(one: ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) -> Definition:
    n_lines = (one.end_lineno or 0) - one.lineno + 1
    is_class = isinstance(one, ast.ClassDef)
    return Definition(one.name, one.lineno, n_lines, is_class, ast.get_docstring(one))


def _imported(one: ast.stmt) -> Iterator[str]:
    if isinstance(one, ast.Import):
        yield from (alias.name for alias in one.names)
    elif isinstance(one, ast.ImportFrom) and one.module and not one.level:
        yield one.module
