"""Splits a manifest file into documents, and lists into their items.

A part that cannot be read becomes a finding with file and line; the readable parts are kept.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial

from swell.api.manifest.composer import DEPTH_MAX, ManifestSyntaxError, Value, compose
from swell.api.manifest.scalars import number
from swell.api.meta import Body
from swell.api.validation import validate
from swell.api.validation.problems import FieldProblem, Steps, path_text, show

LineTable = Mapping[Steps, int]


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem and its place in a file."""

    file: str
    line: int
    path: str
    message: str
    hint: str

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}: "
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}{self.path + ': ' if self.path else ''}{self.message}{hint}"


@dataclass(frozen=True, slots=True)
class Document:
    """One object of a manifest file. `load_lines` is called only when a line is needed."""

    file: str
    body: Body
    load_lines: Callable[[], LineTable]
    prefix: Steps = ()

    def line_of(self, steps: Steps) -> int:
        """Returns the line of a field, or of the nearest part around it that exists."""
        lines = self.load_lines()
        whole = (*self.prefix, *steps)
        while whole and whole not in lines:
            whole = whole[:-1]
        return lines.get(whole, 1)

    def finding(self, problem: FieldProblem) -> Finding:
        line = self.line_of(problem.steps)
        return Finding(self.file, line, problem.path, problem.message, problem.hint)


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """The objects of a file, and findings for the parts that could not be read."""

    documents: tuple[Document, ...]
    findings: tuple[Finding, ...]
    file: str = "-"


def read(text: str | bytes, file: str = "-") -> ManifestFile:
    """Returns all objects in a YAML or JSON text."""
    documents: list[Document] = []
    findings: list[Finding] = []
    try:
        for parsed in _parse(_decoded(text)):
            for steps in parsed.repeated:
                where = parsed.load_lines().get(steps, 1)
                message, hint = "stands here twice", "remove one of them"
                findings.append(Finding(file, where, path_text(steps), message, hint))
            whole = Document(file, {}, parsed.load_lines)
            for part in _objects(parsed.value, whole):
                if isinstance(part, Document):
                    documents.append(part)
                else:
                    findings.append(part)
    except ManifestSyntaxError as error:
        findings.append(Finding(file, error.line, "", error.message, error.hint))
    return ManifestFile(tuple(documents), tuple(findings), file)


@dataclass(frozen=True, slots=True)
class _Parsed:
    value: Value
    load_lines: Callable[[], LineTable]
    repeated: Sequence[Steps] = ()


def _decoded(text: str | bytes) -> str:
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise ManifestSyntaxError(line, "is not UTF-8", "save the file as UTF-8") from error


def _parse(text: str) -> Iterator[_Parsed]:
    value = _json_value(text)
    if value is not None:
        yield _Parsed(value, cache(lambda: _json_lines(text)))
        return
    for composed in compose(text):
        yield _Parsed(composed.value, partial(_same, composed.lines), composed.repeated)


def _same(lines: LineTable) -> LineTable:
    return lines


def _json_value(text: str) -> Value:
    """Returns the value of a JSON text; None for YAML, and for errors the YAML parser explains."""
    if not text.lstrip().startswith(("{", "[")):
        return None
    try:
        value: Value = json.loads(text, object_pairs_hook=_distinct, parse_float=number)
        if "\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()  # fails for half of a surrogate pair
    except (ValueError, RecursionError):
        return None
    return value if _depth(value) <= DEPTH_MAX else None


def _distinct(pairs: list[tuple[str, Value]]) -> dict[str, Value]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise ValueError("repeated key")
    return fields


def _depth(value: Value) -> int:
    depth, level = 0, [value]
    while level and depth <= DEPTH_MAX:
        depth += 1
        below: list[Value] = []
        for one in level:
            if isinstance(one, dict):
                below += one.values()
            elif isinstance(one, list):
                below += one
        level = below
    return depth


def _json_lines(text: str) -> LineTable:
    """Returns the lines of JSON fields. JSON is YAML except for tabs between its tokens."""
    try:
        return next(compose(text.replace("\t", " "))).lines
    except ManifestSyntaxError:  # for example a key that is too long for YAML
        return {}


def _objects(value: Value, whole: Document) -> Iterator[Document | Finding]:
    """Yields the object, or the objects of a list; a finding for anything else."""
    if value is None:
        return
    if not isinstance(value, dict):
        problem = FieldProblem((), f"must be an object, is {show(value)}", "write kind: and so on")
        yield whole.finding(problem)
    elif not _is_list(value):
        yield replace(whole, body=value)
    elif not isinstance(items := value.get("items"), list):
        problem = FieldProblem(("items",), f"must be a list, is {show(items)}", "write items: []")
        yield whole.finding(problem)
    else:
        for index, item in enumerate(items):
            yield from _objects(item, replace(whole, prefix=(*whole.prefix, "items", index)))


def _is_list(value: Mapping[str, Value]) -> bool:
    kind = value.get("kind")
    return isinstance(kind, str) and kind.endswith("List") and "items" in value


# Returns further problems of an object, besides those that validation has found.
FurtherChecks = Callable[[Body, Sequence[FieldProblem]], Iterable[FieldProblem]]


def findings_of(
    readings: Iterable[ManifestFile], further: FurtherChecks = lambda *_: ()
) -> list[Finding]:
    """Returns everything that is wrong in some files, ordered by file and line."""
    findings: list[Finding] = []
    for reading in readings:
        found = list(reading.findings)
        for document in reading.documents:
            problems = validate(document.body)
            known = {problem.steps for problem in problems}
            for problem in further(document.body, tuple(problems)):
                # One mistake is reported once, in the words of those who found it first.
                if problem.steps not in known:
                    problems.append(problem)
                    known.add(problem.steps)
            found += [document.finding(problem) for problem in problems]
        findings += sorted(found, key=lambda finding: finding.line)
    return findings
