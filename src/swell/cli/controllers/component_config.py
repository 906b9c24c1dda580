"""The operator's configuration file, `--config`: versioned, or a plain map of flags to values.

A versioned file has `apiVersion`, `kind`, and flags in the spelling of Kubernetes' own component
files: `gcPeriod` for `--gc-period`. The plain form is that of Swell 0.1.0.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from pathlib import Path

import typer

from swell.cli.command_line import USAGE, CommandError

API_VERSION = "config.elasticdeeplearning.ai/v1alpha1"
KIND = "OperatorConfiguration"
_GATES = "feature_gates"


def read_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take values from a file for flags that neither command line nor environment gives.

    It is the callback of an eager option: it runs before the other flags are read, whose defaults
    it sets.
    """
    if path is None:
        return None
    known = {parameter.name for parameter in context.command.params if parameter.name} - {"config"}
    context.default_map = {**(context.default_map or {}), **values(path, known)}
    return path


def values(path: Path, known: Collection[str]) -> dict[str, object]:
    """The values in a file by parameter; CommandError if they are for none."""
    found = _read(path)
    if "apiVersion" in found or "kind" in found:
        return _versioned(path, found, known)
    plain = {str(name).lstrip("-").replace("-", "_"): value for name, value in found.items()}
    unknown = sorted(name for name in plain if name not in known)
    if unknown:
        raise CommandError(f"{path}: no such flags: {', '.join(unknown)}", exit_code=USAGE)
    return plain


def _read(path: Path) -> Mapping[str, object]:
    from swell.api.manifest.composer import ManifestSyntaxError
    from swell.api.manifest.yamldata import read_document

    try:
        found = read_document(path.read_bytes()) or {}
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error}", exit_code=USAGE) from error
    except ManifestSyntaxError as error:
        problem = f"line {error.line}: {error.message}"
        raise CommandError(f"cannot read {path}: {problem}", exit_code=USAGE) from error
    if not isinstance(found, dict):
        raise CommandError(f"{path} is not a map of flags to values", exit_code=USAGE)
    return found


def _versioned(
    path: Path, found: Mapping[str, object], known: Collection[str]
) -> dict[str, object]:
    """Fields in camel case; every mistake is named at once."""
    mistakes = [
        f"{name}: {found.get(name)!r} is not known; write {wanted}"
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND))
        if found.get(name) != wanted
    ]
    by_field = {_camel(name): name for name in known}
    taken: dict[str, object] = {}
    for field, value in found.items():
        if field in {"apiVersion", "kind"}:
            continue
        if field not in by_field:
            near = get_close_matches(str(field), by_field, 1, 0.5)
            mistakes.append(
                f"{field}: unknown field" + (f"; did you mean {near[0]}?" if near else "")
            )
        else:
            taken[by_field[field]] = value
    listed = taken.get(_GATES)
    if isinstance(listed, dict):
        taken[_GATES] = ",".join(f"{name}={str(on).lower()}" for name, on in listed.items())
    if mistakes:
        raise CommandError(f"{path}: {'; '.join(mistakes)}", exit_code=USAGE)
    return taken


def _camel(name: str) -> str:
    return re.sub(r"_(\w)", lambda found: found[1].upper(), name)
