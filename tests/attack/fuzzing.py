"""Random inputs for every parser of outside input.

    python -m tests.attack.fuzzing [--inputs 100000] [--seed 1] [--each] [NAME PART ...]

The inputs are dealt out among the parsers, or with `--each` every parser is given as many. Parts of
names choose parsers.

A parser returns a value or refuses with the error that it declares. Any other error would be a 500
or the end of the process, and an input that takes long would stall every other request.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from swell.api import manifest, quantity, times
from swell.api.manifest import yamldata
from swell.api.manifest.composer import ManifestSyntaxError
from swell.cel import EvaluationError, ExpressionError, compile_expression
from swell.cel.types import DYN, INT, STRING, list_of
from swell.cluster.embedded import selectors
from swell.cluster.embedded.http import bodies, options, routing
from swell.cluster.embedded.http.tables import jsonpath
from swell.cluster.embedded.patching.jsonpatch import JsonPatchError, apply_operations
from swell.cluster.embedded.registry import FieldPath
from swell.runtime.errors import ClusterError
from swell.schema.formats import format_check
from swell.schema.patterns import PatternError, compile_pattern
from tests.attack import parsers
from tests.attack.parsers import JSON, YAML, Parser

STALL_S_MAX = 0.5
_BODY = {"spec": {"a": [{"b": 1, "c": "x"}] * 5, "d": {"e": [1, 2, 3]}}, "metadata": {"name": "n"}}
_FIELDS = {"metadata.name": FieldPath("metadata.name"), "spec.nodeName": FieldPath("spec.nodeName")}


def _evaluate(text: str) -> None:
    program = compile_expression(text, {"self": list_of(INT, 100), "s": STRING, "d": DYN})
    program.evaluate(list(range(100)), "text" * 20, {"a": [1, {"b": "c"}], "n": None})


def _patch(text: str) -> None:
    parsed = bodies.read_json(_raw(text))
    if isinstance(parsed, list) and all(isinstance(one, dict) for one in parsed):
        apply_operations(_BODY, parsed)


def _formats(text: str) -> None:
    for name in ("duration", "date-time", "uri", "email", "cidr", "ipv4", "isbn", "uuid", "byte"):
        check = format_check(name)
        if check is not None:
            check(text)


_CEL = (
    "self",
    "s",
    "d",
    ".all(x, ",
    ".map(x, ",
    ")",
    "(",
    " + ",
    " == ",
    "1",
    "'a'",
    "[",
    "]",
    ",.size()",
    "!",
    "-",
    "? ",
    " : ",
    "{",
    "}",
    ".a",
    " in ",
    "lists.range(9)",
    ".matches('",
)
_JSON_EXAMPLE = json.dumps({"apiVersion": "v1", "kind": "Pod", **_BODY, "n": [1.5e3, -7, None]})
_YAML_EXAMPLE = """# text
apiVersion: v1
metadata: &m {name: n, labels: {a: 'b', "c": "\\x41"}}
spec:
  - a: |
      text
    b: [1, 0x1f, 1e3, ~, true, 2001-01-01]
  - <<: {x: y}
    ? k
    : >-
      folded
