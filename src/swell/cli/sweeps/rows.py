"""The rows of a sweep: all combinations of a grid, the lines of a file, or an array. Pure."""

from __future__ import annotations

import csv
import itertools
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from swell.cli.command_line import USAGE, CommandError

# More jobs than this are nearly always a typing error; a cluster would take minutes for them.
ROWS_MAX = 10_000
INDEX = "index"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+)(?::(\d+))?")
# Fractions, powers of ten or a step that is no number: nobody means that as a value.
_LIKE_RANGE = re.compile(r"-?\d[\d.]*(e-?\d+)?\.\.-?\d[\d.]*(e-?\d+)?(:.*)?")
_ARRAY_PART = re.compile(r"(\d+)(?:-(\d+)(?::(\d+))?)?")
# Slurm's `0-199%4` runs four of the array at a time.
_ARRAY_LIMIT = re.compile(r".*%(\d+)")


@dataclass(frozen=True, slots=True)
class SweepRow:
    """One row: the number that its job is named by, and the texts of its parameters."""

    index: int
    values: Mapping[str, str]


def grid_rows(parameters: Sequence[str], lines: Sequence[Mapping[str, str]]) -> list[SweepRow]:
    """Return every line of a file combined with every combination of `name=value,...`.

    The last parameter changes fastest. Without lines there is one, with nothing in it.
    """
    axes = [_axis(text) for text in parameters]
    names = [name for name, _ in axes]
    known = [*names, *dict.fromkeys(name for line in lines for name in line)]
    for name in known:
        if known.count(name) > 1:
            raise CommandError(f"the parameter {name} is given twice", exit_code=USAGE)
    values = [of for _, of in axes]
    n_rows = max(len(lines), 1)
    for of in values:
        n_rows *= len(of)
    _check_number(n_rows)
    found = [
        {**line, **dict(zip(names, combination, strict=True))}
        for line in lines or ({},)
        for combination in itertools.product(*values)
    ]
    return [SweepRow(index, row) for index, row in enumerate(found)]


def array_rows(text: str) -> list[SweepRow]:
    """Return a row for each number of `0-199`, `0-199:10` or `1,3,5-7`, as Slurm writes arrays."""
    indexes: list[int] = []
    limit = _ARRAY_LIMIT.fullmatch(text)
    if limit is not None:
        array = text.rpartition("%")[0]
        hint = f"write it as --array {array} --parallel {limit[1]}"
        raise CommandError(f"--array: {text!r} has a limit, which is a flag here", hint, USAGE)
    for part in text.split(","):
        found = _ARRAY_PART.fullmatch(part.strip())
        if found is None:
            hint = "write it like 0-199, 0-199:10 or 1,3,5-7"
            raise CommandError(f"--array: {text!r} is no range of numbers", hint, USAGE)
        first, last, step = found.groups()
        indexes += _numbers(int(first), int(last or first), int(step or 1), f"--array {part}")
    if len(set(indexes)) != len(indexes):
        raise CommandError(f"--array: a number of {text!r} is given twice", exit_code=USAGE)
    return [SweepRow(index, {INDEX: str(index)}) for index in indexes]


def file_lines(text: str, file: str) -> list[dict[str, str]]:
    """Return the rows of a file: JSON lines if it begins like an object, CSV with a heading else.

    Values are texts; those of JSON that are none are written as JSON.
    """
    is_json = text.lstrip().startswith("{")
    lines = list(_json_lines(text, file) if is_json else _csv_lines(text, file))
    if not lines:
        raise CommandError(f"{file} has no rows", "CSV begins with the names of its columns")
    _check_number(len(lines))
    return lines


def _axis(text: str) -> tuple[str, list[str]]:
    name, equals, given = text.partition("=")
    if not equals or _NAME.fullmatch(name) is None:
        hint = "write it like lr=1e-3,1e-4 or seed=0..9, and -- before the command"
        raise CommandError(f"not a parameter: {text!r}", hint, USAGE)
    # Quoted as in CSV, a value may hold a comma.
    values = [value for part in next(csv.reader([given]), []) for value in _values(part, name)]
    if not values:
        raise CommandError(f"the parameter {name} has no values", exit_code=USAGE)
    return name, values


def _values(part: str, name: str) -> list[str]:
    found = _RANGE.fullmatch(part)
    if found is None:
        if _LIKE_RANGE.fullmatch(part):
            hint = "write 0..9 or 0..100:10, or name the values with commas between them"
            raise CommandError(f"{name}={part} is no range of whole numbers", hint, USAGE)
        return [part]
    first, last, step = found.groups()
    return [str(n) for n in _numbers(int(first), int(last), int(step or 1), f"{name}={part}")]


def _numbers(first: int, last: int, step: int, given: str) -> range:
    if last < first or step < 1:
        raise CommandError(f"{given} holds no number", "write the smaller one first", USAGE)
    _check_number((last - first) // step + 1)
    return range(first, last + 1, step)


def _check_number(n_rows: int) -> None:
    if n_rows > ROWS_MAX:
        message = f"that would be {n_rows:,} jobs; a sweep has {ROWS_MAX:,} at most"
        raise CommandError(message, "divide it into several sweeps", USAGE)


def _json_lines(text: str, file: str) -> Iterator[dict[str, str]]:
    heading: list[str] = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except ValueError as error:
            raise CommandError(f"{file}:{number}: not JSON: {error}") from error
        if not isinstance(row, dict):
            raise CommandError(f"{file}:{number}: not an object", 'write it like {"lr": 0.1}')
        names = [_checked_name(name, file, number) for name in row]
        heading = heading or names
        if sorted(names) != sorted(heading):
            message = f"{file}:{number}: its names are not those of the first row"
            raise CommandError(message, f"it has {_listed(names)}; the first: {_listed(heading)}")
        yield {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in row.items()
        }


def _csv_lines(text: str, file: str) -> Iterator[dict[str, str]]:
    reader = csv.reader(text.splitlines())
    heading = [_checked_name(name.strip(), file, 1) for name in next(reader, [])]
    for name in heading:
        if heading.count(name) > 1:
            raise CommandError(f"{file}:1: two columns are named {name}")
    for row in reader:
        if not row:
            continue
        if len(row) != len(heading):
            message = f"{file}:{reader.line_num}: {len(row)} values for {len(heading)} columns"
            raise CommandError(message, f"its columns: {', '.join(heading)}")
        yield dict(zip(heading, (value.strip() for value in row), strict=True))


def _checked_name(name: str, file: str, line: int) -> str:
    if _NAME.fullmatch(name) is None:
        hint = "names consist of letters, digits, _, - and ."
        if {";", "\t"} & {*name}:
            hint = "columns are separated by commas"
        raise CommandError(f"{file}:{line}: {name!r} cannot be the name of a parameter", hint)
    return name


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"