---
kind: List
"""
_PATCH_EXAMPLE = json.dumps([
    {"op": "test", "path": "/spec/a/0/b", "value": 1}, {"op": "add", "path": "/x~1y", "value": {}},
    {"op": "copy", "from": "/spec", "path": "/spec/d/-"}, {"op": "remove", "path": "/spec/a/1"},
    {"op": "move", "from": "/spec/d", "path": "/spec/z"}, {"op": "replace"}])  # fmt: skip
_CEL_EXAMPLE = (
    "self.filter(x, x > 3).map(x, [x, x]).exists(y, y[0] == 5) && s.matches('^t.*$') "
    "? d.a[1].b == 'c' : s.substring(2, 5).split('')[0] in {'a': 1}"
)
PARSERS: tuple[Parser, ...] = (
    Parser("json", lambda t: bodies.read_reported_json(_raw(t)), (ClusterError,), JSON,
           _JSON_EXAMPLE),
    Parser("yaml body", lambda t: bodies.read_yaml(_raw(t)), (ClusterError,), YAML, _YAML_EXAMPLE),
    Parser("yaml", yamldata.read_document, (ManifestSyntaxError,), YAML, _YAML_EXAMPLE),
    Parser("manifest", lambda t: manifest.read(t, "f.yaml"), (), (*YAML, *JSON), _YAML_EXAMPLE),
    Parser("json patch", _patch, (JsonPatchError, ClusterError), (
        '[{"op":"add","path":"/spec/a/0","value":1},', '{"op":"copy","from":"/spec",', "]", "}",
        '"path":"/spec/d/x"}', '{"op":"move","from":"/spec/a","path":"/spec/d/y"}', ",", "[", "{",
        '{"op":"test","path":"/spec/a/-1","value":{}}', '{"op":"remove","path":"/spec/a/0"}'),
        _PATCH_EXAMPLE),
    Parser("label selector", selectors.parse_labels, (selectors.SelectorError,), (
        "a", "=", "!=", " in ", "(", ")", ",", "!", " notin ", ">", "9" * 30, "x/y", "-", "=="),
        "a=b,c!=d,e in (f,g),h notin (i),!j,k,l>3"),
    Parser("field selector", lambda t: selectors.parse_fields(t, _FIELDS), (
        selectors.SelectorError,), ("metadata.name", "=", "!=", ",", "\\", "\\,", "==", "x"),
        "metadata.name=a,spec.nodeName!=b\\,c"),
    Parser("json path", lambda t: jsonpath.find_first(_BODY, t), (), (
        ".spec", ".a", "[*]", "[0]", "['b']", "[?(@.b==1)]", "{", "}", "\\.", "[", "]", "..", " "),
        "{.spec.a[?(@.b==1)].c}.x[0:2]..['y']"),
    Parser("quantity", quantity.parse, (quantity.QuantityError,), (
        "1", "9" * 40, ".", "e", "Mi", "m", "-", "+", "E", "0", "Ki", "e9999999", " "), "-12.5e+3"),
    Parser("time", times.parse_time, (ValueError, OverflowError), (
        "2030-01-01", "T", "00:00:00", "Z", "+01:00", ".", "9", "-", ":", "0001-01-01"),
        "2030-02-28T23:59:59.123456789+14:00"),
    Parser("path", lambda t: routing.parse_resource_path(routing.split_path("/" + t)), (), (
        "/", "api", "apis", "v1", "%2f", "%", "%ff", "namespaces", "..", "status")),
    Parser("query", lambda t: options.list_options(options.parse_query(t), "n"), (ClusterError,), (
        "limit=", "&", "=", "9" * 30, "%", "watch=1", "labelSelector=a", ";", "resourceVersion=")),
    Parser("accept", routing.negotiate, (ClusterError,), (
        "application/json", ";", ",", "q=", "as=Table", "*/*", "v=v1", "g=meta.k8s.io", "=")),
    Parser("pattern", compile_pattern, (PatternError,), (
        "a", "(", ")", "*", "+", "[", "]", "{9}", "{1,999}", "|", "^", "$", "\\p{L}", "(?i)", "."),
        "^(?i:a|b{2,9})[^c-f\\\\d]*(x+)+$"),
    Parser("formats", _formats, (), ("1", "h", "s", ".", "-", ":", "/", "http://", "a@b", "T")),
    Parser("expression", _evaluate, (ExpressionError, EvaluationError), _CEL, _CEL_EXAMPLE),
    *parsers.PARSERS,
)  # fmt: skip


def _raw(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def draw(rng: random.Random, parser: Parser) -> str:
    """An input: pieces in a row, one of them repeated, or a little noise; or a spoilt example."""
    if parser.example and rng.random() < 0.5:
        return _spoilt(rng, parser)
    n_pieces = rng.choice([1, 2, 4, 8, 16, 40])
    pieces = rng.choices(parser.pieces, k=n_pieces)
    kind = rng.random()
    if kind < 0.05:
        pieces[rng.randrange(n_pieces)] *= rng.choice([50, 500, 5_000])
    elif kind < 0.25:
        noise = (rng.randrange(0x20), rng.randrange(0x80), rng.randrange(0xD7FF))
        pieces[rng.randrange(n_pieces)] = chr(rng.choice(noise))
    return "".join(pieces)


def _spoilt(rng: random.Random, parser: Parser) -> str:
    """The example with some changes: pieces put in, parts left out, repeated, or exchanged."""
    text = parser.example
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(text) + 1)
        end = min(len(text), at + rng.choice([0, 1, 1, 4, 20, 200]))
        part = text[at:end]
        noise = chr(rng.choice((rng.randrange(0x20), rng.randrange(0x80), rng.randrange(0xD7FF))))
        put = rng.choice((rng.choice(parser.pieces), "", noise, part * rng.choice([2, 50, 2_000])))
        text = (text[:at] + put + text[end:])[:200_000]
    return text


@dataclass
class FuzzReport:
    """What went wrong, if anything."""

    n_inputs: int = 0
    n_refused: int = 0
    errors: list[str] = field(default_factory=list)
    slow: list[str] = field(default_factory=list)
    longest_s: float = 0.0

    def add(self, other: FuzzReport) -> None:
        self.n_inputs += other.n_inputs
        self.n_refused += other.n_refused
        self.errors += other.errors
        self.slow += other.slow
        self.longest_s = max(self.longest_s, other.longest_s)


def fuzz(n_inputs: int, seed: int, parsers: Sequence[Parser] = PARSERS) -> FuzzReport:
    rng = random.Random(seed)
    report = FuzzReport()
    for n in range(n_inputs):
        parser = parsers[n % len(parsers)]
        text = draw(rng, parser)
        # The time of this process: others on the machine do not count.
        begun = time.process_time()
        try:
            parser.read(text)
        except parser.refusals:
            report.n_refused += 1
        except Exception as error:  # each of them is a finding
            report.errors.append(f"{parser.name}: {error!r} for {text[:200]!r}")
        took = time.process_time() - begun
        report.longest_s = max(report.longest_s, took)
        if took > STALL_S_MAX:
            report.slow.append(f"{parser.name}: {took:.2f} s for {text[:200]!r}")
        report.n_inputs += 1
    return report


def main() -> int:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("--inputs", type=int, default=100_000)
    flags.add_argument("--seed", type=int, default=1)
    flags.add_argument("--each", action="store_true", help="as many inputs for every parser")
    flags.add_argument("names", nargs="*", metavar="NAME PART", help="default: all parsers")
    chosen = flags.parse_args()
    fuzzed = [one for one in PARSERS if not chosen.names or _is_named(one.name, chosen.names)]
    groups = [(one.name, [one]) for one in fuzzed] if chosen.each else [("all", fuzzed)]
    total = FuzzReport()
    for name, group in groups:
        report = fuzz(chosen.inputs, chosen.seed, group)
        _print(*report.errors[:20], *report.slow[:20], _figures(name, report))
        total.add(report)
    if chosen.each:
        _print(_figures("all", total))
    return int(bool(total.errors or total.slow))


def _print(*lines: str) -> None:
    print(*lines, sep="\n", flush=True)  # noqa: T201


def _is_named(name: str, parts: Sequence[str]) -> bool:
    return any(part in name for part in parts)


def _figures(name: str, report: FuzzReport) -> str:
    figures = {
        "parsers": name,
        "inputs": report.n_inputs,
        "refused": report.n_refused,
        "errors": len(report.errors),
        "slow": len(report.slow),
        "longest_s": round(report.longest_s, 3),
    }
    return json.dumps(figures)


if __name__ == "__main__":
    raise SystemExit(main())
